// SPDX-License-Identifier: Apache-2.0
// The story of the golden captures of Linux's software RoCE, whose faults
// tests/golden/linux-rxe-4-loss.txt lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tools/analyze/story_script.h"
#include "tools/analyze/input/capture_set.h"

namespace uroce::tools::analyze {
namespace {

using testing::ElementsAre;

std::vector<std::string> StoryOf(const std::string& name) {
  absl::StatusOr<CaptureSet> set =
      CaptureSet::Open({std::string(UROCE_GOLDEN_DIR) + "/" + name + ".pcap"});
  EXPECT_TRUE(set.ok()) << set.status();
  Analysis analysis(AnalysisOptions{});
  PacketReader reader;
  CapturedPacket packet;
  for (SetFrame next; set->Next(next);) {
    reader.Read(next.frame, packet);
    analysis.OnPacket(packet);
  }
  EXPECT_TRUE(set->status().ok()) << set->status();
  analysis.Finish();
  return Brief(analysis);
}

TEST(GoldenStoryTest, EachFaultOfTheProxyIsFound) {
  EXPECT_THAT(
      StoryOf("linux-rxe-4-loss"),
      ElementsAre(
          // 1 to 4: a READ response is lost.
          "loss response psn=4354 frame=4 side=requester", "go-back-n psn=4354 frame=7",
          "loss response psn=4612 frame=16 side=requester", "timeout psn=4612 frame=17",
          "loss response psn=4864 frame=20 side=requester", "go-back-n psn=4864 frame=25",
          "loss response psn=5122 frame=34 side=requester", "go-back-n psn=5122 frame=37",
          // 5 to 7: a request packet.
          "loss request psn=5378 frame=43 side=responder", "sequence-nak psn=5378 frame=46",
          "go-back-n psn=5378 frame=47 count=3",  //
          "loss request psn=5636 frame=55 side=responder", "timeout psn=5632 frame=56",
          "go-back-n psn=5632 frame=56 count=5",  //
          "loss request psn=5888 frame=66 side=responder", "sequence-nak psn=5888 frame=68",
          "go-back-n psn=5888 frame=69 count=2",
          // 8 to 10: an ACK, that of an atomic, a READ request.
          "loss response psn=6144 frame=76 side=requester", "timeout psn=6144 frame=77",
          "loss response psn=6400 frame=80 side=requester", "timeout psn=6400 frame=81",
          "loss psn=6656 frame=83 side=responder", "timeout psn=6656 frame=84",
          // 13: two packets are swapped.
          "reordering request psn=7425 frame=97 side=requester", "sequence-nak psn=7425 frame=100",
          "go-back-n psn=7425 frame=101 count=4",
          // 14 and 15: ACKs that later answers make up for. 16: a READ response before a WRITE.
          "loss response psn=8192 frame=120 side=requester", "go-back-n psn=8192 frame=122 count=2",
          // 17 and 23: UC shows no loss behind the point. 18: a wrong ICRC.
          "icrc-error psn=8704 frame=136", "timeout psn=8704 frame=137",
          // 19 to 21: copies.
          "duplicate request psn=8960 frame=139", "duplicate request psn=9216 frame=143",
          "duplicate request psn=9472 frame=147",
          // 22: the first of two WRITEs.
          "loss request psn=9730 frame=153 side=responder", "sequence-nak psn=9730 frame=155",
          "go-back-n psn=9730 frame=156 count=2",
          // 24: an ACK of what was not sent.
          "violation psn=10245 frame=173",
          // 25: a READ response twice.
          "loss response psn=10498 frame=178 side=requester", "go-back-n psn=10498 frame=181",
          "loss response psn=10498 frame=182 side=requester", "go-back-n psn=10498 frame=185",
          // 12: marks.
          "congestion psn=7173 frame=89 count=5"));
}

TEST(GoldenStoryTest, LateReceiverIsNotReady) {
  EXPECT_THAT(StoryOf("linux-rxe-5-rnr"),
              ElementsAre("rnr psn=1048576 frame=2 count=2", "rnr psn=1048577 frame=8 count=2"));
}

}  // namespace
}  // namespace uroce::tools::analyze
