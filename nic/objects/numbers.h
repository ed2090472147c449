// SPDX-License-Identifier: Apache-2.0
// Numbers that are unique in the daemon: of queue pairs, keys and XRC receive queues; and
// protection domains, which several programs may share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "nic/base/allocators.h"
#include "pipeline/base/types.h"
#include "pipeline/datapath/memory/memory_keys.h"

namespace uroce::nic {

/// Where the queue pairs of a NIC are.
struct NicPlace {
  /// A cable inside the daemon, at one of whose ends the NIC is.
  struct CableEnd {
    uint32_t cable = 0;
    uint32_t device = 0;  ///< The NIC.
  };
  std::optional<CableEnd> end;
  WorkerSet drivers = ~WorkerSet{0};  ///< Those that drive the NIC's port, or its network.
};

/// Allocates numbers of queue pairs, and counts the queue pairs of each worker. A number says the
/// worker that its queue pair begins at (pipeline/base/types.h). Control thread.
class QueuePairNumbers {
 public:
  explicit QueuePairNumbers(uint32_t workers, NumberPool::Random random = SecureRandom)
      : pool_(24, 0, random), counts_(workers) {}

  /// The worker for a new queue pair: the one to which an object that it uses is `bound`, or the
  /// one with the fewest queue pairs of those that drive the NIC's port: others would hand each
  /// frame to them. On a cable it is the one with the fewest of the same end, and both ends go
  /// through the workers in the same order: programs that connect make their queue pairs in the
  /// same order, and a connection is twice as fast when one worker has both.
  uint32_t WorkerFor(std::optional<uint32_t> bound, const NicPlace& place = {}) const;
  /// Takes a number for a queue pair of `worker`, which counts it from now on. 0: there is none.
  uint32_t Take(uint32_t worker, Nanos now, const NicPlace& place = {});
  /// The queue pair has moved from one worker to another. `place` is that of Take.
  void Move(uint32_t from, uint32_t to, const NicPlace& place = {});
  /// The queue pair has left `worker`. `place` is that of Take.
  void Release(Qpn qpn, uint32_t worker, Nanos now, const NicPlace& place = {});

  uint32_t count_on(uint32_t worker) const { return counts_[worker]; }
  size_t held() const { return pool_.held(); }

 private:
  uint32_t workers() const { return static_cast<uint32_t>(counts_.size()); }
  /// The worker with the fewest of the end.
  uint32_t WorkerAt(const NicPlace::CableEnd& end) const;
  void Count(uint32_t worker, const NicPlace& place, int32_t change);

  NumberPool pool_;
  std::vector<uint32_t> counts_;  ///< By worker.
  /// By NIC on a cable, then by worker.
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>> counts_on_cables_;
};

/// Chooses one worker for both ends of each connection inside the daemon: a connection is several
/// times as fast there, since its packets need no frames. The end that is connected first goes to
/// the worker with the fewest connected queue pairs, and the other one follows. A queue pair moves
/// when it is connected for the first time, or never. Control thread.
class ConnectionPlacement {
 public:
  explicit ConnectionPlacement(uint32_t workers) : connected_(workers) {}

  /// A queue pair that may be connected. `may_move`: no object that it uses binds it to its worker.
  void Add(Qpn qpn, bool may_move) { ends_.try_emplace(qpn.value(), End{.may_move = may_move}); }
  void Remove(Qpn qpn);
  bool MayMove(Qpn qpn) const;
  /// The worker for `own`, now on `worker`, which is about to be connected to `remote`, which is on
  /// `remote_worker`. A `remote` that is not known counts as one that stays.
  uint32_t WorkerFor(Qpn own, uint32_t worker, Qpn remote, uint32_t remote_worker) const;
  /// `own`, which was added, is connected and stays on `worker` from now on.
  void Connect(Qpn own, uint32_t worker);
  /// `own`, which is connected, goes on at `worker`.
  void Move(Qpn own, uint32_t worker);
  uint32_t connected_on(uint32_t worker) const { return connected_[worker]; }

 private:
  struct End {
    bool may_move = false;
    bool is_connected = false;
    uint32_t worker = 0;  ///< Of one that is connected.
  };

  absl::flat_hash_map<uint32_t, End> ends_;  ///< By number.
  std::vector<uint32_t> connected_;          ///< By worker.
};

/// Control thread.
struct Numbers {
  explicit Numbers(uint32_t workers) : queue_pairs(workers), connections(workers) {}

  /// The count of one kind of numbers in use, with its name in dumps.
  struct Held {
    const char* name;
    size_t count;
  };
  std::array<Held, 3> held() const {
    return {{{"qpns", queue_pairs.held()}, {"keys", keys.held()}, {"srqns", srqs.held()}}};
  }

  QueuePairNumbers queue_pairs;
  ConnectionPlacement connections;
  NumberPool keys{32, 8};  ///< Of regions and windows.
  NumberPool srqs{24, 0};  ///< XRC requests name shared receive queues by these.
};

/// One protection domain, which several programs may share. Its maker and each program that imports
/// it have ProtectionDomains for it; a program may have several. Copied memory is reached only by
/// the copy helper of the program that registered it. So a domain either has copied memory or is
/// shared by programs, never both. Control thread.
class Domain {
 public:
  /// The domain stays in this use while the object is held.
  using Use = std::shared_ptr<const void>;

  explicit Domain(uint32_t number) : number_(number) {}

  /// Unique in the daemon: keys and queue pairs are compared by it.
  uint32_t number() const { return number_; }
  /// For a region with copied memory. Null if the domain is shared.
  Use HoldCopiedMemory() { return Begin(copied_memory_, shared_); }
  /// For a program other than its maker. Null if the domain has copied memory.
  Use Share() { return Begin(shared_, copied_memory_); }

 private:
  using Users = std::weak_ptr<const void>;
  static Use Begin(Users& its, const Users& other);

  const uint32_t number_;
  Users copied_memory_;
  Users shared_;
};

/// All domains of the daemon. Outlives them. Control thread.
class Domains {
 public:
  /// Numbers are in [1, most]. Range: more than the number of domains at any time.
  explicit Domains(uint32_t most = UINT32_MAX) : most_(most) {}
  Domains(const Domains&) = delete;
  Domains& operator=(const Domains&) = delete;

  /// Makes a domain with an unused number.
  std::shared_ptr<Domain> Make();

 private:
  const uint32_t most_;
  uint32_t last_ = datapath::kNoPd;
  absl::flat_hash_set<uint32_t> held_;
};

}  // namespace uroce::nic
