// SPDX-License-Identifier: Apache-2.0
// One connection of a memif: from a connected socket over the handshake to two rings.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "drivers/event_signal.h"
#include "drivers/fd.h"
#include "drivers/memif_config.h"
#include "drivers/memif_memory.h"
#include "drivers/memif_protocol.h"
#include "drivers/memif_queue.h"

namespace uroce::drivers {

/// Control thread; a worker uses `sender` and `receiver` of one that is connected. The end of the
/// object unmaps what they work on.
class MemifConnection {
 public:
  enum class State : uint8_t { kHandshake, kConnected, kEnded };

  /// `socket` does not block. The server speaks first. Frames go into mbufs of `pool`; `signal`,
  /// which outlives the object, wakes the peer.
  MemifConnection(const MemifConfig& config, Fd socket, EventSignal* signal, rte_mempool* pool);
  /// Tells the peer that it is over, where that has not been said.
  ~MemifConnection();
  MemifConnection(const MemifConnection&) = delete;
  MemifConnection& operator=(const MemifConnection&) = delete;

  /// Reads what has come, and answers.
  State OnReadable();
  /// Ends it, and says why to the peer.
  void End(absl::string_view why);

  State state() const { return state_; }
  /// Why it ended.
  const std::string& reason() const { return reason_; }
  int fd() const { return socket_.get(); }
  /// Of the ring that we receive on; -1 before it is there.
  int event_fd() const { return receive_.event_fd.get(); }
  /// Of the ring that the peer receives on.
  int peer_event_fd() const { return send_.event_fd.get(); }
  /// The first region.
  std::span<uint8_t> memory() const { return regions_.front(); }
  MemifSender& sender() { return *sender_; }
  MemifReceiver& receiver() { return *receiver_; }

 private:
  struct RingPlace {
    uint16_t region = 0;
    uint32_t offset_bytes = 0;
    uint8_t log2_slots = 0;
    Fd event_fd;
  };

  bool ReadOne();
  absl::Status OnMessage(const memif::Message& message, Fd fd);
  absl::Status OnHello(const memif::Hello& hello);
  absl::Status OnInit(const memif::Init& init);
  absl::Status OnAddRegion(const memif::AddRegion& request, Fd fd);
  absl::Status OnAddRing(const memif::AddRing& request, Fd fd);
  absl::Status OnConnect();
  absl::Status MakeMemory();
  absl::Status StartRings();
  absl::StatusOr<MemifRing> FindRing(const RingPlace& place, bool to_server) const;
  void QueueRequests();
  absl::Status SendNext();
  absl::Status Send(const memif::Message& message, int fd = -1);

  const MemifConfig config_;
  EventSignal* const signal_;
  rte_mempool* const pool_;
  Fd socket_;
  State state_ = State::kHandshake;
  std::string reason_;
  bool is_greeted_ = false;                              ///< Init or Hello has come.
  std::deque<std::pair<memif::Message, int>> requests_;  ///< A client's, one at a time.
  std::vector<MemifMemory> memories_;
  MemifRegions regions_;
  RingPlace send_;
  RingPlace receive_;
  std::optional<MemifSender> sender_;
  std::optional<MemifReceiver> receiver_;
};

}  // namespace uroce::drivers
