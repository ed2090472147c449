// SPDX-License-Identifier: Apache-2.0
#include "nic/control/statistics.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "tests/nic/control/watched_nic.h"

namespace uroce::nic {
namespace {

namespace fs = std::filesystem;

class LiveCountersTest : public testing::Test {
 protected:
  ~LiveCountersTest() override {
    counters_.reset();
    fs::remove_all(directory_);
  }
  static std::string MakeDirectory() {
    char directory[] = "/tmp/uroce-live-counters-XXXXXX";
    return mkdtemp(directory);
  }

  void Start() {
    counters_ = std::make_unique<LiveCounters>(bed_.loop(), bed_.nic(), statistics_, tree_);
  }
  /// The paths in this directory of the first device.
  std::vector<fs::path> Files(const std::string& name) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
      if (entry.is_regular_file() && entry.path().parent_path().filename() == name) {
        found.push_back(entry.path());
      }
    }
    std::ranges::sort(found);
    return found;
  }
  fs::path FileOf(const std::string& device, const std::string& name) const {
    for (const char* const kind : {"counters", "hw_counters"}) {
      for (const fs::path& path : Files(kind)) {
        const bool is_of_device = path.string().find("/" + device + "/") != std::string::npos;
        if (is_of_device && path.filename() == name) return path;
      }
    }
    ADD_FAILURE() << device << " has no " << name;
    return {};
  }
  static uint64_t Number(const fs::path& path) {
    std::ifstream file(path);
    uint64_t value = 0;
    file >> value;
    return value;
  }
  /// Reads on another thread, while the loop runs: who opens a file waits for it.
  uint64_t Read(const fs::path& path) {
    std::future<uint64_t> number = std::async(std::launch::async, Number, path);
    bed_.TurnUntil(
        [&] { return number.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
    return number.get();
  }
  std::atomic<uint64_t>& packets(size_t device) {
    return bed_.nic().devices()[device]->datapath().counters(0).port_rcv_packets;
  }

  WatchedNic& bed_ = WatchedNic::Get();
  Statistics statistics_{bed_.dumps()};
  const std::string directory_ = MakeDirectory();
  OwnTree tree_ = *OwnTree::Make(directory_ + "/tree");
  std::unique_ptr<LiveCounters> counters_;
};

// A program that was told that the daemon is ready, or that there is a device, may read at once.
TEST_F(LiveCountersTest, FilesAreThereBeforeTheLoopTurns) {
  Start();
  for (const char* const device : {"uroce0", "uroce1"}) {
    EXPECT_EQ(Number(FileOf(device, "link_downed")), 0u);
    EXPECT_EQ(Number(FileOf(device, "out_of_buffer")), 0u);
  }
}

TEST_F(LiveCountersTest, EachDeviceHasFilesWithItsNumbers) {
  Start();
  packets(0).fetch_add(3);
  packets(1).fetch_add(5);
  for (size_t device = 0; device < 2; ++device) {
    const fs::path path = FileOf("uroce" + std::to_string(device), "port_rcv_packets");
    bed_.TurnUntil([&] { return Read(path) == packets(device).load(); });
  }
}

// A number may be as old as the lifespan says: 10 ms.
TEST_F(LiveCountersTest, ANumberIsThatOfTheMomentAtWhichTheFileIsOpened) {
  Start();
  EXPECT_EQ(Number(FileOf("uroce0", "lifespan")), 10u);
  const fs::path path = FileOf("uroce0", "port_rcv_packets");
  for (int i = 0; i < 20; ++i) {
    packets(0).fetch_add(1);
    const uint64_t now = packets(0).load();
    bed_.TurnUntil([&] { return Read(path) == now; });
  }
}

// Without leases they are written once a second, so this would take a minute.
TEST_F(LiveCountersTest, FilesThatNoProgramOpensAreNotWritten) {
  Start();
  const fs::path path = FileOf("uroce1", "port_rcv_packets");
  for (int i = 0; i < 3; ++i) Read(path);
  const auto written = fs::last_write_time(path);
  packets(1).fetch_add(1);
  bed_.looks = 0;
  for (int i = 0; i < 20; ++i) bed_.loop().RunOnce(1);
  if (bed_.looks != 0) GTEST_SKIP() << "no leases in " << directory_;
  EXPECT_EQ(fs::last_write_time(path), written);
  bed_.TurnUntil([&] { return Read(path) == packets(1).load(); });
}

// With a lease that is left they would wait for /proc/sys/fs/lease-break-time.
TEST_F(LiveCountersTest, FilesCanBeReadAfterItsEnd) {
  Start();
  const fs::path path = FileOf("uroce0", "port_rcv_packets");
  Read(path);
  for (int i = 0; i < 20; ++i) bed_.loop().RunOnce(5);  // Time to take the leases.
  counters_.reset();
  EXPECT_EQ(Number(path), packets(0).load());
}

TEST_F(LiveCountersTest, ThereAreNoneWhenTheyWouldTakeTheFilesOfPrograms) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit little = before;
  little.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &little), 0);
  bool is_answered = false;
  Start();
  statistics_.Ask([&](const auto&) { is_answered = true; });
  bed_.TurnUntil([&] { return is_answered; });
  EXPECT_TRUE(Files("counters").empty());
  EXPECT_TRUE(Files("hw_counters").empty());
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace uroce::nic
