// SPDX-License-Identifier: Apache-2.0
#include "nic/metrics/http_server.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

namespace uroce::nic {
namespace {

constexpr char kGet[] = "GET /page HTTP/1.1\r\nHost: a\r\n\r\n";

/// A server that answers /page at once, /later when told so, and nothing else.
class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    char directory[] = "/tmp/uroce-http-test-XXXXXX";
    directory_ = mkdtemp(directory);
    server_ = std::make_unique<HttpServer>(
        loop_, *ListenForHttp({.path = path(), .host = {}}),
        [this](absl::string_view its) -> std::optional<HttpServer::Response> {
          if (its == "/later") return std::nullopt;
          if (its == "/page") return page_;
          return HttpServer::Response{.status = 404};
        });
  }
  ~HttpServerTest() override {
    server_.reset();
    unlink(path().c_str());
    rmdir(directory_.c_str());
  }
  std::string path() const { return directory_ + "/socket"; }
  size_t connection_count() const { return server_->connection_count(); }
  void Turn() { loop_.RunOnce(0); }

  Fd Connect() {
    Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    Turn();
    return fd;
  }
  Fd Ask(const std::string& request) {
    Fd fd = Connect();
    EXPECT_EQ(send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL | MSG_DONTWAIT),
              static_cast<ssize_t>(request.size()));
    return fd;
  }
  /// All that comes until the server ends the connection.
  std::string Receive(const Fd& fd) {
    std::string text;
    char piece[4096];
    for (;;) {
      Turn();
      const ssize_t got = recv(fd.get(), piece, sizeof(piece), MSG_DONTWAIT);
      if (got > 0) text.append(piece, static_cast<size_t>(got));
      if (got == 0 || (got < 0 && errno != EAGAIN)) return text;
    }
  }
  /// Whether the server has ended the connection without a word.
  static bool HasEnded(const Fd& fd) {
    char byte = 0;
    const ssize_t got = recv(fd.get(), &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

  HttpServer::Response page_{.status = 200,
                             .content_type = "text/plain",
                             .body = std::make_shared<std::string>("0123456789")};
  EventLoop loop_;
  std::string directory_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AGetHasTheHeadAndTheBody) {
  EXPECT_EQ(Receive(Ask(kGet)),
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 10\r\n"
            "Content-Type: text/plain\r\n\r\n0123456789");
  EXPECT_EQ(connection_count(), 0u);
  EXPECT_TRUE(Receive(Ask("GET /page?a=b HTTP/1.0\r\n\r\n")).ends_with("0123456789"));
}

TEST_F(HttpServerTest, AHeadHasNoBody) {
  const std::string text = Receive(Ask("HEAD /page HTTP/1.1\r\n\r\n"));
  EXPECT_NE(text.find("Content-Length: 10\r\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\r\n\r\n"));
}

TEST_F(HttpServerTest, AnythingElseIsAnError) {
  EXPECT_TRUE(Receive(Ask("GET / HTTP/1.1\r\n\r\n")).starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(Receive(Ask("POST /page HTTP/1.1\r\n\r\n")).starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(Receive(Ask("GET /page SPDY/3\r\n\r\n")).starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(Receive(Ask("\r\n\r\n")).starts_with("HTTP/1.1 400 "));
  const std::string header(HttpServer::kMostRequestBytes, 'a');
  EXPECT_TRUE(Receive(Ask("GET /page HTTP/1.1\r\n" + header)).starts_with("HTTP/1.1 431 "));
}

TEST_F(HttpServerTest, ManyRangesGetTheBodyOnce) {
  std::string ranges = "Range: bytes=0-";
  for (int i = 0; i < 2000; ++i) ranges += ",0-";
  const std::string text = Receive(Ask("GET /page HTTP/1.1\r\n" + ranges + "\r\n\r\n"));
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(text.ends_with("\r\n\r\n0123456789"));
  EXPECT_LT(text.size(), 200u);
}

TEST_F(HttpServerTest, ARequestMayComeInPieces) {
  const Fd client = Ask("GET /page HTTP/1.1\r\nHost: a\r\n\r");
  Turn();
  EXPECT_EQ(send(client.get(), "\n", 1, 0), 1);
  EXPECT_TRUE(Receive(client).ends_with("0123456789"));
}

TEST_F(HttpServerTest, ALargeBodyGoesAsItIsRead) {
  page_.body = std::make_shared<std::string>(4 << 20, 'x');
  const Fd slow = Ask(kGet);
  Turn();
  EXPECT_TRUE(Receive(Ask("GET / HTTP/1.1\r\n\r\n")).starts_with("HTTP/1.1 404 ")) << "meanwhile";
  EXPECT_GT(Receive(slow).size(), page_.body->size());
}

TEST_F(HttpServerTest, SilentClientsDelayNoOther) {
  std::vector<Fd> silent;
  for (size_t i = 0; i < 3 * HttpServer::kMostConnections; ++i) silent.push_back(Connect());
  EXPECT_EQ(connection_count(), HttpServer::kMostConnections);
  EXPECT_TRUE(Receive(Ask(kGet)).ends_with("0123456789"));
  EXPECT_TRUE(HasEnded(silent.front())) << "the oldest ends first";
  EXPECT_FALSE(HasEnded(silent.back()));
}

TEST_F(HttpServerTest, ARequestIsNotEndedForSilentClients) {
  const Fd client = Ask("GET /later HTTP/1.1\r\n\r\n");
  Turn();
  EXPECT_EQ(server_->last_request(), 1u);
  std::vector<Fd> silent;
  for (size_t i = 0; i < 3 * HttpServer::kMostConnections; ++i) silent.push_back(Connect());
  server_->Respond(1, page_);
  EXPECT_TRUE(Receive(client).ends_with("0123456789"));
}

TEST_F(HttpServerTest, AnAnswerIsForTheRequestsBeforeIt) {
  const Fd first = Ask("GET /later HTTP/1.1\r\n\r\n");
  Turn();
  const Fd second = Ask("GET /later HTTP/1.1\r\n\r\n");
  Turn();
  server_->Respond(1, page_);
  EXPECT_TRUE(Receive(first).ends_with("0123456789"));
  EXPECT_EQ(connection_count(), 1u);
  server_->Respond(2, {.status = 503});
  EXPECT_TRUE(Receive(second).starts_with("HTTP/1.1 503 "));
}

TEST_F(HttpServerTest, AClientThatGoesIsForgotten) {
  Fd client = Ask("GET /later HTTP/1.1\r\n\r\n");
  Turn();
  client = {};
  Turn();
  EXPECT_EQ(connection_count(), 0u);
  server_->Respond(1, page_);
}

TEST_F(HttpServerTest, APlaceThatIsTakenIsAnError) {
  EXPECT_EQ(ListenForHttp({.path = path(), .host = {}}).status().message(),
            "cannot listen on " + path() + ": Address already in use");
}

}  // namespace
}  // namespace uroce::nic
