// SPDX-License-Identifier: Apache-2.0
// What holds of the answers of the metrics' HTTP server, whatever its clients send.
#pragma once

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nic/metrics/http_server.h"
#include "tests/fuzz/script_reader.h"

namespace uroce::fuzz {

/// The first byte of a record of a script; the second one is the number of a client.
enum HttpRecord : uint8_t {
  kHttpSend,     ///< Length, 2 bytes; bytes. A client that is not there connects.
  kHttpRead,     ///< The client reads a piece of its answer.
  kHttpClose,    ///< The client goes.
  kHttpEnd,      ///< The client sends no more.
  kHttpRespond,  ///< The page for those that wait is there.
  kHttpRecordCount
};

/// A server that has a page for some requests at once and for others later, and its clients.
class HttpCheck {
 public:
  HttpCheck() {
    char directory[] = "/tmp/uroce-http-fuzz-XXXXXX";
    if (mkdtemp(directory) == nullptr) std::abort();
    path_ = std::string(directory) + "/socket";
    auto listener = nic::ListenForHttp({.path = path_, .host = {}});
    if (!listener.ok()) std::abort();
    server_ = std::make_unique<nic::HttpServer>(
        loop_, *std::move(listener), [this](absl::string_view path) { return Find(path); });
  }
  ~HttpCheck() {
    server_.reset();
    unlink(path_.c_str());
    rmdir(path_.substr(0, path_.rfind('/')).c_str());
  }
  HttpCheck(const HttpCheck&) = delete;
  HttpCheck& operator=(const HttpCheck&) = delete;

  /// False: an answer is no answer of this server, or more than one, or too many connections are
  /// held.
  bool Holds(std::span<const uint8_t> script) {
    ScriptReader reader(script);
    bool holds = true;
    while (!reader.AtEnd() && holds) {
      Do(reader);
      loop_.RunOnce(0);
      holds = server_->connection_count() <= nic::HttpServer::kMostConnections;
    }
    server_->Respond(server_->last_request(), NextPage());
    for (Client& client : clients_) holds = End(client) && holds;
    for (int turn = 0; turn < 100 && server_->connection_count() != 0; ++turn) loop_.RunOnce(0);
    return holds && server_->connection_count() == 0;
  }

 private:
  static constexpr size_t kClients = 70;
  static constexpr size_t kPageBytes = 300'000;

  struct Client {
    Fd socket;
    std::string answer;
  };

  /// A page of one letter, each time of another one, that no socket takes at once.
  nic::HttpServer::Response NextPage() {
    letter_ = letter_ == 'z' ? 'a' : static_cast<char>(letter_ + 1);
    return {.status = 200,
            .content_type = "text/plain",
            .body = std::make_shared<const std::string>(kPageBytes, letter_)};
  }

  std::optional<nic::HttpServer::Response> Find(absl::string_view path) {
    if (path == "/page") return NextPage();
    if (path == "/later") return std::nullopt;
    return nic::HttpServer::Response{};
  }

  void Do(ScriptReader& reader) {
    const uint32_t record = reader.Number(1) % kHttpRecordCount;
    Client& client = clients_[reader.Number(1) % kClients];
    if (record == kHttpSend) {
      const std::vector<uint8_t> bytes = reader.Bytes(reader.Number(2));
      if (!client.socket) Connect(client);
      send(client.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (record == kHttpRead) Read(client, 100);
    if (record == kHttpClose) client = {};
    if (record == kHttpEnd && client.socket) shutdown(client.socket.get(), SHUT_WR);
    if (record == kHttpRespond) server_->Respond(server_->last_request(), NextPage());
  }

  void Connect(Client& client) {
    client.socket = Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const auto* const at = reinterpret_cast<const sockaddr*>(&address);
    if (connect(client.socket.get(), at, sizeof(address)) != 0) std::abort();
    loop_.RunOnce(0);
  }

  /// Returns whether something came.
  static bool Read(Client& client, size_t most) {
    char bytes[4096];
    const ssize_t got =
        recv(client.socket.get(), bytes, std::min(most, sizeof(bytes)), MSG_DONTWAIT);
    if (got <= 0) return false;
    client.answer.append(bytes, static_cast<size_t>(got));
    return true;
  }

  /// Reads what is left of the answer, and judges it.
  bool End(Client& client) {
    while (client.socket && Read(client, SIZE_MAX)) loop_.RunOnce(0);
    const bool holds = AnswerHolds(client.answer);
    client = {};
    return holds;
  }

  /// Nothing, a whole answer, or the beginning of one whose connection had to make room.
  static bool AnswerHolds(std::string_view answer) {
    constexpr std::string_view kEnd = "\r\n\r\n";
    constexpr std::string_view kLength = "Content-Length: ";
    if (answer.empty()) return true;
    if (!answer.starts_with("HTTP/1.1 ")) return false;
    const size_t end = answer.find(kEnd);
    const size_t length_at = answer.find(kLength);
    if (end == std::string_view::npos || length_at > end) return false;
    size_t length = 0;
    std::from_chars(answer.data() + length_at + kLength.size(), answer.data() + end, length);
    const std::string_view body = answer.substr(end + kEnd.size());
    if (length != 0 && length != kPageBytes) return false;
    return body.size() <= length && (body.empty() || body.find_first_not_of(body[0]) == body.npos);
  }

  EventLoop loop_;
  std::string path_;
  char letter_ = 'a';
  std::unique_ptr<nic::HttpServer> server_;
  std::vector<Client> clients_ = std::vector<Client>(kClients);
};

inline std::vector<std::vector<uint8_t>> GoodHttpScripts() {
  const auto ask = [](std::vector<uint8_t>& script, uint8_t client, std::string_view request) {
    script.insert(script.end(), {kHttpSend, client, static_cast<uint8_t>(request.size()),
                                 static_cast<uint8_t>(request.size() >> 8)});
    script.insert(script.end(), request.begin(), request.end());
  };
  std::vector<std::vector<uint8_t>> scripts(3);
  ask(scripts[0], 0, "GET /page HTTP/1.1\r\nHost: a\r\nRange: bytes=0-,0-\r\n\r\n");
  scripts[0].insert(scripts[0].end(), {kHttpRead, 0, kHttpEnd, 0});
  ask(scripts[1], 1, "HEAD /page?x=1 HTTP/1.0\r\n\r\n");
  ask(scripts[1], 2, "GET /later HTTP/1.1\r\n\r\n");
  ask(scripts[1], 3, "POST / HTTP/1.1\r\n\r\n");
  scripts[1].insert(scripts[1].end(), {kHttpRespond, 0, kHttpRead, 2, kHttpClose, 2});
  for (uint8_t client = 0; client < 70; ++client) ask(scripts[2], client, "GET ");
  ask(scripts[2], 69, "/nothing HTTP/1.1\r\n\r\n");
  return scripts;
}

/// One check for all scripts of a process. False: see Holds.
inline bool HttpHolds(std::span<const uint8_t> script) {
  static HttpCheck check;
  return check.Holds(script);
}

}  // namespace uroce::fuzz
