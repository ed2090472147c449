// SPDX-License-Identifier: Apache-2.0
// The handshake of a memif, from a socket's path to two rings.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "drivers/memif/memif_config.h"
#include "drivers/memif/memif_queue.h"
#include "pipeline/os/event_signal.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/side_thread.h"
#include "pipeline/os/unix_socket.h"

namespace uroce::drivers {

// ---- the control socket: a server listens on it, and a client connects to it ----

/// Listens at `path`, and replaces a socket file that no server listens at. Errors name path and
/// reason: a live server, another kind of file, a directory that is missing or not writable.
absl::StatusOr<Fd> ListenForMemif(const std::string& path);

/// A socket connected to the server at `path`; empty while no server listens there.
Fd ConnectMemif(const std::string& path);

/// OkStatus when the directory of `path` exists, for a client whose server may start later.
absl::Status CheckMemifDirectory(const std::string& path);

/// Accepts the next client of a listener; empty when none waits.
Fd AcceptMemif(int listener);

/// Used by the control thread. A worker uses `sender` and `receiver` while the state is kConnected.
/// Destruction unmaps the memory that these two use. It has a field for each thing that the
/// handshake agrees on, and for what is shared with the thread below.
///
/// A peer's fd may block the thread that receives it, looks at it or closes it. So each connection
/// has a side thread, which receives each message with fds, and checks, maps and closes the fds.
/// The control thread never waits for it, and only learns the outcome.
class MemifConnection {
 public:
  enum class State : uint8_t { kHandshake, kConnected, kEnded };

  /// `socket` is non-blocking. The server speaks first. Frames go into mbufs of `pool`. `signal`,
  /// which outlives the object, wakes the peer. `held` is released once the object and all that
  /// came from the peer are gone.
  MemifConnection(const MemifConfig& config, Fd socket, EventSignal* signal, rte_mempool* pool,
                  std::shared_ptr<void> held = nullptr);
  /// Tells the peer that the connection ends, unless the peer has been told.
  ~MemifConnection();
  MemifConnection(const MemifConnection&) = delete;
  MemifConnection& operator=(const MemifConnection&) = delete;

  /// Reads the messages that have come, and answers them.
  State OnReadable();
  /// Ends the connection, and tells the peer the reason.
  void End(absl::string_view why);

  State state() const { return state_; }
  /// Why the connection ended.
  const std::string& reason() const { return reason_; }
  /// Readable while OnReadable has something to do.
  int fd() const { return events_.fd(); }
  /// Whether the side thread has a message. Later messages wait until the thread is done with it.
  bool is_inspecting() const { return inspection_ != nullptr; }
  /// The eventfd of the ring that we receive on; -1 before the ring exists.
  int event_fd() const { return receive_.fd(); }
  /// The eventfd of the ring that the peer receives on; -1 before the ring exists.
  int peer_event_fd() const { return send_.fd(); }
  /// The first region.
  std::span<uint8_t> memory() const { return regions_.front(); }
  MemifSender& sender() { return *sender_; }
  MemifReceiver& receiver() { return *receiver_; }

 private:
  struct Inspection;
  struct RingPlace {
    uint16_t region = 0;
    uint32_t offset_bytes = 0;
    uint8_t log2_slots = 0;
    std::shared_ptr<Fd> event_fd;  ///< Ends on the thread: an epoll of the peer may have it too.
    int fd() const { return event_fd == nullptr ? -1 : event_fd->get(); }
  };

  bool ReadOne();
  bool ReadInspected();
  absl::Status StartInspection();
  /// `brought` is what came with the message, or null.
  absl::Status OnMessage(const memif::Message& message, Inspection* brought);
  absl::Status OnHello(const memif::Hello& hello);
  absl::Status OnInit(const memif::Init& init);
  absl::Status OnAddRegion(const memif::AddRegion& request, Inspection* brought);
  absl::Status OnAddRing(const memif::AddRing& request, Inspection* brought);
  absl::Status OnConnect();
  absl::Status MakeMemory();
  void AddRegion(MemifMemory memory);
  absl::Status StartRings();
  absl::StatusOr<MemifRing> FindRing(const RingPlace& place, bool to_server) const;
  void QueueRequests();
  absl::Status SendNext();
  absl::Status Send(const memif::Message& message, int fd = -1);

  const MemifConfig config_;
  EventSignal* const signal_;
  rte_mempool* const pool_;
  const std::shared_ptr<SideThread> thread_;
  const std::shared_ptr<UntrustedSocket> socket_;
  const std::shared_ptr<Fd> inspected_;  ///< An eventfd that the side thread writes.
  Epoll events_;                         ///< `inspected_`, and `socket_` except in an inspection.
  std::shared_ptr<Inspection> inspection_;
  State state_ = State::kHandshake;
  std::string reason_;
  bool is_greeted_ = false;                              ///< Init or Hello has come.
  std::deque<std::pair<memif::Message, int>> requests_;  ///< Of a client: sent one at a time.
  std::vector<std::shared_ptr<MemifMemory>> memories_;   ///< Unmapped on the side thread.
  MemifRegions regions_;
  RingPlace send_;
  RingPlace receive_;
  std::optional<MemifSender> sender_;
  std::optional<MemifReceiver> receiver_;
};

}  // namespace uroce::drivers
