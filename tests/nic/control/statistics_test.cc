// SPDX-License-Identifier: Apache-2.0
#include "nic/control/statistics.h"

#include <gtest/gtest.h>

#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "pipeline/datapath/worker/worker.h"
#include "tests/nic/control/watched_nic.h"

namespace uroce::nic {
namespace {

using Newest = std::shared_ptr<const Snapshot>;

uint64_t CounterOf(const Snapshot& snapshot, const std::string& name) {
  for (const NamedCount& counter : snapshot.devices.at(0).counters) {
    if (counter.name == name) return counter.value;
  }
  ADD_FAILURE() << "there is no " << name;
  return 0;
}

class StatisticsTest : public testing::Test {
 protected:
  ~StatisticsTest() override { bed_.programs.clear(); }

  /// Asks, and waits for the answer.
  Newest Ask() {
    Newest answer;
    statistics_.Ask([&](const Newest& its) { answer = its; });
    bed_.TurnUntil([&] { return answer != nullptr; });
    return answer;
  }

  WatchedNic& bed_ = WatchedNic::Get();
  Statistics statistics_{bed_.dumps()};
};

TEST_F(StatisticsTest, QuestionsThatComeMeanwhileGetOneAnswer) {
  std::vector<Newest> answers;
  for (int i = 0; i < 3; ++i) {
    statistics_.Ask([&](const Newest& its) { answers.push_back(its); });
  }
  EXPECT_TRUE(answers.empty()) << "nothing is looked at before the loop's next turn";
  bed_.TurnUntil([&] { return answers.size() == 3; });
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(answers[0], answers[2]);
}

TEST_F(StatisticsTest, AnAnswerIsKeptForAWhile) {
  // A busy machine may take longer than an answer lives.
  bool was_at_once = false;
  while (!was_at_once) {
    const Newest first = Ask();
    statistics_.Ask([&](const Newest& its) { was_at_once = its == first; });
    bed_.TurnUntil([&] { return was_at_once || Ask() != first; });
  }
}

TEST_F(StatisticsTest, AnAnswerBecomesOld) {
  auto& packets = bed_.nic().devices().front()->datapath().counters(0).port_rcv_packets;
  const auto shown = [](const Newest& its) { return CounterOf(*its, "port_rcv_packets"); };
  const uint64_t before = shown(Ask());
  packets.fetch_add(7);
  bed_.TurnUntil([&] { return shown(Ask()) >= before + 7; });
}

TEST_F(StatisticsTest, ProgramsAndTheirQueuePairsAreCounted) {
  WatchedProgram anna(bed_.nic(), 5, 1001);
  WatchedProgram bert(bed_.nic(), 6, 1002);
  bed_.programs = {&anna.client, &bert.client};
  constexpr uint32_t kOfAnna = 150;  // More than one look takes.
  for (uint32_t i = 0; i < kOfAnna; ++i) anna.MakeQp();
  bert.MakeQp();
  Newest answer;
  bed_.TurnUntil([&] {
    answer = Ask();
    return CounterOf(*answer, "queue_pairs") == kOfAnna + 1;
  });
  const std::vector<ProgramSnapshot>& programs = answer->programs;
  ASSERT_EQ(programs.size(), 2u);
  EXPECT_EQ(programs[0].session, 5u);
  EXPECT_EQ(programs[0].queue_pairs, kOfAnna);
  EXPECT_EQ(programs[1].queue_pairs, 1u);
}

// The loop serves others in between: a piece is 128 queue pairs.
TEST_F(StatisticsTest, ManyQueuePairsAreLookedAtInPieces) {
  WatchedProgram program(bed_.nic(), 5, 0);
  bed_.programs = {&program.client};
  for (uint32_t i = 0; i < 400; ++i) program.MakeQp();
  Newest answer;
  Statistics fresh(bed_.dumps());
  fresh.Ask([&](const Newest& its) { answer = its; });
  int turns = 0;
  for (; answer == nullptr; ++turns) bed_.loop().RunOnce(10);
  EXPECT_GE(turns, 4);
}

TEST_F(StatisticsTest, NoClientIsAnsweredAfterItsEnd) {
  bool is_answered = false;
  {
    Statistics brief(bed_.dumps());
    brief.Ask([&](const Newest&) { is_answered = true; });
  }
  for (int i = 0; i < 10; ++i) bed_.loop().RunOnce(0);
  EXPECT_FALSE(is_answered);
}

TEST_F(StatisticsTest, HistogramsAreSumsOfWhatWorkersCount) {
  datapath::Device& device = bed_.nic().devices().front()->datapath();
  const auto shown = [this] { return Ask()->devices.at(0).sent_bytes; };
  const HistogramSums before = shown();
  bed_.nic().workers().at(0).Run([&] { device.histograms(0).sent_bytes.Add(64); });
  bed_.TurnUntil([&] {
    const HistogramSums now = shown();
    return now.counts[1] == before.counts[1] + 1 && now.sum == before.sum + 64;
  });
}

}  // namespace
}  // namespace uroce::nic
