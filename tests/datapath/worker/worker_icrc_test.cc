// SPDX-License-Identifier: Apache-2.0
// Frames that stay in the daemon without an ICRC, and those who get to see it all the same.
#include <gtest/gtest.h>

#include <functional>
#include <span>

#include "pipeline/datapath/capture/packet_records.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/port/frames.h"
#include "pipeline/wire/icrc.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kMessageBytes = 3001;  // Three packets, the last with a pad.
constexpr uint64_t kTapBytes = 1 << 20;

bool HasIcrc(std::span<const uint8_t> frame) {
  wire::Packet packet;
  wire::FrameView view;
  return wire::Decode(frame, packet, view) == wire::DecodeResult::kOk &&
         wire::IcrcIsRight(frame, view);
}

class WorkerIcrcTest : public testing::TestWithParam<MrMode> {
 protected:
  WorkerIcrcTest() {
    bed_.Connect(a_, b_);
    bed_.StartCopyHelper();
    for (const auto& device : bed_.devices) device->leaves_icrc_out = true;
    for (TestPort& port : bed_.ports) {
      port.filter = [this](rte_mbuf* frame) {
        (pending_.IsSet(*frame) ? without_ : with_) += 1;
        if (!pending_.IsSet(*frame)) {
          EXPECT_TRUE(HasIcrc(BytesOf(*frame)));
        }
        return !spoil_ || spoil_(frame);
      };
    }
  }
  ~WorkerIcrcTest() override { bed_.RemoveEndpoints(); }

  void Write() {
    a_.PostSend({.opcode = kWrite,
                 .wr_id = 1,
                 .list = {Testbed::Sge(from_, 0, kMessageBytes)},
                 .remote_addr = to_.iova,
                 .rkey = to_.key});
  }
  bool Arrived() const {
    return std::equal(source_.begin(), source_.begin() + kMessageBytes, target_.begin());
  }
  void AddTap() {
    bed_.worker->Run([this] { bed_.worker->AddTap(&tap_); });
  }
  /// Ends the capture; how many frames it has, all with a right ICRC.
  uint64_t Captured() {
    bed_.worker->Run([this] { bed_.worker->RemoveTap(&tap_); });
    uint64_t count = 0;
    uroce_capture_record record;
    for (uint64_t at = 0; at < page_.produced.value; at += record.size, ++count) {
      memcpy(&record, lines_[0].bytes + at, sizeof(record));
      EXPECT_TRUE(HasIcrc({lines_[0].bytes + at + sizeof(record), record.captured_length}))
          << "frame " << count;
    }
    return count;
  }
  uint64_t Refused() const { return bed_.devices[1]->counters(0).rx_icrc_encapsulated.load(); }

  struct alignas(64) TapLine {
    uint8_t bytes[64];
  };
  Testbed bed_;
  const drivers::PendingIcrc pending_;
  std::function<bool(rte_mbuf*)> spoil_;
  uint64_t with_ = 0;
  uint64_t without_ = 0;
  Endpoint& a_ = bed_.AddEndpoint(0);
  Endpoint& b_ = bed_.AddEndpoint(1);
  std::vector<uint8_t> source_ = Pattern(kMessageBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kMessageBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kMessageBytes, kAllAccess, GetParam());
  MemoryRegion& to_ = bed_.Register(target_.data(), kMessageBytes, kAllAccess, GetParam());
  uroce_capture_page page_{};
  std::vector<TapLine> lines_ = std::vector<TapLine>(kTapBytes / sizeof(TapLine));
  CaptureTap tap_{&page_, lines_[0].bytes, kTapBytes, {}};
};

TEST_P(WorkerIcrcTest, InTheDaemonNoFrameCarriesOne) {
  Write();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(with_, 0u);
  EXPECT_EQ(without_, 4u) << "three packets and an ACK";
}

TEST_P(WorkerIcrcTest, ThoseOfADeviceThatLeavesTheDaemonDo) {
  for (const auto& device : bed_.devices) device->leaves_icrc_out = false;
  Write();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(with_, 4u);
}

TEST_P(WorkerIcrcTest, ACaptureSeesItInBothDirections) {
  AddTap();
  Write();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_EQ(Captured(), 8u);
  EXPECT_EQ(without_, 0u);
}

TEST_P(WorkerIcrcTest, ACaptureThatBeginsWhileFramesAreOnTheirWaySeesItToo) {
  Write();
  EXPECT_TRUE(bed_.RunUntil([&] { return !bed_.ports[1].arrived.empty(); }));
  AddTap();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_GT(without_, 0u);
  EXPECT_GT(Captured(), 0u);
}

// The headers of the first packet are made before the capture begins, and its copy ends after.
TEST_P(WorkerIcrcTest, ACaptureThatBeginsDuringACopySeesItToo) {
  Write();
  bed_.Turn();
  AddTap();
  bed_.Settle();
  EXPECT_TRUE(Arrived());
  EXPECT_GT(Captured(), 0u);
}

TEST_P(WorkerIcrcTest, AFrameThatWasSpoiltIsRefusedAndRepeated) {
  uint64_t frames = 0;
  spoil_ = [&](rte_mbuf* frame) {
    if (++frames != 2) return true;
    pending_.Settle(*frame);
    *rte_pktmbuf_mtod_offset(frame, uint8_t*, 60) ^= 1;
    return true;
  };
  Write();
  bed_.Settle();
  EXPECT_TRUE(bed_.RunUntil([this] { return Arrived(); }));
  EXPECT_EQ(Refused(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Memory, WorkerIcrcTest, testing::Values(MrMode::kMapped, MrMode::kCopied));

}  // namespace
}  // namespace uroce::datapath
