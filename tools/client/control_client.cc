// SPDX-License-Identifier: Apache-2.0
#include "tools/client/control_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>

#include "absl/strings/str_cat.h"
#include "pipeline/shm/abi/uroce_events.h"
#include "tools/client/printable.h"

namespace uroce::tools {
namespace {

constexpr size_t kMaxReplyBytes = sizeof(uroce_reply) + sizeof(uroce_capture_reply) +
                                  UROCE_MAX_DEVICES * sizeof(uroce_capture_interface);
constexpr int kMaxReplyFds = 4;
// Enough for a dump of some million objects. A longer one means a broken daemon.
constexpr uint64_t kMaxDumpBytes = 1ull << 30;
constexpr size_t kPieceBytes = 64 << 10;
constexpr int kLookMs = 1000;  // For whether the daemon is stopped.
constexpr char kHasEnded[] = "the daemon has ended";

/// The bytes of a reply after uroce_reply, and its descriptors.
struct Reply {
  std::vector<uint8_t> body;
  std::vector<Fd> fds;
};

absl::Status SendRequest(int socket, uint32_t command, const void* body, size_t body_bytes) {
  uroce_request header{command, static_cast<uint32_t>(sizeof(uroce_request) + body_bytes)};
  iovec parts[2] = {{&header, sizeof(header)}, {const_cast<void*>(body), body_bytes}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  // EPIPE is no error: a client that was turned away finds the reason in the socket, sent earlier.
  if (sendmsg(socket, &message, MSG_NOSIGNAL) < 0 && errno != EPIPE) {
    return absl::ErrnoToStatus(errno, "the daemon took no request");
  }
  return absl::OkStatus();
}

std::vector<Fd> TakeFds(msghdr& message) {
  std::vector<Fd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

absl::Status CheckReply(std::span<const uint8_t> datagram, uroce_reply& header) {
  if (datagram.empty()) return absl::UnavailableError("the daemon closed the connection");
  if (datagram.size() < sizeof(header)) return absl::DataLossError("the daemon's reply is short");
  memcpy(&header, datagram.data(), sizeof(header));
  header.text[sizeof(header.text) - 1] = 0;
  if (header.error != 0) {
    const char* reason = header.text[0] ? header.text : strerror(header.error);
    return absl::Status(absl::ErrnoToStatusCode(header.error), PrintableLines(reason));
  }
  if (header.size != datagram.size()) {
    return absl::DataLossError("the daemon's reply has a wrong size");
  }
  return absl::OkStatus();
}

/// Says so when a reply cannot come. A daemon that is busy, or just starts, is waited for.
void AwaitReply(int socket) {
  pollfd readable{.fd = socket, .events = POLLIN, .revents = 0};
  while (poll(&readable, 1, kLookMs) == 0) {
    const pid_t daemon = PeerPid(socket);
    if (!IsStopped(daemon)) continue;
    fprintf(stderr,
            "uroce: the daemon (pid %d) is stopped, by SIGSTOP or a debugger; waiting for it\n",
            daemon);
    return;
  }
}

absl::StatusOr<Reply> ReceiveReply(int socket) {
  AwaitReply(socket);
  std::vector<uint8_t> datagram(kMaxReplyBytes);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxReplyFds)];
  iovec part{datagram.data(), datagram.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t received = 0;
  do {
    received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == ECONNRESET);  // Reported once; the last messages come then.
  if (received < 0) return absl::ErrnoToStatus(errno, "no reply of the daemon");
  Reply reply;
  reply.fds = TakeFds(message);
  uroce_reply header;
  const absl::Status status = CheckReply({datagram.data(), static_cast<size_t>(received)}, header);
  if (!status.ok()) return status;
  reply.body.assign(datagram.begin() + sizeof(header), datagram.begin() + received);
  return reply;
}

/// Asks for what the daemon answers with a file.
absl::StatusOr<Reply> Ask(int socket, uint32_t command, const void* body, size_t body_bytes,
                          size_t reply_bytes = 0) {
  const absl::Status sent = SendRequest(socket, command, body, body_bytes);
  if (!sent.ok()) return sent;
  absl::StatusOr<Reply> reply = ReceiveReply(socket);
  if (!reply.ok()) return reply;
  if (reply->body.size() < reply_bytes) return absl::DataLossError("the daemon's reply is short");
  if (reply->fds.empty()) return absl::DataLossError("the daemon's reply lacks its file");
  return reply;
}

absl::StatusOr<std::string> ReadWhole(int fd) {
  std::string text;
  std::vector<char> piece(kPieceBytes);
  for (;;) {
    const ssize_t got = read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, "the daemon's dump");
    if (got == 0) return text;
    text.append(piece.data(), static_cast<size_t>(got));
    if (text.size() > kMaxDumpBytes) return absl::DataLossError("the daemon's dump is too long");
  }
}

/// The tool maps the memory, so it must not shrink, and each ring must lie inside its part.
absl::Status CheckCaptureMemory(int fd, const uroce_capture_reply& reply) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::DataLossError("the capture's memory is not sealed");
  }
  struct stat info {};
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, "the capture's memory");
  if (reply.ring_count == 0) return absl::DataLossError("the capture has no ring");
  const uint64_t part_bytes = reply.map_bytes / reply.ring_count;
  const bool fits = reply.map_bytes <= static_cast<uint64_t>(info.st_size) &&
                    part_bytes % UROCE_CAPTURE_ALIGNMENT == 0 &&
                    reply.ring_offset >= sizeof(uroce_capture_page) &&
                    reply.ring_offset <= part_bytes &&
                    reply.ring_bytes <= part_bytes - reply.ring_offset;
  const bool ring_is_sane = reply.ring_bytes >= 4096 &&
                            (reply.ring_bytes & (reply.ring_bytes - 1)) == 0 &&
                            reply.ring_offset % 8 == 0;
  if (!fits || !ring_is_sane) return absl::DataLossError("the capture's ring has a bad layout");
  return absl::OkStatus();
}

absl::Status ReadInterfaces(const std::vector<uint8_t>& body, CaptureSession& session) {
  const size_t room = (body.size() - sizeof(session.reply)) / sizeof(uroce_capture_interface);
  const uint32_t count = session.reply.interface_count;
  if (count == 0 || count > room) return absl::DataLossError("the capture has no interfaces");
  session.interfaces.resize(count);
  memcpy(session.interfaces.data(), body.data() + sizeof(session.reply),
         count * sizeof(uroce_capture_interface));
  for (uroce_capture_interface& interface : session.interfaces) {
    interface.name[sizeof(interface.name) - 1] = 0;
    const std::string name = Printable(interface.name);  // Of the same length.
    memcpy(interface.name, name.data(), name.size());
  }
  return absl::OkStatus();
}

/// Asks for what the daemon answers with a stream.
absl::StatusOr<std::string> AskForFile(int socket, uint32_t command, const void* request,
                                       size_t request_bytes) {
  absl::StatusOr<Reply> reply = Ask(socket, command, request, request_bytes);
  if (!reply.ok()) return reply.status();
  return ReadWhole(reply->fds[0].get());
}

/// The same on its own connection.
absl::StatusOr<std::string> FetchFile(const std::string& socket_path, uint32_t command,
                                      const void* request, size_t request_bytes) {
  absl::StatusOr<Fd> socket = ConnectToDaemon(socket_path);
  if (!socket.ok()) return socket.status();
  return AskForFile(socket->get(), command, request, request_bytes);
}

}  // namespace

std::string ResolveSocketPath(const std::string& flag) {
  if (!flag.empty()) return flag;
  if (const char* variable = getenv("UROCE_SOCKET"); variable && *variable) return variable;
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  if (access(UROCE_DEFAULT_SOCKET, F_OK) != 0 && runtime && *runtime) {
    const std::string own = absl::StrCat(runtime, "/uroce/uroced.sock");
    if (access(own.c_str(), F_OK) == 0) return own;
  }
  return UROCE_DEFAULT_SOCKET;
}

pid_t PeerPid(int socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  const int result = getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length);
  return result == 0 ? credentials.pid : 0;
}

bool IsStopped(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  const std::string status{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = status.rfind(") ");  // The name may have such an end too.
  if (name_end == status.npos || name_end + 2 >= status.size()) return false;
  const char state = status[name_end + 2];
  return state == 'T' || state == 't';
}

absl::StatusOr<Fd> ConnectToDaemon(const std::string& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "socket path '", socket_path, "' is longer than ", sizeof(address.sun_path) - 1, " bytes"));
  }
  memcpy(address.sun_path, socket_path.data(), socket_path.size());
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return absl::ErrnoToStatus(errno, "cannot make a socket");
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::UnavailableError(
        absl::StrCat("no daemon at ", socket_path, " (", strerror(errno),
                     "): start uroced, or name its socket by --socket or UROCE_SOCKET"));
  }
  return socket;
}

absl::StatusOr<std::string> FetchDump(const std::string& socket_path, uroce_dump_what what) {
  const uroce_dump request{static_cast<uint32_t>(what), 0};
  return FetchFile(socket_path, UROCE_DUMP, &request, sizeof(request));
}

absl::StatusOr<std::string> DumpClient::Fetch(uroce_dump_what what) {
  if (!socket_) {
    absl::StatusOr<Fd> socket = ConnectToDaemon(socket_path_);
    if (!socket.ok()) return socket.status();
    socket_ = *std::move(socket);
  }
  const uroce_dump request{static_cast<uint32_t>(what), 0};
  absl::StatusOr<std::string> text =
      AskForFile(socket_.get(), UROCE_DUMP, &request, sizeof(request));
  // A dump that the end of the daemon has cut looks like a whole one here.
  if (has_dump_ && HasEnded()) return absl::DataLossError(kHasEnded);
  has_dump_ |= text.ok();
  return text;
}

void DumpClient::Await(double seconds) const {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (auto now = Clock::now(); now < end; now = Clock::now()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - now);
    pollfd hangup{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (poll(&hangup, 1, static_cast<int>(left.count())) > 0) return;
  }
}

// The daemon says nothing unasked: what can be read is its end.
bool DumpClient::HasEnded() const {
  pollfd hangup{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return poll(&hangup, 1, 0) > 0;
}

absl::Status FollowEvents(const std::string& socket_path,
                          const std::function<bool(const std::string& line)>& take) {
  const uroce_dump request{UROCE_DUMP_EVENTS, 0};
  absl::StatusOr<Fd> socket = ConnectToDaemon(socket_path);
  if (!socket.ok()) return socket.status();
  absl::StatusOr<Reply> reply = Ask(socket->get(), UROCE_DUMP, &request, sizeof(request));
  if (!reply.ok()) return reply.status();
  std::string rest;
  std::vector<char> piece(kPieceBytes);
  for (;;) {
    const ssize_t got = read(reply->fds[0].get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::DataLossError(kHasEnded);
    rest.append(piece.data(), static_cast<size_t>(got));
    for (size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
      if (!take(rest.substr(0, end))) return absl::OkStatus();
      rest.erase(0, end + 1);
    }
    if (rest.size() > kMaxDumpBytes)
      return absl::DataLossError("an event of the daemon is too long");
  }
}

absl::StatusOr<std::string> FetchHistory(const std::string& socket_path, uint32_t qpn) {
  const uroce_history request{qpn, 0};
  return FetchFile(socket_path, UROCE_HISTORY, &request, sizeof(request));
}

absl::Status RequestChange(const std::string& socket_path, uroce_change_what what,
                           const std::string& target, const std::string& text) {
  uroce_change request{static_cast<uint32_t>(what), 0, {}, {}};
  if (target.size() > sizeof(request.target) || text.size() > sizeof(request.text)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", target, " ", text, "\" is too long"));
  }
  memcpy(request.target, target.data(), target.size());
  memcpy(request.text, text.data(), text.size());
  absl::StatusOr<Fd> socket = ConnectToDaemon(socket_path);
  if (!socket.ok()) return socket.status();
  const absl::Status sent = SendRequest(socket->get(), UROCE_CHANGE, &request, sizeof(request));
  return sent.ok() ? ReceiveReply(socket->get()).status() : sent;
}

absl::StatusOr<CaptureSession> StartCapture(const std::string& socket_path,
                                            const uroce_capture& request) {
  absl::StatusOr<Fd> socket = ConnectToDaemon(socket_path);
  if (!socket.ok()) return socket.status();
  absl::StatusOr<Reply> reply =
      Ask(socket->get(), UROCE_CAPTURE, &request, sizeof(request), sizeof(uroce_capture_reply));
  if (!reply.ok()) return reply.status();
  CaptureSession session;
  session.socket = *std::move(socket);
  session.memory = std::move(reply->fds[0]);
  memcpy(&session.reply, reply->body.data(), sizeof(session.reply));
  absl::Status status = CheckCaptureMemory(session.memory.get(), session.reply);
  if (status.ok()) status = ReadInterfaces(reply->body, session);
  if (!status.ok()) return status;
  return session;
}

}  // namespace uroce::tools
