// SPDX-License-Identifier: Apache-2.0
// Paths of sockets before a driver takes them.
#include "pipeline/os/unix_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace uroce::drivers {
namespace {

class UnixSocketPathTest : public testing::Test {
 protected:
  UnixSocketPathTest() {
    char name[] = "/tmp/uroce-test-XXXXXX";
    directory_ = mkdtemp(name);
    path_ = directory_ + "/socket";
  }
  ~UnixSocketPathTest() override {
    if (server_ >= 0) close(server_);
    std::filesystem::remove_all(directory_);
  }
  void Listen() {
    server_ = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(server_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(server_, 1), 0);
  }
  void Die() {
    close(server_);
    server_ = -1;
  }
  static void ExpectError(const absl::Status& status, const char* hint) {
    EXPECT_NE(status.message().find(hint), std::string::npos) << status;
  }

  std::string directory_;
  std::string path_;
  int server_ = -1;
};

TEST_F(UnixSocketPathTest, AFreePathIsRightForAServerAndWrongForAClient) {
  EXPECT_TRUE(PrepareServerPath(path_).ok());
  ExpectError(CheckServerListens(path_), "nobody listens there");
}

TEST_F(UnixSocketPathTest, ASocketThatADeadServerLeftIsRemoved) {
  Listen();
  Die();
  ExpectError(CheckServerListens(path_), "nobody listens there");
  EXPECT_TRUE(PrepareServerPath(path_).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(UnixSocketPathTest, ALiveServerKeepsItsSocket) {
  Listen();
  EXPECT_TRUE(CheckServerListens(path_).ok());
  ExpectError(PrepareServerPath(path_), "somebody listens there already");
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(UnixSocketPathTest, AFileIsNotTakenForASocket) {
  std::ofstream(path_) << "precious";
  ExpectError(PrepareServerPath(path_), "exists and is no socket");
  EXPECT_EQ(std::filesystem::file_size(path_), 8u);
}

TEST_F(UnixSocketPathTest, DirectoryAndLengthAreChecked) {
  ExpectError(PrepareServerPath(directory_ + "/missing/socket"), "No such file or directory");
  ExpectError(PrepareServerPath(directory_ + "/" + std::string(120, 'x')), "1 to 107 bytes");
  ExpectError(CheckServerListens(""), "1 to 107 bytes");
}

}  // namespace
}  // namespace uroce::drivers
