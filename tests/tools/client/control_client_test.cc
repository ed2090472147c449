// SPDX-License-Identifier: Apache-2.0
// The client against a daemon played by the test: right replies and every wrong one.
#include "tools/client/control_client.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

namespace uroce::tools {
namespace {

using testing::HasSubstr;

/// A datagram and the descriptors beside it.
struct Answer {
  std::vector<uint8_t> bytes;
  std::vector<int> fds;
};

void Append(std::vector<uint8_t>& bytes, const auto& value) {
  const auto* from = reinterpret_cast<const uint8_t*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof(value));
}

Answer MakeAnswer(const auto& body, std::vector<int> fds) {
  uroce_reply header{};
  header.size = sizeof(header) + sizeof(body);
  Answer answer{{}, std::move(fds)};
  Append(answer.bytes, header);
  Append(answer.bytes, body);
  return answer;
}

void Send(int socket, const Answer& answer) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)] = {};
  iovec part{const_cast<uint8_t*>(answer.bytes.data()), answer.bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!answer.fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * answer.fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * answer.fds.size());
    memcpy(CMSG_DATA(header), answer.fds.data(), sizeof(int) * answer.fds.size());
  }
  sendmsg(socket, &message, MSG_NOSIGNAL);
}

/// Takes one connection and one request, and answers.
class FakeDaemon {
 public:
  explicit FakeDaemon(Answer answer) : answer_(std::move(answer)) {
    char place[] = "/tmp/uroce-test-XXXXXX";
    directory_ = mkdtemp(place);
    path_ = directory_ + "/socket";
    listener_ = Fd(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeDaemon() {
    thread_.join();
    std::filesystem::remove_all(directory_);
  }
  const std::string& path() const { return path_; }

 private:
  void Serve() {
    const Fd peer(accept(listener_.get(), nullptr, nullptr));
    uint8_t request[512];
    if (recv(peer.get(), request, sizeof(request), 0) <= 0) return;
    if (!answer_.bytes.empty()) Send(peer.get(), answer_);
  }

  Answer answer_;
  std::string directory_;
  std::string path_;
  Fd listener_;
  std::thread thread_;
};

/// Answers one connection with one dump after the other, as often as told, and ends.
class DumpingDaemon {
 public:
  DumpingDaemon(const std::string& path, std::vector<std::string> dumps)
      : dumps_(std::move(dumps)), listener_(socket(AF_UNIX, SOCK_SEQPACKET, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    unlink(path.c_str());
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    thread_ = std::thread([this] { Serve(); });
  }
  ~DumpingDaemon() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

 private:
  void Serve() {
    const Fd peer(accept(listener_.get(), nullptr, nullptr));
    if (!peer) return;
    uint8_t request[512];
    for (const std::string& dump : dumps_) {
      if (recv(peer.get(), request, sizeof(request), 0) <= 0) return;
      int ends[2];
      ASSERT_EQ(pipe(ends), 0);
      const Fd reader(ends[0]);
      const Fd writer(ends[1]);
      EXPECT_EQ(write(writer.get(), dump.data(), dump.size()), static_cast<ssize_t>(dump.size()));
      Send(peer.get(), MakeAnswer(uint64_t{0}, {reader.get()}));
    }
    recv(peer.get(), request, sizeof(request), 0);
  }

  const std::vector<std::string> dumps_;
  Fd listener_;
  std::thread thread_;
};

Fd SealedMemory(uint64_t length_bytes, const std::string& text = "", bool sealed = true) {
  Fd fd(memfd_create("test", MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(length_bytes)), 0);
  EXPECT_EQ(pwrite(fd.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  if (sealed) {
    EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  }
  return fd;
}

Answer JustFds(const std::vector<int>& fds) {
  Answer answer{.fds = fds};
  uroce_reply header{};
  header.size = sizeof(header);
  Append(answer.bytes, header);
  return answer;
}

TEST(ControlClientTest, DumpIsReadToTheEndFromThePipeThatComesWithTheReply) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  FakeDaemon daemon(JustFds({reader.get()}));
  std::thread slow([&writer] {
    for (const char* part : {"{\"a\"", ":1", "}"}) {
      EXPECT_GT(write(writer.get(), part, strlen(part)), 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    writer = Fd();
  });
  const auto text = FetchDump(daemon.path(), UROCE_DUMP_QP);
  slow.join();
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "{\"a\":1}");
}

TEST(ControlClientTest, DumpThatCannotBeReadIsAnError) {
  const Fd directory(open("/", O_RDONLY | O_DIRECTORY));
  FakeDaemon daemon(JustFds({directory.get()}));
  EXPECT_FALSE(FetchDump(daemon.path(), UROCE_DUMP_QP).ok());
}

TEST(ControlClientTest, ReplyWithoutFileIsAnError) {
  FakeDaemon daemon(JustFds({}));
  EXPECT_FALSE(FetchDump(daemon.path(), UROCE_DUMP_QP).ok());
}

TEST(ControlClientTest, RefusalCarriesTheDaemonsReason) {
  Answer answer;
  uroce_reply header{};
  header.error = EPERM;
  header.size = sizeof(header);
  strncpy(header.text, "only root captures", sizeof(header.text) - 1);
  Append(answer.bytes, header);
  FakeDaemon daemon(answer);
  const auto text = FetchDump(daemon.path(), UROCE_DUMP_QP);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().message(), "only root captures");
}

// The reason is printed, and a terminal obeys such bytes. uroce-extcap prints it too.
TEST(ControlClientTest, ARefusalSteersNoTerminal) {
  Answer answer;
  uroce_reply header{};
  header.error = EPERM;
  header.size = sizeof(header);
  strncpy(header.text,
          "no\x1b[2J\xc2\x9b"
          "2J",
          sizeof(header.text) - 1);
  Append(answer.bytes, header);
  FakeDaemon daemon(answer);
  EXPECT_EQ(FetchDump(daemon.path(), UROCE_DUMP_QP).status().message(), "no?[2J??2J");
}

TEST(ControlClientTest, DaemonThatHangsUpIsAnError) {
  FakeDaemon daemon(Answer{});
  EXPECT_FALSE(FetchDump(daemon.path(), UROCE_DUMP_QP).ok());
}

class DumpClientTest : public testing::Test {
 protected:
  DumpClientTest() {
    char place[] = "/tmp/uroce-test-XXXXXX";
    directory_ = mkdtemp(place);
  }
  ~DumpClientTest() override { std::filesystem::remove_all(directory_); }
  std::string path() const { return directory_ + "/socket"; }

 private:
  std::string directory_;
};

void ExpectEnded(const absl::StatusOr<std::string>& text) {
  EXPECT_EQ(text.status(), absl::DataLossError("the daemon has ended"));
}

TEST_F(DumpClientTest, ADaemonThatEndedIsNotOneThatWasNeverThere) {
  DumpClient client(path());
  EXPECT_THAT(std::string(client.Fetch(UROCE_DUMP_QP).status().message()),
              HasSubstr("start uroced"));
  {
    const DumpingDaemon daemon(path(), {"{}", "{ }"});
    EXPECT_EQ(client.Fetch(UROCE_DUMP_QP).value(), "{}");
    EXPECT_EQ(client.Fetch(UROCE_DUMP_QP).value(), "{ }");
    EXPECT_FALSE(client.HasEnded());
    client.Await(0.001);  // Returns before an event.
    // The daemon takes one more request, and dies of it.
    ExpectEnded(client.Fetch(UROCE_DUMP_QP));
  }
  ExpectEnded(client.Fetch(UROCE_DUMP_QP));
}

TEST_F(DumpClientTest, AnotherDaemonOnTheSocketIsNotTheOneThatIsWatched) {
  DumpClient client(path());
  {
    const DumpingDaemon daemon(path(), {"{}"});
    EXPECT_TRUE(client.Fetch(UROCE_DUMP_QP).ok());
    ExpectEnded(client.Fetch(UROCE_DUMP_QP));
  }
  const DumpingDaemon another(path(), {"{}"});
  EXPECT_TRUE(client.HasEnded());
  ExpectEnded(client.Fetch(UROCE_DUMP_QP));
}

TEST_F(DumpClientTest, WhoWaitsIsWokenByTheEnd) {
  DumpClient client(path());
  const DumpingDaemon daemon(path(), {"{}"});
  EXPECT_TRUE(client.Fetch(UROCE_DUMP_QP).ok());
  ExpectEnded(client.Fetch(UROCE_DUMP_QP));
  const auto begin = std::chrono::steady_clock::now();
  client.Await(3600);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
}

TEST(ControlClientTest, MissingDaemonNamesSocketAndCure) {
  const auto text = FetchDump("/nonexistent/uroced.sock", UROCE_DUMP_QP);
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("/nonexistent/uroced.sock"));
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("start uroced"));
}

TEST(ControlClientTest, SocketPathThatFitsNoAddressIsAnError) {
  EXPECT_FALSE(FetchDump(std::string(200, 'x'), UROCE_DUMP_QP).ok());
}

struct CaptureAnswer {
  uroce_capture_reply reply;
  uroce_capture_interface interface;
};

CaptureAnswer GoodCapture() {
  CaptureAnswer answer{};
  answer.reply = {.map_bytes = 12288,
                  .ring_offset = 4096,
                  .ring_bytes = 8192,
                  .interface_count = 1,
                  .ring_count = 1};
  strncpy(answer.interface.name, "uroce0", sizeof(answer.interface.name) - 1);
  return answer;
}

absl::StatusOr<CaptureSession> Capture(const CaptureAnswer& answer, const Fd& memory) {
  FakeDaemon daemon(MakeAnswer(answer, {memory.get()}));
  return StartCapture(daemon.path(), uroce_capture{});
}

TEST(ControlClientTest, CaptureReturnsRingAndInterfaces) {
  const auto session = Capture(GoodCapture(), SealedMemory(12288));
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->reply.ring_bytes, 8192u);
  ASSERT_EQ(session->interfaces.size(), 1u);
  EXPECT_STREQ(session->interfaces[0].name, "uroce0");
}

TEST(ControlClientTest, NamesOfInterfacesSteerNoTerminal) {
  CaptureAnswer answer = GoodCapture();
  memset(answer.interface.name, 0x1b, sizeof(answer.interface.name));
  const auto session = Capture(answer, SealedMemory(12288));
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->interfaces[0].name, std::string(sizeof(answer.interface.name) - 1, '?'));
}

TEST(ControlClientTest, CaptureMemoryThatCouldShrinkIsRefused) {
  EXPECT_FALSE(Capture(GoodCapture(), SealedMemory(12288, "", false)).ok());
}

TEST(ControlClientTest, CaptureRingOutsideItsMemoryIsRefused) {
  EXPECT_FALSE(Capture(GoodCapture(), SealedMemory(8192)).ok());
  CaptureAnswer answer = GoodCapture();
  answer.reply.ring_offset = 8192;
  EXPECT_FALSE(Capture(answer, SealedMemory(12288)).ok());
}

TEST(ControlClientTest, EachRingOfACaptureHasAPartOfTheMemory) {
  CaptureAnswer answer = GoodCapture();
  answer.reply.ring_count = 2;
  answer.reply.map_bytes = 2 * 12288;
  EXPECT_TRUE(Capture(answer, SealedMemory(2 * 12288)).ok());
  answer.reply.map_bytes = 2 * 12288 - 128;
  EXPECT_FALSE(Capture(answer, SealedMemory(2 * 12288)).ok()) << "the rings overlap";
  answer.reply.map_bytes = 2 * 12288 + 2;
  EXPECT_FALSE(Capture(answer, SealedMemory(3 * 12288)).ok()) << "a page would not be aligned";
  answer.reply.ring_count = 0;
  EXPECT_FALSE(Capture(answer, SealedMemory(3 * 12288)).ok());
}

TEST(ControlClientTest, CaptureRingOfOddSizeIsRefused) {
  CaptureAnswer answer = GoodCapture();
  answer.reply.ring_bytes = 8000;
  EXPECT_FALSE(Capture(answer, SealedMemory(12288)).ok());
}

TEST(ControlClientTest, CaptureWithMoreInterfacesThanTheReplyHoldsIsRefused) {
  CaptureAnswer answer = GoodCapture();
  answer.reply.interface_count = 2;
  EXPECT_FALSE(Capture(answer, SealedMemory(12288)).ok());
}

}  // namespace
}  // namespace uroce::tools
