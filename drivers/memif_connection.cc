// SPDX-License-Identifier: Apache-2.0
#include "drivers/memif_connection.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace uroce::drivers {
namespace {

using memif::Message;
using memif::MessageType;

// Of one readiness: the loop has others to serve.
constexpr int kMessagesAtOnce = 32;
constexpr size_t kMaxRegions = 16;
constexpr char kName[] = "uroce";

template <size_t kBytes>
void CopyText(absl::string_view text, char (&field)[kBytes]) {
  const size_t length = std::min(text.size(), kBytes - 1);
  std::memcpy(field, text.data(), length);
  field[length] = '\0';
}

/// A text field that the peer may have filled to the brim.
template <size_t kBytes>
std::string Text(const char (&field)[kBytes]) {
  return {field, strnlen(field, kBytes)};
}

size_t RingBytes(uint8_t log2_slots) {
  return sizeof(memif::RingHeader) + (sizeof(memif::Descriptor) << log2_slots);
}

struct Received {
  ssize_t size = 0;  ///< As recvmsg says.
  Message message{};
  Fd fd;
};

/// One message with at most one fd; others that came with it are closed.
Received Receive(int socket) {
  Received received;
  iovec part{&received.message, sizeof(received.message)};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  received.size = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (received.size < 0) return received;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= item->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(item) + at, sizeof(fd));
      received.fd.Reset(fd);
    }
  }
  return received;
}

Message MakeMessage(MessageType type) {
  Message message{};
  message.type = type;
  return message;
}

}  // namespace

MemifConnection::MemifConnection(const MemifConfig& config, Fd socket, EventSignal* signal,
                                 rte_mempool* pool)
    : config_(config), signal_(signal), pool_(pool), socket_(std::move(socket)) {
  if (!config_.is_server) return;
  Message message = MakeMessage(MessageType::kHello);
  CopyText(kName, message.hello.name);
  message.hello.min_version = message.hello.max_version = memif::kVersion;
  message.hello.max_region = kMaxRegions - 1;
  message.hello.max_log2_ring_slots = memif::kMaxLog2RingSlots;
  if (absl::Status status = Send(message); !status.ok()) End(status.message());
}

MemifConnection::~MemifConnection() { End("closed"); }

void MemifConnection::End(absl::string_view why) {
  if (state_ == State::kEnded) return;
  state_ = State::kEnded;
  reason_ = std::string(why);
  Message message = MakeMessage(MessageType::kDisconnect);
  CopyText(why, message.disconnect.reason);
  static_cast<void>(Send(message));
}

MemifConnection::State MemifConnection::OnReadable() {
  for (int i = 0; i < kMessagesAtOnce && state_ != State::kEnded; ++i) {
    if (!ReadOne()) break;
  }
  return state_;
}

bool MemifConnection::ReadOne() {
  Received received = Receive(socket_.get());
  if (received.size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (received.size <= 0) {
    state_ = State::kEnded;
    reason_ = "the peer is gone";
    return false;
  }
  const absl::Status status = received.size == sizeof(Message)
                                  ? OnMessage(received.message, std::move(received.fd))
                                  : absl::InvalidArgumentError("a message of wrong size");
  if (!status.ok()) End(status.message());
  return true;
}

absl::Status MemifConnection::OnMessage(const Message& message, Fd fd) {
  if (message.type == MessageType::kDisconnect) {
    state_ = State::kEnded;
    reason_ = absl::StrCat("the peer says: ", Text(message.disconnect.reason));
    return absl::OkStatus();
  }
  const bool first = message.type == (config_.is_server ? MessageType::kInit : MessageType::kHello);
  if (state_ != State::kHandshake || first == is_greeted_) {
    return absl::FailedPreconditionError("a message out of turn");
  }
  if (config_.is_server) {
    switch (message.type) {
      case MessageType::kInit:
        return OnInit(message.init);
      case MessageType::kAddRegion:
        return OnAddRegion(message.add_region, std::move(fd));
      case MessageType::kAddRing:
        return OnAddRing(message.add_ring, std::move(fd));
      case MessageType::kConnect:
        return OnConnect();
      default:
        return absl::InvalidArgumentError("not a client's message");
    }
  }
  switch (message.type) {
    case MessageType::kHello:
      return OnHello(message.hello);
    case MessageType::kAck:
      return SendNext();
    case MessageType::kConnected:
      return StartRings();
    default:
      return absl::InvalidArgumentError("not a server's message");
  }
}

// ---- server ----

absl::Status MemifConnection::OnInit(const memif::Init& init) {
  is_greeted_ = true;
  if (init.version != memif::kVersion) return absl::InvalidArgumentError("not memif 2.0");
  if (init.mode != 0) return absl::InvalidArgumentError("not in Ethernet mode");
  if (init.id != config_.id) {
    return absl::NotFoundError(absl::StrCat("id ", init.id, " is not ", config_.id));
  }
  if (Text(init.secret) != config_.secret) return absl::PermissionDeniedError("wrong secret");
  return Send(MakeMessage(MessageType::kAck));
}

absl::Status MemifConnection::OnAddRegion(const memif::AddRegion& request, Fd fd) {
  if (request.index != memories_.size() || memories_.size() == kMaxRegions) {
    return absl::InvalidArgumentError("a region out of turn");
  }
  absl::StatusOr<MemifMemory> memory = MapMemifMemory(std::move(fd), request.size_bytes);
  if (!memory.ok()) return memory.status();
  memories_.push_back(*std::move(memory));
  regions_.push_back(memories_.back().bytes());
  return Send(MakeMessage(MessageType::kAck));
}

absl::Status MemifConnection::OnAddRing(const memif::AddRing& request, Fd fd) {
  const bool to_server = (request.flags & memif::kRingIsClientToServer) != 0;
  RingPlace& place = to_server ? receive_ : send_;
  if (request.index != 0 || place.event_fd) {
    return absl::InvalidArgumentError("more than one ring each way");
  }
  if (!IsEventFd(fd.get())) return absl::InvalidArgumentError("a ring without an eventfd");
  place = {request.region, request.offset_bytes, request.log2_slots, std::move(fd)};
  return Send(MakeMessage(MessageType::kAck));
}

absl::Status MemifConnection::OnConnect() {
  if (absl::Status status = StartRings(); !status.ok()) return status;
  Message message = MakeMessage(MessageType::kConnected);
  CopyText(kName, message.connect.name);
  return Send(message);
}

// ---- client ----

absl::Status MemifConnection::OnHello(const memif::Hello& hello) {
  is_greeted_ = true;
  if (hello.min_version > memif::kVersion || hello.max_version < memif::kVersion) {
    return absl::InvalidArgumentError("not memif 2.0");
  }
  const uint8_t log2_slots = std::min(config_.log2_ring_slots, hello.max_log2_ring_slots);
  send_.log2_slots = receive_.log2_slots = log2_slots;
  receive_.offset_bytes = static_cast<uint32_t>(RingBytes(log2_slots));
  if (absl::Status status = MakeMemory(); !status.ok()) return status;
  QueueRequests();
  return SendNext();
}

/// Both rings, then the buffers of the first, then those of the second.
absl::Status MemifConnection::MakeMemory() {
  const uint64_t buffers_bytes = uint64_t{config_.buffer_bytes} << send_.log2_slots;
  absl::StatusOr<MemifMemory> memory =
      MakeMemifMemory(2 * (RingBytes(send_.log2_slots) + buffers_bytes));
  if (!memory.ok()) return memory.status();
  memories_.push_back(*std::move(memory));
  regions_.push_back(memories_.back().bytes());
  for (RingPlace* place : {&send_, &receive_}) {
    place->event_fd.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!place->event_fd) return absl::ErrnoToStatus(errno, "memif: eventfd");
    auto* const header =
        reinterpret_cast<memif::RingHeader*>(regions_[0].data() + place->offset_bytes);
    header->cookie = memif::kRingCookie;
    header->flags = memif::kDoNotWake;
  }
  return absl::OkStatus();
}

void MemifConnection::QueueRequests() {
  Message init = MakeMessage(MessageType::kInit);
  init.init.version = memif::kVersion;
  init.init.id = config_.id;
  CopyText(config_.secret, init.init.secret);
  CopyText(kName, init.init.name);
  requests_.emplace_back(init, -1);
  Message region = MakeMessage(MessageType::kAddRegion);
  region.add_region.size_bytes = regions_[0].size();
  requests_.emplace_back(region, memories_[0].fd.get());
  for (const RingPlace* place : {&send_, &receive_}) {
    Message ring = MakeMessage(MessageType::kAddRing);
    ring.add_ring.flags = place == &send_ ? memif::kRingIsClientToServer : 0;
    ring.add_ring.offset_bytes = place->offset_bytes;
    ring.add_ring.log2_slots = place->log2_slots;
    requests_.emplace_back(ring, place->event_fd.get());
  }
  Message connect = MakeMessage(MessageType::kConnect);
  CopyText(kName, connect.connect.name);
  requests_.emplace_back(connect, -1);
}

absl::Status MemifConnection::SendNext() {
  if (requests_.empty()) return absl::FailedPreconditionError("an answer to nothing");
  const auto [message, fd] = requests_.front();
  requests_.pop_front();
  return Send(message, fd);
}

// ---- both ----

absl::StatusOr<MemifRing> MemifConnection::FindRing(const RingPlace& place, bool to_server) const {
  if (!place.event_fd || place.log2_slots > memif::kMaxLog2RingSlots ||
      place.region >= regions_.size()) {
    return absl::InvalidArgumentError("a ring is missing");
  }
  const std::span<uint8_t> region = regions_[place.region];
  const size_t ring_bytes = RingBytes(place.log2_slots);
  if (place.offset_bytes % alignof(uint64_t) != 0 || ring_bytes > region.size() ||
      place.offset_bytes > region.size() - ring_bytes) {
    return absl::InvalidArgumentError("a ring outside its region");
  }
  MemifRing ring;
  ring.header = reinterpret_cast<memif::RingHeader*>(region.data() + place.offset_bytes);
  ring.slots = 1u << place.log2_slots;
  ring.regions = &regions_;
  ring.event_fd = place.event_fd.get();
  if (ring.header->cookie != memif::kRingCookie) return absl::InvalidArgumentError("not a ring");
  if (config_.is_server) return ring;
  ring.buffer_bytes = config_.buffer_bytes;
  const uint32_t all_bytes = ring.slots * ring.buffer_bytes;
  ring.buffers_offset = static_cast<uint32_t>(2 * ring_bytes) + (to_server ? 0 : all_bytes);
  ring.buffers = region.subspan(ring.buffers_offset, all_bytes);
  return ring;
}

absl::Status MemifConnection::StartRings() {
  if (!requests_.empty()) return absl::FailedPreconditionError("connected too early");
  const absl::StatusOr<MemifRing> send = FindRing(send_, !config_.is_server);
  if (!send.ok()) return send.status();
  const absl::StatusOr<MemifRing> receive = FindRing(receive_, config_.is_server);
  if (!receive.ok()) return receive.status();
  sender_.emplace(*send, signal_);
  receiver_.emplace(*receive, pool_);
  state_ = State::kConnected;
  return absl::OkStatus();
}

absl::Status MemifConnection::Send(const Message& message, int fd) {
  iovec part{const_cast<Message*>(&message), sizeof(message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* const item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(item), &fd, sizeof(fd));
  }
  const ssize_t sent = sendmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  // Of a peer that is gone reading tells, with the reason that it may have left.
  if (sent == sizeof(message) || errno == EPIPE || errno == ECONNRESET) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "the peer does not read its messages");
}

}  // namespace uroce::drivers
