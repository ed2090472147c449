// SPDX-License-Identifier: Apache-2.0
// Waits, after a work or a peer took a key back, until no worker uses the key any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace uroce::datapath {

class GracePeriods;
class QueuePair;

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
    uint64_t copies_begun = 0;
  };
  bool HasEnded(Wait& wait) const;

  GracePeriods* const grace_;
  std::vector<Wait> waits_;
};

}  // namespace uroce::datapath
