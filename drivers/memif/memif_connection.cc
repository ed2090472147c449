// SPDX-License-Identifier: Apache-2.0
#include "drivers/memif/memif_connection.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "pipeline/os/unix_socket.h"

namespace uroce::drivers {
namespace {

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  return address;
}

Fd NewSocket() { return Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

absl::Status Bad(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("socket=", why));
}

}  // namespace

absl::Status CheckMemifDirectory(const std::string& path) {
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (directory.empty() || std::filesystem::is_directory(directory, error)) {
    return absl::OkStatus();
  }
  return Bad(absl::StrCat(path, ": no directory ", directory.string()));
}

absl::StatusOr<Fd> ListenForMemif(const std::string& path) {
  if (absl::Status status = PrepareServerPath(path); !status.ok()) return Bad(status.message());
  constexpr int kBacklog = 8;
  Fd listener = NewSocket();
  const sockaddr_un address = AddressOf(path);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), kBacklog) != 0) {
    return Bad(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  return listener;
}

Fd ConnectMemif(const std::string& path) {
  Fd fd = NewSocket();
  const sockaddr_un address = AddressOf(path);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fd.Reset();
  }
  return fd;
}

Fd AcceptMemif(int listener) {
  return Fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

namespace {

using memif::Message;
using memif::MessageType;

// Messages read at one readiness of the socket: the event loop also has others to serve.
constexpr int kMessagesAtOnce = 32;
constexpr size_t kMaxRegions = 16;
constexpr char kName[] = "uroce";

template <size_t kBytes>
void CopyText(absl::string_view text, char (&field)[kBytes]) {
  const size_t length = std::min(text.size(), kBytes - 1);
  std::memcpy(field, text.data(), length);
  field[length] = '\0';
}

/// A text field, which the peer may have filled without a terminating zero.
template <size_t kBytes>
std::string Text(const char (&field)[kBytes]) {
  return {field, strnlen(field, kBytes)};
}

size_t RingBytes(uint8_t log2_slots) {
  return sizeof(memif::RingHeader) + (sizeof(memif::Descriptor) << log2_slots);
}

/// Receives a message with at most one fd, and closes further fds. False: the size is wrong.
bool Receive(int socket, Message& message, Fd& fd) {
  iovec part{&message, sizeof(message)};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
  if (size < 0) return false;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= item->cmsg_len; at += sizeof(int)) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(item) + at, sizeof(number));
      fd.Reset(number);
    }
  }
  return size == sizeof(message);
}

absl::Status WrongSize() { return absl::InvalidArgumentError("a message of wrong size"); }
absl::Status NotAnEventFd() { return absl::InvalidArgumentError("a ring without an eventfd"); }

Message MakeMessage(MessageType type) {
  Message message{};
  message.type = type;
  return message;
}

}  // namespace

/// A message with fds, and what the side thread finds out about them. Destroyed on that thread too.
struct MemifConnection::Inspection {
  std::shared_ptr<UntrustedSocket> socket;
  std::shared_ptr<Fd> done;  ///< Written when the thread is done.
  Message message{};
  absl::Status status;  ///< Why the message is refused.
  MemifMemory memory;   ///< Of kAddRegion.
  Fd event_fd;          ///< Of kAddRing.

  void Run() {
    status = Inspect();
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(done->get(), &one, sizeof(one));
  }

 private:
  absl::Status Inspect() {
    Fd fd;
    if (!Receive(socket->fd(), message, fd)) return WrongSize();
    if (message.type == MessageType::kAddRegion) {
      absl::StatusOr<MemifMemory> mapped =
          MapMemifMemory(std::move(fd), message.add_region.size_bytes);
      if (!mapped.ok()) return mapped.status();
      memory = *std::move(mapped);
    } else if (message.type == MessageType::kAddRing) {
      if (!IsEventFd(fd.get())) return NotAnEventFd();
      event_fd = std::move(fd);
    }
    return absl::OkStatus();
  }
};

MemifConnection::MemifConnection(const MemifConfig& config, Fd socket, EventSignal* signal,
                                 rte_mempool* pool, std::shared_ptr<void> held)
    : config_(config),
      signal_(signal),
      pool_(pool),
      thread_(std::make_shared<SideThread>(std::move(held))),
      socket_(std::make_shared<UntrustedSocket>(std::move(socket), thread_)),
      inspected_(std::make_shared<Fd>(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  events_.Add(inspected_->get());
  events_.Add(socket_->fd());
  if (!*inspected_ || events_.fd() < 0) End("no more fds");
  if (!config_.is_server || state_ == State::kEnded) return;
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
  if (inspection_ != nullptr) return ReadInspected();
  Message message;
  const auto [outcome, bytes] =
      socket_->Receive({reinterpret_cast<uint8_t*>(&message), sizeof(message)});
  absl::Status status;
  switch (outcome) {
    case UntrustedSocket::Outcome::kNothing:
      return false;
    case UntrustedSocket::Outcome::kHangup:
      state_ = State::kEnded;
      reason_ = "the peer is gone";
      return false;
    case UntrustedSocket::Outcome::kFds:
      status = StartInspection();
      break;
    case UntrustedSocket::Outcome::kMessage:
      status = bytes == sizeof(message) ? OnMessage(message, nullptr) : WrongSize();
      break;
  }
  if (!status.ok()) End(status.message());
  return true;
}

absl::Status MemifConnection::StartInspection() {
  if (!config_.is_server || state_ != State::kHandshake || !is_greeted_) {
    return absl::FailedPreconditionError("fds out of turn");
  }
  events_.Remove(socket_->fd());
  inspection_ =
      SideThread::MakeEndingOn(thread_, Inspection{.socket = socket_, .done = inspected_});
  thread_->Do([inspection = inspection_] { inspection->Run(); });
  return absl::OkStatus();
}

/// False: the side thread is not done.
bool MemifConnection::ReadInspected() {
  thread_->Launch();  // Does nothing unless the system refused to start the thread before.
  uint64_t count = 0;
  if (read(inspected_->get(), &count, sizeof(count)) < 0) return false;
  const std::shared_ptr<Inspection> inspection = std::exchange(inspection_, nullptr);
  events_.Add(socket_->fd());
  absl::Status status = inspection->status;
  if (status.ok()) status = OnMessage(inspection->message, inspection.get());
  if (!status.ok()) End(status.message());
  return true;
}

absl::Status MemifConnection::OnMessage(const Message& message, Inspection* brought) {
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
        return OnAddRegion(message.add_region, brought);
      case MessageType::kAddRing:
        return OnAddRing(message.add_ring, brought);
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

absl::Status MemifConnection::OnAddRegion(const memif::AddRegion& request, Inspection* brought) {
  if (brought == nullptr) return absl::InvalidArgumentError("a region without memory");
  if (request.index != memories_.size() || memories_.size() == kMaxRegions) {
    return absl::InvalidArgumentError("a region out of turn");
  }
  AddRegion(std::move(brought->memory));
  return Send(MakeMessage(MessageType::kAck));
}

absl::Status MemifConnection::OnAddRing(const memif::AddRing& request, Inspection* brought) {
  if (brought == nullptr) return NotAnEventFd();
  const bool to_server = (request.flags & memif::kRingIsClientToServer) != 0;
  RingPlace& place = to_server ? receive_ : send_;
  if (request.index != 0 || place.event_fd != nullptr) {
    return absl::InvalidArgumentError("more than one ring each way");
  }
  place = {request.region, request.offset_bytes, request.log2_slots,
           SideThread::MakeEndingOn(thread_, std::move(brought->event_fd))};
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

/// Makes memory for both rings, then the buffers of the first ring, then those of the second.
absl::Status MemifConnection::MakeMemory() {
  const uint64_t buffers_bytes = uint64_t{config_.buffer_bytes} << send_.log2_slots;
  absl::StatusOr<MemifMemory> memory =
      MakeMemifMemory(2 * (RingBytes(send_.log2_slots) + buffers_bytes));
  if (!memory.ok()) return memory.status();
  AddRegion(*std::move(memory));
  for (RingPlace* place : {&send_, &receive_}) {
    place->event_fd = SideThread::MakeEndingOn(thread_, Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
    if (place->fd() < 0) return absl::ErrnoToStatus(errno, "memif: eventfd");
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
  requests_.emplace_back(region, memories_[0]->fd.get());
  for (const RingPlace* place : {&send_, &receive_}) {
    Message ring = MakeMessage(MessageType::kAddRing);
    ring.add_ring.flags = place == &send_ ? memif::kRingIsClientToServer : 0;
    ring.add_ring.offset_bytes = place->offset_bytes;
    ring.add_ring.log2_slots = place->log2_slots;
    requests_.emplace_back(ring, place->fd());
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

void MemifConnection::AddRegion(MemifMemory memory) {
  memories_.push_back(SideThread::MakeEndingOn(thread_, std::move(memory)));
  regions_.push_back(memories_.back()->bytes());
}

absl::StatusOr<MemifRing> MemifConnection::FindRing(const RingPlace& place, bool to_server) const {
  if (place.fd() < 0 || place.log2_slots > memif::kMaxLog2RingSlots ||
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
  ring.event_fd = place.fd();
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
  const ssize_t sent = sendmsg(socket_->fd(), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  // A peer that is gone is no error here: reading reports it, with the reason if the peer sent one.
  if (sent == sizeof(message) || errno == EPIPE || errno == ECONNRESET) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "the peer does not read its messages");
}

}  // namespace uroce::drivers
