// SPDX-License-Identifier: Apache-2.0
// Packets that another implementation sent: all decode, verify, read as the text beside them, and
// come out byte for byte when made again from their values. README.md says where they are from.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "pipeline/wire/decode.h"
#include "pipeline/wire/icrc.h"
#include "pipeline/wire/to_string.h"
#include "tests/golden/capture_file.h"
#include "tests/wire/reencode.h"

namespace uroce::wire {
namespace {

struct Capture {
  const char* name;
  int roce_frames;
  int bad_frame;  ///< Number of the one frame with a wrong ICRC, from 1; 0 for none.
};

void PrintTo(const Capture& capture, std::ostream* out) { *out << capture.name; }

std::string PathOf(const Capture& capture, const char* suffix) {
  return std::string(UROCE_GOLDEN_DIR) + "/" + capture.name + suffix;
}

class GoldenTest : public testing::TestWithParam<Capture> {
 protected:
  void SetUp() override { frames_ = ReadCapture(PathOf(GetParam(), ".pcap")); }

  /// Calls `check(number, frame, packet, view)` for each RoCE frame.
  template <typename Check>
  int ForEachPacket(Check check) {
    int count = 0;
    for (size_t i = 0; i < frames_.size(); ++i) {
      Packet packet;
      FrameView view;
      const DecodeResult result = Decode(frames_[i], packet, view);
      if (ClassOf(result) == DecodeClass::kNotRoce) continue;
      EXPECT_EQ(result, DecodeResult::kOk) << "frame " << i + 1 << " " << ToString(result);
      ++count;
      check(static_cast<int>(i) + 1, frames_[i], packet, view);
    }
    return count;
  }

 private:
  std::vector<std::vector<uint8_t>> frames_;
};

TEST_P(GoldenTest, EveryIcrcIsRightButThatOfTheFrameThatWasSpoilt) {
  const int count =
      ForEachPacket([](int number, const auto& frame, const Packet&, const FrameView& view) {
        EXPECT_EQ(IcrcIsRight(frame, view), number != GetParam().bad_frame) << "frame " << number;
      });
  EXPECT_EQ(count, GetParam().roce_frames);
}

TEST_P(GoldenTest, EveryPacketIsMadeAgainByteForByte) {
  ForEachPacket([](int number, const auto& frame, const Packet& packet, const FrameView& view) {
    if (number == GetParam().bad_frame) return;
    std::vector<uint8_t> again = Reencode(frame, packet, view);
    again.resize(std::max(again.size(), frame.size()));  // Ethernet padding, zeros there.
    EXPECT_EQ(again, frame) << "frame " << number << " " << ToString(packet);
  });
}

TEST_P(GoldenTest, EveryPacketReadsAsItsText) {
  std::string text;
  ForEachPacket([&text](int number, const auto&, const Packet& packet, const FrameView&) {
    text += std::to_string(number) + " " + ToString(packet) + "\n";
  });
  if (std::getenv("UROCE_WRITE_GOLDEN") != nullptr) {
    std::ofstream(PathOf(GetParam(), ".packets")) << text;
  }
  std::ifstream file(PathOf(GetParam(), ".packets"));
  const std::string expected((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text, expected);
}

std::string TestName(const testing::TestParamInfo<Capture>& capture) {
  std::string name = capture.param.name;
  for (char& letter : name) {
    if (letter == '-') letter = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Captures, GoldenTest,
                         testing::Values(Capture{"linux-rxe-1", 240, 0},
                                         Capture{"linux-rxe-2", 112, 0},
                                         Capture{"linux-rxe-3", 75, 0},
                                         Capture{"linux-rxe-4-loss", 188, 136},
                                         Capture{"linux-rxe-5-rnr", 20, 0}),
                         TestName);

}  // namespace
}  // namespace uroce::wire
