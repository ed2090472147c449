// SPDX-License-Identifier: Apache-2.0
#include "nic/metrics/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace uroce::nic {
namespace {

constexpr int kBacklog = 128;
constexpr Nanos kAcceptPause{100'000'000};  // After a failure: the process has no fd left.
constexpr std::string_view kEndOfRequest = "\r\n\r\n";

/// A daemon that was killed has left its socket.
void RemoveStale(const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const Fd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int result =
      connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (result != 0 && errno == ECONNREFUSED) unlink(path.c_str());
}

Fd NewSocket(int family) {
  return Fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Binds and listens. Without SO_REUSEPORT: a second daemon does not listen at the same address.
template <typename Address>
Fd ListenAt(Fd fd, const Address& address) {
  const int yes = 1;
  if (fd) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const auto* const at = reinterpret_cast<const sockaddr*>(&address);
  if (!fd || bind(fd.get(), at, sizeof(address)) != 0 || listen(fd.get(), kBacklog) != 0) return {};
  return fd;
}

Fd ListenAtPath(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  RemoveStale(path, address);
  return ListenAt(NewSocket(AF_UNIX), address);
}

Fd ListenAtHost(const std::string& host, uint16_t port) {
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  ipv4.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &ipv4.sin_addr) == 1) {
    return ListenAt(NewSocket(AF_INET), ipv4);
  }
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(port);
  inet_pton(AF_INET6, host.c_str(), &ipv6.sin6_addr);
  Fd fd = NewSocket(AF_INET6);
  const int no = 0;  // "[::]" serves IPv4, too.
  setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  return ListenAt(std::move(fd), ipv6);
}

template <typename T>
std::string BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

/// Who has connected: the bytes of an IP address, or of a user id.
std::string PeerOf(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length);
  if (address.ss_family == AF_INET) {
    return BytesOf(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  }
  if (address.ss_family == AF_INET6) {
    return BytesOf(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  }
  ucred credentials{};
  length = sizeof(credentials);
  getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length);
  return BytesOf(credentials.uid);
}

absl::string_view ReasonOf(uint32_t status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Service Unavailable";
  }
}

}  // namespace

absl::StatusOr<Fd> ListenForHttp(const ListenAddress& address) {
  const bool is_path = !address.path.empty();
  Fd fd = is_path ? ListenAtPath(address.path) : ListenAtHost(address.host, address.port);
  if (fd) return fd;
  const std::string place = is_path ? address.path : absl::StrCat(address.host, ":", address.port);
  return absl::UnavailableError(absl::StrCat("cannot listen on ", place, ": ", strerror(errno)));
}

HttpServer::HttpServer(EventLoop& loop, Fd listener, Handler handler)
    : loop_(loop), listener_(std::move(listener)), handler_(std::move(handler)) {
  watch_ = loop_.Watch(listener_.get(), EPOLLIN, [this] { OnConnecting(); });
}

HttpServer::~HttpServer() {
  while (!connections_.empty()) End(connections_.begin()->first);
  loop_.Cancel(pause_);
  loop_.Forget(watch_);
}

void HttpServer::OnConnecting() {
  Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) return Add(std::move(socket));
  if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
  loop_.SetEvents(watch_, 0);
  pause_ = loop_.After(kAcceptPause, [this] { loop_.SetEvents(watch_, EPOLLIN); });
}

void HttpServer::Add(Fd socket) {
  if (connections_.size() == kMostConnections) MakeRoom();
  const Id id = ++last_id_;
  Connection& added = connections_[id];
  added.socket = std::move(socket);
  added.peer = PeerOf(added.socket.get());
  added.watch = loop_.Watch(added.socket.get(), EPOLLIN, [this, id] { OnReady(id); });
  added.timer = loop_.After(kLongest, [this, id] { End(id); });
}

// An attacker with many addresses has one connection of each, the oldest of which ends first. A
// client that makes its request at once does not become the oldest before it is answered.
void HttpServer::MakeRoom() {
  std::map<std::string, size_t> counts;
  for (const auto& [id, connection] : connections_) ++counts[connection.peer];
  const auto rank = [&counts](const Connection& connection) {
    return std::pair(counts[connection.peer], connection.number == 0);
  };
  auto chosen = connections_.begin();
  for (auto at = connections_.begin(); at != connections_.end(); ++at) {
    if (rank(at->second) > rank(chosen->second)) chosen = at;
  }
  End(chosen->first);
}

// An event that the loop took before the connection's end may still be reported.
void HttpServer::OnReady(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (connection.number == 0) {
    Read(id, connection);
  } else {
    Write(id, connection);
  }
}

void HttpServer::Read(Id id, Connection& connection) {
  char bytes[4096];
  const ssize_t got = recv(connection.socket.get(), bytes, sizeof(bytes), 0);
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) return End(id);
  std::string& request = connection.request;
  const size_t before = request.size();
  request.append(bytes, static_cast<size_t>(got));
  const size_t from = before - std::min(before, kEndOfRequest.size());
  if (request.find(kEndOfRequest, from) != std::string::npos) return OnRequest(id, connection);
  if (request.size() <= kMostRequestBytes) return;
  connection.number = ++last_request_;
  Send(id, connection, {.status = 431});
}

void HttpServer::OnRequest(Id id, Connection& connection) {
  connection.number = ++last_request_;
  loop_.SetEvents(connection.watch, 0);
  const std::string request = std::exchange(connection.request, "");
  const absl::string_view line = absl::string_view(request).substr(0, request.find("\r\n"));
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1.")) {
    return Send(id, connection, {.status = 400});
  }
  connection.is_head = words[0] == "HEAD";
  if (words[0] != "GET" && !connection.is_head) return Send(id, connection, {.status = 404});
  const std::optional<Response> response = handler_(words[1].substr(0, words[1].find('?')));
  if (response) Send(id, connection, *response);
}

void HttpServer::Respond(uint64_t up_to, const Response& response) {
  for (auto at = connections_.begin(); at != connections_.end();) {
    auto& [id, connection] = *at++;  // It may end here.
    const bool waits = connection.number != 0 && connection.head.empty();
    if (waits && connection.number <= up_to) Send(id, connection, response);
  }
}

void HttpServer::Send(Id id, Connection& connection, const Response& response) {
  const size_t length = response.body == nullptr ? 0 : response.body->size();
  connection.head = absl::StrCat("HTTP/1.1 ", response.status, " ", ReasonOf(response.status),
                                 "\r\nConnection: close\r\nContent-Length: ", length, "\r\n");
  if (length != 0)
    absl::StrAppend(&connection.head, "Content-Type: ", response.content_type, "\r\n");
  absl::StrAppend(&connection.head, "\r\n");
  if (!connection.is_head) connection.body = response.body;
  Write(id, connection);
}

void HttpServer::Write(Id id, Connection& connection) {
  const absl::string_view parts[] = {
      connection.head, connection.body == nullptr ? absl::string_view() : *connection.body};
  size_t skipped = connection.sent_bytes;
  for (absl::string_view part : parts) {
    const size_t before = std::min(skipped, part.size());
    part.remove_prefix(before);
    skipped -= before;
    if (part.empty()) continue;
    const ssize_t sent =
        send(connection.socket.get(), part.data(), part.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return End(id);
    if (sent > 0) connection.sent_bytes += static_cast<size_t>(sent);
    if (sent < static_cast<ssize_t>(part.size())) {
      return loop_.SetEvents(connection.watch, EPOLLOUT);
    }
  }
  shutdown(connection.socket.get(), SHUT_RDWR);
  End(id);
}

void HttpServer::End(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  loop_.Forget(found->second.watch);
  loop_.Cancel(found->second.timer);
  connections_.erase(found);
}

}  // namespace uroce::nic
