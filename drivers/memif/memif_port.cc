// SPDX-License-Identifier: Apache-2.0
#include "drivers/memif/memif_port.h"

#include <rte_mbuf.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "drivers/memif/memif_connection.h"
#include "pipeline/base/observation.h"
#include "pipeline/os/event_signal.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/side_thread.h"
#include "pipeline/port/frames.h"

namespace uroce::drivers {
namespace {

// A memif has no wire whose speed could be reported; a memory bus carries about this much.
constexpr uint64_t kSpeedBps = 100'000'000'000;
/// How long a peer may leave the ring full before frames are dropped instead of held back. A peer
/// that shares its core with many others runs again within this time.
constexpr Nanos kRefusalLimit{1'000'000'000};
/// A sender without a fence may miss that we asked for a wake-up; after this time its frame is
/// visible.
constexpr Nanos kLookAgain{50'000};
constexpr uint16_t kBurst = 32;
/// Counts ended connections too, while a thread of theirs is blocked in closing the peer's fds.
constexpr long kMostConnections = 8;

class MemifPort final : public Port {
 public:
  MemifPort(MemifConfig config, Fd listener, EventSignal signal, rte_mempool* pool);
  ~MemifPort() override;

  uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitRoom(uint16_t queue) const override;
  int wait_fd(uint16_t) const override { return wake_.fd(); }
  bool BeforeSleep(uint16_t queue) override;
  void AfterSleep(uint16_t queue) override;
  Nanos NextDeadline(uint16_t) const override { return look_again_at_; }

  PortInfo Info() const override;
  PortCounters counters() const override;
  void Maintain(WhileIdle while_idle) override;
  int maintain_fd() const override { return maintain_.fd(); }

 private:
  bool HasRoom() const;
  void Knock();
  void Admit();
  void TakeOver(Fd socket);
  void Drop(WhileIdle while_idle);
  void SetActive(MemifConnection* connection);
  void WatchRoom(Nanos now);

  const MemifConfig config_;
  rte_mempool* const pool_;

  // Control thread.
  const std::shared_ptr<void> room_ = std::make_shared<char>();  ///< Each connection holds it.
  Fd listener_;                                                  ///< Of a server; else empty.
  Epoll maintain_;
  std::unique_ptr<MemifConnection> connection_;
  bool link_up_ = false;
  std::string why_down_;

  // Used by the worker, and by the control thread inside `while_idle`.
  MemifConnection* active_ = nullptr;  ///< `connection_` while it is connected.
  ReceiveWake wake_;
  EventSignal signal_;
  Nanos now_;
  Nanos look_again_at_ = kNever;
  Nanos refused_since_ = kNever;
  bool is_stuck_ = false;  ///< The peer takes no more frames.

  std::atomic<bool> is_corrupt_{false};  ///< The worker asks control to end the connection.
  std::atomic<uint64_t> tx_dropped_{0};
  std::atomic<uint64_t> rx_dropped_{0};
};

MemifPort::MemifPort(MemifConfig config, Fd listener, EventSignal signal, rte_mempool* pool)
    : config_(std::move(config)),
      pool_(pool),
      listener_(std::move(listener)),
      signal_(std::move(signal)) {
  if (listener_) maintain_.Add(listener_.get());
  why_down_ = config_.is_server ? "no client yet" : "no server yet";
}

MemifPort::~MemifPort() {
  if (!listener_) return;
  unlink(config_.socket.c_str());
  // Also closes the fds that clients in the backlog have sent.
  SideThread().End(std::make_shared<Fd>(std::move(listener_)));
}

// ---- worker ----

uint16_t MemifPort::ReceiveBurst(uint16_t, rte_mbuf** frames, uint16_t count, Nanos now) {
  now_ = now;
  look_again_at_ = kNever;
  if (active_ == nullptr) return 0;
  MemifReceiver& receiver = active_->receiver();
  const uint16_t received = receiver.Receive(frames, count);
  if (const uint64_t dropped = receiver.TakeTooLong(); dropped != 0) Count(rx_dropped_, dropped);
  WatchRoom(now);
  if (receiver.is_corrupt() || active_->sender().is_corrupt()) {
    is_corrupt_.store(true, std::memory_order_relaxed);
  }
  return received;
}

/// Notes since when the ring has been full, and whether that is too long.
void MemifPort::WatchRoom(Nanos now) {
  if (active_->sender().room() != 0) {
    refused_since_ = kNever;
    is_stuck_ = false;
    return;
  }
  if (refused_since_ == kNever) refused_since_ = now;
  is_stuck_ = now - refused_since_ > kRefusalLimit;
}

uint16_t MemifPort::TransmitRoom(uint16_t) const {
  if (active_ == nullptr) return kBurst;
  const uint16_t room = active_->sender().Room(kBurst);
  return is_stuck_ ? kBurst : room;
}

uint16_t MemifPort::TransmitBurst(uint16_t, rte_mbuf** frames, uint16_t count, Nanos) {
  const uint16_t sent = active_ == nullptr ? 0 : active_->sender().Send(frames, count);
  if (active_ != nullptr && !is_stuck_) return sent;
  rte_pktmbuf_free_bulk(frames + sent, count - sent);
  Count(tx_dropped_, count - sent);
  return count;
}

bool MemifPort::BeforeSleep(uint16_t) {
  if (active_ == nullptr) return true;
  MemifReceiver& receiver = active_->receiver();
  const bool is_new = !receiver.is_wake_asked();
  if (is_new) look_again_at_ = now_ + kLookAgain;
  return receiver.AskForWake();
}

// The peer's eventfd is never read: a read may block, whatever flags were set before.
void MemifPort::AfterSleep(uint16_t) {
  if (active_ != nullptr) wake_.Drain();
}

// ---- control ----

PortInfo MemifPort::Info() const {
  PortInfo info;
  info.mac = config_.mac;
  info.mtu_bytes = MemifMtuBytes(config_);
  info.link_up = link_up_;
  info.why_down = why_down_;
  info.speed_bps = kSpeedBps;
  info.driver = kMemifDriver;
  return info;
}

PortCounters MemifPort::counters() const {
  return {.tx_discards = tx_dropped_.load(std::memory_order_relaxed),
          .rx_missed = rx_dropped_.load(std::memory_order_relaxed)};
}

void MemifPort::Maintain(WhileIdle while_idle) {
  if (connection_ != nullptr) {
    connection_->OnReadable();
    if (is_corrupt_.exchange(false, std::memory_order_relaxed)) {
      connection_->End("impossible words in a ring");
    }
    // A client that was turned away waits until the next Maintain before it connects again.
    if (connection_->state() == MemifConnection::State::kEnded) return Drop(while_idle);
  } else if (!config_.is_server) {
    Knock();
  }
  if (config_.is_server) Admit();
  const bool is_connected =
      connection_ != nullptr && connection_->state() == MemifConnection::State::kConnected;
  if (!is_connected || link_up_) return;
  link_up_ = true;
  why_down_.clear();
  while_idle([this] { SetActive(connection_.get()); });
}

/// Called on the worker's thread, or while no worker runs.
void MemifPort::SetActive(MemifConnection* connection) {
  active_ = connection;
  refused_since_ = look_again_at_ = kNever;
  is_stuck_ = false;
  if (connection != nullptr) wake_.Add(connection->event_fd());
}

void MemifPort::Drop(WhileIdle while_idle) {
  why_down_ = connection_->reason();
  link_up_ = false;
  while_idle([this] {
    wake_.RemoveAll();
    SetActive(nullptr);
  });
  connection_.reset();
}

bool MemifPort::HasRoom() const {
  if (room_.use_count() - 1 < kMostConnections) return true;
  SideThread::LaunchStranded();
  return false;
}

void MemifPort::Knock() {
  if (!HasRoom()) return;
  Fd socket = ConnectMemif(config_.socket);
  if (socket) TakeOver(std::move(socket));
}

// A client that never finishes its handshake must not block the next client.
void MemifPort::Admit() {
  const bool has_room = HasRoom();
  Fd socket = has_room ? AcceptMemif(listener_.get()) : Fd();
  if (socket || (has_room && errno == EAGAIN)) {
    maintain_.Add(listener_.get());
  } else {
    maintain_.Remove(listener_.get());  // It stays readable; the next Maintain looks at it.
  }
  if (!socket) return;
  if (link_up_) {
    MemifConnection(config_, std::move(socket), &signal_, pool_, room_).End("already connected");
    return;
  }
  TakeOver(std::move(socket));
}

void MemifPort::TakeOver(Fd socket) {
  connection_ =
      std::make_unique<MemifConnection>(config_, std::move(socket), &signal_, pool_, room_);
  maintain_.Add(connection_->fd());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Port>> OpenPort(const MemifConfig& kind, const PortOptions& options,
                                               rte_mempool* pool) {
  if (options.flow_control) {
    return absl::UnimplementedError(absl::StrCat("flow-control=", NameOf(*options.flow_control),
                                                 ": a memif has no link pause"));
  }
  absl::StatusOr<EventSignal> signal = EventSignal::Make();
  absl::Status status = signal.status();
  if (!kind.is_server) status.Update(CheckMemifDirectory(kind.socket));
  // The listener comes last, since any process may connect at once: from here on only the port
  // closes it.
  absl::StatusOr<Fd> listener = Fd();
  if (status.ok() && kind.is_server) listener = ListenForMemif(kind.socket);
  status.Update(listener.status());
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("dev \"", kind.device, "\": ", status.message()));
  }
  return std::make_unique<MemifPort>(kind, *std::move(listener), *std::move(signal), pool);
}

}  // namespace uroce::drivers
