// SPDX-License-Identifier: Apache-2.0
// A small HTTP/1.1 server for one page, on the thread of an event loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nic/base/event_loop.h"
#include "nic/settings/setting.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {

/// Binds a socket and listens. Errors: Unavailable, without the name of the setting.
absl::StatusOr<Fd> ListenForHttp(const ListenAddress& address);

/// Answers GET and HEAD, closes each connection after one answer, and ignores every header, so a
/// Range too: a request is answered by the whole body once, or by an error.
///
/// What clients can do is bounded. A request has 16 KiB and 2 s, which includes its answer. There
/// are kMostConnections at a time. One more ends another one: of the peer that has most of them,
/// the oldest that has not made its request yet, else the oldest. So silent clients delay no other.
/// A peer is an IP address, or a user on a Unix socket. No thread waits for a client.
class HttpServer {
 public:
  static constexpr size_t kMostConnections = 64;
  static constexpr size_t kMostRequestBytes = 16 << 10;
  static constexpr Nanos kLongest{2'000'000'000};

  struct Response {
    uint32_t status = 404;
    std::string content_type;
    std::shared_ptr<const std::string> body;  ///< Null: there is none.
  };
  /// Answers a request for a path, or returns nothing: then the request waits for Respond.
  using Handler = std::function<std::optional<Response>(absl::string_view path)>;

  /// `loop` outlives this object.
  HttpServer(EventLoop& loop, Fd listener, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// The number of the newest request. Numbers rise.
  uint64_t last_request() const { return last_request_; }
  /// Answers all requests up to this number that wait.
  void Respond(uint64_t up_to, const Response& response);

  size_t connection_count() const { return connections_.size(); }

 private:
  using Id = uint64_t;  ///< Rises: the lowest is the oldest.
  struct Connection {
    Fd socket;
    std::string peer;
    EventLoop::Id watch = 0;
    EventLoop::Id timer = 0;
    std::string request;
    uint64_t number = 0;  ///< Of the request; 0: it is not complete.
    bool is_head = false;
    std::string head;  ///< Of the response.
    std::shared_ptr<const std::string> body;
    size_t sent_bytes = 0;  ///< Of head and body.
  };

  void OnConnecting();
  void Add(Fd socket);
  void MakeRoom();
  void OnReady(Id id);
  void Read(Id id, Connection& connection);
  void OnRequest(Id id, Connection& connection);
  void Send(Id id, Connection& connection, const Response& response);
  /// Sends what the socket takes. The connection ends with the last byte.
  void Write(Id id, Connection& connection);
  void End(Id id);

  EventLoop& loop_;
  const Fd listener_;
  const Handler handler_;
  EventLoop::Id watch_ = 0;
  EventLoop::Id pause_ = 0;
  Id last_id_ = 0;
  uint64_t last_request_ = 0;
  std::map<Id, Connection> connections_;
};

}  // namespace uroce::nic
