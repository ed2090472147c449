// SPDX-License-Identifier: Apache-2.0
// Waits until no worker uses an object or a key any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

struct rte_rcu_qsbr;

namespace uroce::datapath {

class QueuePair;

/// The grace periods of all workers that share tables: they tell when no worker uses an unpublished
/// object any more. They send workers no messages, and do not wake those that sleep. A worker keeps
/// nothing from a table beyond the turn in which it looked there, says so once per turn, and reads
/// nothing while it sleeps.
class GracePeriods {
 public:
  explicit GracePeriods(uint32_t workers);

  // ---- worker `index` ----
  /// The worker may read tables from here on, until Leave.
  void Enter(uint32_t index);
  /// The worker holds nothing of the tables at this moment.
  void Pass(uint32_t index);
  void Leave(uint32_t index);

  // ---- any thread ----
  /// Begins a grace period and returns its token. HasPassed tells when it is over. A worker that
  /// calls Start must pass as well.
  uint64_t Start();
  bool HasPassed(uint64_t token) const;

  // ---- control ----
  /// Returns when every worker that was inside has passed or left since the call. Takes as long as
  /// the longest turn.
  void Wait();

 private:
  struct Free {
    void operator()(rte_rcu_qsbr* state) const;
  };
  std::unique_ptr<rte_rcu_qsbr, Free> state_;
};

/// The queue pairs of one worker that wait. Taking a key back may be confirmed only when no access
/// by it can be under way, neither on another worker nor at the helper of copied memory.
class KeyWaits {
 public:
  /// `grace` is null when the daemon has one worker.
  explicit KeyWaits(GracePeriods* grace) : grace_(grace) {}

  /// Who took the key back, and waits: a work of the queue pair, or a packet of its peer.
  enum class Waiting : uint8_t { kWork, kPacket };

  /// Adds a wait of `qp`. One work and one packet of it may wait.
  void Add(QueuePair& qp, Waiting waiting);
  /// Forgets the waits of the queue pair.
  void Remove(const QueuePair& qp);
  bool empty() const { return waits_.empty(); }
  /// Calls `on_end(QueuePair&, Waiting)` for each wait that is over; the call may add new ones. A
  /// work waits on while its queue pair waits for a copy.
  template <typename OnEnd>
  void TakeEnded(OnEnd&& on_end) {
    for (size_t i = 0; i < waits_.size();) {
      if (!HasEnded(waits_[i])) {
        ++i;
        continue;
      }
      const Wait ended = waits_[i];
      waits_[i] = waits_.back();
      waits_.pop_back();
      on_end(*ended.qp, ended.waiting);
    }
  }

 private:
  struct Wait {
    QueuePair* qp = nullptr;
    Waiting waiting = Waiting::kWork;
    bool in_grace = true;  ///< Then the copies that had begun by its end.
    uint64_t grace_token = 0;
    uint64_t copy_generation = 0;
  };
  bool HasEnded(Wait& wait) const;

  GracePeriods* const grace_;
  std::vector<Wait> waits_;
};

}  // namespace uroce::datapath
