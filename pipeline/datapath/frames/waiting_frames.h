// SPDX-License-Identifier: Apache-2.0
// Frames that wait at a worker: in a queue from another worker, behind missing packets, or until a
// copy ends. Workers, programs and queue pairs have shares of the room for them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/port/frames.h"
#include "pipeline/port/qpn_owners.h"
#include "pipeline/wire/packet.h"

struct rte_mbuf;

namespace uroce::datapath {

// Queues by which workers give frames to each other, and the gates that say which queue pairs take
// no more of them.

/// One gate per queue pair number, open unless the owning worker has closed it. While a gate is
/// closed, a peer in the same daemon holds its packets back (those of a remote peer would be lost),
/// and the wire between them stays free for others. The worker that owns the queue pair closes and
/// opens the gate. Any worker reads it, and may see a change late.
class ReceiveGates {
 public:
  bool IsClosed(Qpn qpn) const {
    return (WordOf(qpn).load(std::memory_order_relaxed) & Bit(qpn)) != 0;
  }
  void Close(Qpn qpn) { WordOf(qpn).fetch_or(Bit(qpn), std::memory_order_relaxed); }
  void Open(Qpn qpn) { WordOf(qpn).fetch_and(~Bit(qpn), std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kNumbers = 1u << 24;
  static constexpr uint32_t kBits = 64;

  static uint64_t Bit(Qpn qpn) { return uint64_t{1} << qpn.value() % kBits; }
  std::atomic<uint64_t>& WordOf(Qpn qpn) const { return words_[qpn.value() % kNumbers / kBits]; }

  std::unique_ptr<std::atomic<uint64_t>[]> words_ =
      std::make_unique<std::atomic<uint64_t>[]>(kNumbers / kBits);
};

// Frames that came in at a queue which is not their owner's.

/// The queues between the workers of a daemon: one from each to each other. A frame in a queue
/// refers to nothing but itself and its device, so it keeps nothing alive: its owner looks up
/// again whom it is for.
class CrossWorkerQueues {
 public:
  static constexpr uint32_t kDepthFrames = 512;
  /// `wake(worker)` ends the sleep of a worker that sleeps.
  CrossWorkerQueues(uint32_t workers, std::function<void(uint32_t)> wake);
  uint32_t workers() const { return workers_; }
  drivers::FrameQueue& Queue(uint32_t from, uint32_t to) { return *queues_[from * workers_ + to]; }
  void Wake(uint32_t worker) { wake_(worker); }
  /// The receive gates of the queue pairs of all workers.
  ReceiveGates& gates() { return gates_; }
  QpnOwners& owners() { return owners_; }
  const QpnOwners& owners() const { return owners_; }

 private:
  const uint32_t workers_;
  const std::function<void(uint32_t)> wake_;
  std::vector<std::unique_ptr<drivers::FrameQueue>> queues_;
  ReceiveGates gates_;
  QpnOwners owners_;
};

/// One worker's ends of these queues. Used by that worker's thread.
class CrossWorkerLink {
 public:
  /// `queues` is null when the daemon has one worker; `index` is 0 then.
  CrossWorkerLink(CrossWorkerQueues* queues, uint32_t index);

  uint32_t index() const { return index_; }
  uint32_t workers() const { return workers_; }
  uint32_t OwnerOf(Qpn qpn) const {
    return queues_ == nullptr ? 0 : queues_->owners().OwnerOf(qpn);
  }

  /// Gives a frame to another worker. `position` names its device, which may be removed before the
  /// worker takes the frame. False: the queue is full, and the caller keeps the frame.
  [[nodiscard]] bool Give(uint32_t to, uint16_t position, rte_mbuf* frame);
  /// Makes the next WakeTakers wake `worker`, which has something new where it looks each turn.
  void WantWake(uint32_t worker) { to_wake_ |= SetOf(worker); }
  /// Wakes the workers that have something new. Called at the end of a burst.
  void WakeTakers() {
    if (to_wake_ != 0) WakeAll();
  }

  /// Null when the daemon has one worker.
  ReceiveGates* gates() const { return queues_ == nullptr ? nullptr : &queues_->gates(); }

  /// Takes up to `count` frames of other workers. PositionOf tells which device a frame is of.
  uint16_t Take(rte_mbuf** frames, uint16_t count);
  static uint16_t PositionOf(const rte_mbuf& frame);
  bool empty() const;

 private:
  void WakeAll();

  CrossWorkerQueues* const queues_;
  const uint32_t index_;
  const uint32_t workers_;
  uint32_t first_ = 0;  // The worker whose queue is looked into first.
  WorkerSet to_wake_ = 0;
};

// The shares. Frames that do not come back stop everybody, so frames that a program can keep from
// coming back are counted: per program, and per user, who may have many programs.

/// How many frames may be held for one purpose.
struct FrameLimits {
  uint32_t of_worker = 0;  ///< 0: no frame may be held.
  uint32_t of_program = 0;
  uint32_t of_queue_pair = 0;
};

/// How many frames are held for one purpose.
struct FrameCounts {
  uint32_t all = 0;
  uint32_t of_user = 0;
  uint32_t of_program = 0;
  uint32_t of_queue_pair = 0;
};

/// How many more frames a user may hold. A user may hold as many as are free for all users.
constexpr uint32_t LeftToUser(const FrameLimits& limits, const FrameCounts& held) {
  return limits.of_worker - std::min(limits.of_worker, held.all + held.of_user);
}

/// Whether a queue pair may hold one more frame. Holders leave room for others: a user holds at
/// most as many frames as are free for all, a program and a queue pair at most as many as their
/// user may still take. So a program that is alone holds a third at most.
constexpr bool HasRoom(const FrameLimits& limits, const FrameCounts& held) {
  const uint32_t left = LeftToUser(limits, held);
  return held.of_program < std::min(limits.of_program, left) &&
         held.of_queue_pair < std::min(limits.of_queue_pair, left);
}

/// Frames that one user's programs hold at one worker. Those in copy jobs may outlive a program.
struct UserFrames {
  UserFrames(uint32_t its_uid, std::shared_ptr<std::atomic<uint32_t>> all)
      : uid(its_uid), all_waiting(std::move(all)) {}

  const uint32_t uid;
  uint32_t kept = 0;                                         ///< See KeptFramePool.
  std::atomic<uint32_t> waiting{0};                          ///< See WaitingFrames.
  const std::shared_ptr<std::atomic<uint32_t>> all_waiting;  ///< The worker's total.
};

/// The frames that one program of a user holds at one worker.
struct ProgramFrames {
  std::shared_ptr<UserFrames> user;
  uint32_t kept = 0;
  uint32_t waiting = 0;
};

// Frames that came behind a missing packet, until their turn
// (pipeline/transport/loss-recovery.md).

/// Tells where in the pool the frames of one queue pair lie. Accessed only while it keeps any.
class KeptFrames {
 public:
  bool any() const { return count_ != 0; }

 private:
  friend class KeptFramePool;
  static constexpr uint32_t kWindow = 2048;  ///< transport::PacketSet::kWindow.
  static constexpr uint32_t kPerChunk = 64;
  static constexpr uint16_t kNone = 0;

  static uint32_t SlotOf(wire::Psn psn) { return psn.value() % kWindow / kPerChunk; }

  std::array<uint16_t, kWindow / kPerChunk> chunks_{};  ///< By PSN; kNone, or the index plus one.
  uint32_t count_ = 0;
};

/// All frames that a worker's queue pairs keep, in chunks of consecutive PSNs. The pool allocates
/// nothing after construction. One thread.
class KeptFramePool {
 public:
  explicit KeptFramePool(const FrameLimits& limits);

  /// Takes the frame. False: there is no room for it, or `psn` is kept already.
  [[nodiscard]] bool Keep(KeptFrames& kept, ProgramFrames& program, wire::Psn psn, rte_mbuf* frame);
  /// Returns the frame of `psn`, which leaves the pool; null when it is not kept.
  rte_mbuf* Take(KeptFrames& kept, ProgramFrames& program, wire::Psn psn);
  /// Frees all frames of one queue pair. Returns their number.
  uint32_t Drop(KeptFrames& kept, ProgramFrames& program);
  uint32_t count() const { return count_; }

 private:
  struct Chunk {
    std::array<rte_mbuf*, KeptFrames::kPerChunk> frames;
    uint32_t count;
  };

  void Count(KeptFrames& kept, ProgramFrames& program, int32_t change);
  Chunk& At(uint16_t number) { return chunks_[number - 1]; }
  uint16_t TakeChunk();
  void ReleaseIfEmpty(uint16_t& number);

  const FrameLimits limits_;
  std::unique_ptr<Chunk[]> chunks_;
  std::vector<uint16_t> free_;  ///< Numbers of chunks.
  uint32_t count_ = 0;
};

// Counts frames that wait for a program's copy helper, or behind one that does. Access to the
// program's memory can delay them for as long as the program likes.

/// Counts the waiting frames of a worker, each once: packets that a queue pair keeps behind a copy
/// job, the job's own frames, and payload that was prefetched. Used by the worker's thread, except
/// as JobFrames says.
class WaitingFrames {
 public:
  explicit WaitingFrames(const FrameLimits& limits);

  /// Whether one more may wait for a queue pair of `program` that has `of_queue_pair` already.
  bool HasRoom(const ProgramFrames& program, uint32_t of_queue_pair = 0) const {
    return all_->load(std::memory_order_relaxed) < ample_ ||
           datapath::HasRoom(limits_, Counts(program, of_queue_pair));
  }
  /// How many frames may wait for `program`, given the number that waits in all.
  uint32_t Most(const ProgramFrames& program) const {
    return std::min(limits_.of_program, LeftToUser(limits_, Counts(program, 0)));
  }
  static void Take(ProgramFrames& program, uint32_t count = 1);
  static void Give(ProgramFrames& program, uint32_t count = 1);

  /// The worker's total, for UserFrames.
  const std::shared_ptr<std::atomic<uint32_t>>& all() const { return all_; }

  /// The frames that a copy job alone holds, from Begin until End or until the job is destroyed,
  /// which may happen on any thread and after the program has gone. Frames that a queue pair keeps
  /// as well are counted there, until the queue pair abandons the job: see Add.
  class JobFrames {
   public:
    JobFrames() = default;
    JobFrames(const JobFrames&) = delete;
    JobFrames& operator=(const JobFrames&) = delete;
    ~JobFrames() { Release(); }
    void Begin(ProgramFrames& program, uint32_t frames);
    // Add and End are called on the worker's thread while `program`, as given to Begin, exists.
    /// Counts frames that the queue pair keeps no longer, but the job does.
    void Add(uint32_t frames);
    void End();

   private:
    void Release();

    ProgramFrames* program_ = nullptr;
    std::shared_ptr<UserFrames> user_;
    uint32_t frames_ = 0;
  };

 private:
  FrameCounts Counts(const ProgramFrames& program, uint32_t of_queue_pair) const;

  const FrameLimits limits_;
  const uint32_t ample_;  ///< While fewer wait in all, each queue pair may have one more.
  const std::shared_ptr<std::atomic<uint32_t>> all_;
};

}  // namespace uroce::datapath
