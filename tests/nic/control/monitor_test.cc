// SPDX-License-Identifier: Apache-2.0
#include "nic/control/monitor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <sstream>

#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "tests/nic/control/watched_nic.h"

namespace uroce::nic {
namespace {

constexpr uid_t kAnna = 1001;
constexpr uid_t kBert = 1002;

/// A client that watches, on its own connection.
struct Onlooker {
  Onlooker(Monitor& monitor, uint32_t id, uid_t uid) : client(id, Peer{getpid(), uid, uid}) {
    EXPECT_TRUE(monitor.Watch(client, reader).ok());
  }
  /// The events that have come since the last call.
  std::vector<Monitor::Json> Take() {
    std::string text = rest;
    char piece[4096];
    ssize_t got = 0;
    while ((got = recv(reader.get(), piece, sizeof(piece), MSG_DONTWAIT)) > 0) {
      text.append(piece, static_cast<size_t>(got));
    }
    is_over = got == 0;
    std::vector<Monitor::Json> events;
    size_t begin = 0;
    for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      events.push_back(Monitor::Json::parse(text.substr(begin, end - begin)));
    }
    rest = text.substr(begin);
    return events;
  }

  Client client;
  Fd reader;
  std::string rest;      ///< Of a line that has not come as a whole.
  bool is_over = false;  ///< The monitor has closed its end.
};

class MonitorTest : public testing::Test {
 protected:
  ~MonitorTest() override { bed_.programs.clear(); }

  WatchedNic& bed_ = WatchedNic::Get();
  Monitor monitor_{bed_.dumps()};
};

TEST_F(MonitorTest, ProgramsAreReportedToTheirUserAndToThePrivileged) {
  Onlooker root(monitor_, 1, 0);
  Onlooker anna(monitor_, 2, kAnna);
  Onlooker bert(monitor_, 3, kBert);
  const Client program(4, Peer{getpid(), kAnna, kAnna});
  monitor_.OnProgram(program, /*has_joined=*/true);
  monitor_.OnProgram(program, /*has_joined=*/false);
  for (Onlooker* each : {&root, &anna}) {
    const auto events = each->Take();
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0]["event"], "program_joined");
    EXPECT_EQ(events[0]["pid"], getpid());
    EXPECT_EQ(events[0]["session"], 4);
    EXPECT_EQ(events[1]["event"], "program_left");
  }
  EXPECT_TRUE(bert.Take().empty());
}

TEST_F(MonitorTest, DevicesAreReportedToAll) {
  Onlooker anna(monitor_, 2, kAnna);
  const NicDevice& device = *bed_.nic().devices().front();
  monitor_.OnLink(device);
  monitor_.OnGids(device);
  monitor_.OnMac(device);
  monitor_.OnInterface(device);
  std::vector<std::string> kinds;
  for (const auto& event : anna.Take()) {
    EXPECT_EQ(event["device"], device.name());
    kinds.push_back(event["event"]);
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"link", "gids", "mac", "interface"}));
}

TEST_F(MonitorTest, NothingIsLookedAtWithoutWatchers) {
  bed_.looks = 0;
  const Client program(4, Peer{getpid(), kAnna, kAnna});
  monitor_.OnProgram(program, true);
  for (int i = 0; i < 10; ++i) bed_.loop().RunOnce(0);
  EXPECT_EQ(bed_.looks, 0);
  {
    const Onlooker onlooker(monitor_, 1, 0);
    bed_.TurnUntil([&] { return bed_.looks != 0; });
    monitor_.Forget(onlooker.client);
  }
  bed_.looks = 0;
  for (int i = 0; i < 10; ++i) bed_.loop().RunOnce(0);
  EXPECT_EQ(bed_.looks, 0);
}

// Those that are there already are no news.
TEST_F(MonitorTest, QueuePairsAreReportedWhenTheyChange) {
  WatchedProgram program(bed_.nic(), 5, 0);
  bed_.programs = {&program.client};
  const auto old = program.MakeQp();
  Onlooker root(monitor_, 1, 0);
  bed_.looks = 0;
  bed_.TurnUntil([&] { return bed_.looks >= 2; });  // Some of them, and that there are no more.
  EXPECT_TRUE(root.Take().empty());

  program.ToInit(old.handle);
  monitor_.OnModified(program.client, old.handle);
  monitor_.OnModified(program.client, old.handle);
  std::vector<Monitor::Json> events = root.Take();
  ASSERT_EQ(events.size(), 1u) << "once, though it was looked at twice";
  EXPECT_EQ(events[0]["event"], "queue_pair");
  EXPECT_EQ(events[0]["qpn"], old.qp_num);
  EXPECT_EQ(events[0]["from"], "RESET");
  EXPECT_EQ(events[0]["to"], "INIT");

  const auto fresh = program.MakeQp();
  bed_.TurnUntil([&] { return !(events = root.Take()).empty(); });
  EXPECT_EQ(events[0]["qpn"], fresh.qp_num);
  EXPECT_EQ(events[0]["from"], "");
  EXPECT_EQ(events[0]["to"], "RESET");

  EXPECT_TRUE(program.program().queue_pairs().Destroy(old.handle).ok());
  bed_.TurnUntil([&] { return !(events = root.Take()).empty(); });
  EXPECT_EQ(events[0]["qpn"], old.qp_num);
  EXPECT_EQ(events[0]["from"], "INIT");
  EXPECT_EQ(events[0]["to"], "");
}

TEST_F(MonitorTest, WhoIsTooSlowIsToldHowManyEventsAreLost) {
  Onlooker slow(monitor_, 1, 0);
  Onlooker other(monitor_, 2, 0);
  constexpr uint64_t kEvents = 20'000;
  const NicDevice& device = *bed_.nic().devices().front();
  uint64_t seen_by_other = 0;
  for (uint64_t i = 0; i < kEvents; ++i) {
    monitor_.OnMac(device);
    if (i % 100 == 0) seen_by_other += other.Take().size();
  }
  std::vector<Monitor::Json> events;
  uint64_t told = 0;
  uint64_t lost = 0;
  bed_.TurnUntil([&] {
    for (const auto& event : slow.Take()) {
      if (event["event"] == "lost") {
        lost += event["count"].get<uint64_t>();
      } else {
        ++told;
      }
    }
    return lost != 0;
  });
  EXPECT_EQ(told + lost, kEvents);
  EXPECT_GT(told * 256, Monitor::kMaxBytes) << "as much as is kept for a slow one";
  seen_by_other += other.Take().size();
  EXPECT_EQ(seen_by_other, kEvents) << "no client loses events because another is slow";
  monitor_.OnMac(device);
  EXPECT_EQ(slow.Take().size(), 1u) << "from then on it has them all again";
}

TEST_F(MonitorTest, WhoHasGoneIsForgotten) {
  auto gone = std::make_unique<Onlooker>(monitor_, 1, 0);
  Onlooker there(monitor_, 2, 0);
  gone->reader.Reset();
  const NicDevice& device = *bed_.nic().devices().front();
  monitor_.OnMac(device);
  monitor_.OnMac(device);
  EXPECT_EQ(there.Take().size(), 2u);
}

TEST_F(MonitorTest, AClientThatWatchesAgainLeavesItsFirstWatch) {
  Onlooker onlooker(monitor_, 1, 0);
  Fd second;
  ASSERT_TRUE(monitor_.Watch(onlooker.client, second).ok());
  monitor_.OnMac(*bed_.nic().devices().front());
  EXPECT_TRUE(onlooker.Take().empty());
  EXPECT_TRUE(onlooker.is_over);
  char byte = 0;
  EXPECT_EQ(recv(second.get(), &byte, 1, MSG_DONTWAIT), 1);
}

}  // namespace
}  // namespace uroce::nic
