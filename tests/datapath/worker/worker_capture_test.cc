// SPDX-License-Identifier: Apache-2.0
// The records that a capture gets of the frames that a worker sends and receives.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "pipeline/datapath/capture/packet_records.h"
#include "pipeline/wire/decode.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

constexpr size_t kEthernetBytes = 14;
constexpr size_t kIpv4Bytes = 20;
constexpr uint64_t kRing = 1 << 20;

struct alignas(64) Line {
  uint8_t bytes[64];
};

class WorkerCaptureTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 64 * 1024;

  WorkerCaptureTest() {
    bed_.attributes.retry_count = 3;
    bed_.attributes.rnr_retry = 2;
    bed_.Connect(a_, b_);
    bed_.worker->Run([&] { bed_.worker->AddTap(&tap_); });
  }
  ~WorkerCaptureTest() override {
    bed_.worker->Run([&] { bed_.worker->RemoveTap(&tap_); });
  }
  uint8_t* ring() { return memory_[0].bytes; }

  Endpoint::Send Transfer(uint8_t opcode, uint32_t length, uint32_t rkey) {
    return {.opcode = opcode,
            .wr_id = 1,
            .list = {Testbed::Sge(from_, 0, length)},
            .remote_addr = to_.iova,
            .rkey = rkey};
  }
  /// All records so far.
  std::vector<uroce_capture_record> Records() {
    std::vector<uroce_capture_record> records;
    tap_.Publish(Nanos(0));
    for (uint64_t at = 0; at < page_.produced.value; at += records.back().size) {
      records.emplace_back();
      memcpy(&records.back(), ring() + at, sizeof(uroce_capture_record));
    }
    return records;
  }
  std::vector<uroce_capture_note> NotesOf(uint8_t reason) {
    std::vector<uroce_capture_note> notes;
    for (const uroce_capture_record& record : Records()) {
      if (record.note.reason == reason) notes.push_back(record.note);
    }
    return notes;
  }
  /// Loses frame number `lost` (from 1) of those that device 0 sends.
  void LoseFromA(uint64_t lost) {
    bed_.ports[0].filter = [this, lost](rte_mbuf*) { return bed_.ports[0].sent != lost; };
  }
  /// Changes a byte of each frame from device 0.
  void ChangeFromA(size_t offset, uint8_t value) {
    bed_.ports[0].filter = [offset, value](rte_mbuf* frame) {
      *rte_pktmbuf_mtod_offset(frame, uint8_t*, offset) = value;
      return true;
    };
  }
  /// Posts a WRITE and gives the reason of the first frame that device 1 received.
  uroce_capture_note FirstReceived() {
    a_.PostSend(Transfer(kWrite, 64, to_.key));
    for (int i = 0; i < 8; ++i) bed_.Turn();
    for (const uroce_capture_record& record : Records()) {
      if (record.direction == UROCE_CAPTURE_INBOUND && record.interface_index == 1) {
        return record.note;
      }
    }
    ADD_FAILURE() << "nothing received";
    return {};
  }

  Testbed bed_;
  Endpoint& a_ = bed_.AddEndpoint(0);
  Endpoint& b_ = bed_.AddEndpoint(1);
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, MrMode::kMapped);
  uroce_capture_page page_{};
  std::vector<Line> memory_ = std::vector<Line>(kRing / sizeof(Line));
  CaptureTap tap_{&page_, memory_[0].bytes, kRing, {}};
};

TEST_F(WorkerCaptureTest, BothDirectionsOfBothDevicesAreSeenInCausalOrder) {
  a_.PostSend(Transfer(kWrite, 64, to_.key));
  bed_.Settle();
  std::vector<std::pair<uint16_t, uint16_t>> seen;
  for (const uroce_capture_record& record : Records()) {
    seen.emplace_back(record.interface_index, record.direction);
    EXPECT_GT(record.time_ns, 1'500'000'000ull * 1'000'000'000) << "time since 1970";
    EXPECT_EQ(record.note.reason, UROCE_REASON_NONE);
  }
  // The WRITE leaves 0 and reaches 1, its ACK leaves 1 and reaches 0.
  const std::vector<std::pair<uint16_t, uint16_t>> expected = {{0, UROCE_CAPTURE_OUTBOUND},
                                                               {1, UROCE_CAPTURE_INBOUND},
                                                               {1, UROCE_CAPTURE_OUTBOUND},
                                                               {0, UROCE_CAPTURE_INBOUND}};
  EXPECT_EQ(seen, expected);
}

TEST_F(WorkerCaptureTest, EachFrameOfTheCountersIsCapturedOnceAlsoWithLoss) {
  std::mt19937 random(1);
  for (TestPort& port : bed_.ports) port.filter = [&](rte_mbuf*) { return random() % 10 != 0; };
  for (int i = 0; i < 20; ++i) a_.PostSend(Transfer(i % 2 ? kWrite : kRead, 3000, to_.key));
  bed_.RunUntil([&] { return a_.qp->counters().retransmitted_pkts > 20; });
  std::map<std::pair<uint16_t, uint16_t>, uint64_t> seen;
  for (const uroce_capture_record& record : Records()) {
    ++seen[{record.interface_index, record.direction}];
  }
  for (uint16_t i = 0; i < 2; ++i) {
    const DeviceCounters& counters = bed_.devices[i]->counters(0);
    EXPECT_EQ((seen[{i, UROCE_CAPTURE_INBOUND}]), counters.port_rcv_packets.load());
    EXPECT_EQ((seen[{i, UROCE_CAPTURE_OUTBOUND}]), counters.port_xmit_packets.load());
  }
}

TEST_F(WorkerCaptureTest, AGapIsToldWithTheExpectedPsnAndItsNak) {
  LoseFromA(1);
  a_.PostSend(Transfer(kWrite, 3000, to_.key));
  bed_.Settle();
  const auto gaps = NotesOf(UROCE_REASON_OUT_OF_SEQUENCE);
  ASSERT_EQ(gaps.size(), 2u);
  EXPECT_EQ(gaps[0].psn, 1u);
  EXPECT_EQ(gaps[0].expected_psn, 0u);
  EXPECT_EQ(gaps[0].detail, 1) << "the first is answered by a NAK";
  EXPECT_EQ(gaps[1].psn, 2u);
  EXPECT_EQ(gaps[1].detail, 0) << "one NAK a gap";
  EXPECT_EQ(gaps[0].qpn, b_.qp->qpn().value());
  const auto naks = NotesOf(UROCE_REASON_NAK);
  ASSERT_EQ(naks.size(), 1u);
  EXPECT_EQ(naks[0].number, 0x60) << "sequence error";
  EXPECT_EQ(naks[0].psn, 0u);
  EXPECT_EQ(naks[0].qpn, b_.qp->qpn().value());
  const auto resent = NotesOf(UROCE_REASON_RETRANSMITTED);
  ASSERT_EQ(resent.size(), 3u);
  EXPECT_EQ(resent[0].detail, UROCE_RESEND_SEQUENCE_NAK);
  EXPECT_EQ(resent[0].number, 1);
  EXPECT_EQ(resent[0].limit, 3);
  EXPECT_EQ(resent[0].qpn, a_.qp->qpn().value());
}

TEST_F(WorkerCaptureTest, NotificationsTellForWhichPacketAndTheNewRate) {
  congestion::Settings settings = congestion::DefaultsOf(congestion::Profile::kDcqcn);
  settings.rp.rate_to_set_on_first_cnp = 4'200;
  for (const auto& device : bed_.devices) device->SetCongestion(settings, 40'000'000'000);
  // CE for the second packet of a WRITE, then for a READ response.
  const auto mark = [](rte_mbuf* frame) {
    uint8_t* const ip = rte_pktmbuf_mtod_offset(frame, uint8_t*, kEthernetBytes);
    ip[1] |= 3;
    ip[10] = ip[11] = 0;
    uint32_t sum = 0;
    for (size_t at = 0; at < kIpv4Bytes; at += 2) sum += uint32_t{ip[at]} << 8 | ip[at + 1];
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    ip[10] = static_cast<uint8_t>(~sum >> 8);
    ip[11] = static_cast<uint8_t>(~sum);
    return true;
  };
  bed_.ports[0].filter = [&](rte_mbuf* frame) { return bed_.ports[0].sent != 2 || mark(frame); };
  a_.PostSend(Transfer(kWrite, 3000, to_.key));
  for (int i = 0; i < 20; ++i) bed_.Turn();
  auto sent = NotesOf(UROCE_REASON_CNP_SENT);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].psn, 1u);
  EXPECT_EQ(sent[0].qpn, b_.qp->qpn().value());
  EXPECT_EQ(sent[0].rate_mbps, 0u) << "what it sends itself is not slowed down";
  const auto handled = NotesOf(UROCE_REASON_CNP_HANDLED);
  ASSERT_EQ(handled.size(), 1u);
  EXPECT_EQ(handled[0].qpn, a_.qp->qpn().value());
  EXPECT_NEAR(handled[0].rate_mbps, 2'100, 2'100);
  EXPECT_NE(handled[0].rate_mbps, 0u);
  bed_.Turn(Nanos(100'000'000));
  bed_.ports[1].filter = mark;
  a_.PostSend(Transfer(kRead, 64, to_.key));
  for (int i = 0; i < 20; ++i) bed_.Turn();
  sent = NotesOf(UROCE_REASON_CNP_SENT);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[1].qpn, a_.qp->qpn().value());
  EXPECT_NE(sent[1].rate_mbps, 0u) << "its READ requests are slowed down";
}

TEST_F(WorkerCaptureTest, TimeoutsAreNumberedAndTheReplyToTheirDuplicatesIsTold) {
  bed_.ports[1].filter = [](rte_mbuf*) { return false; };  // No answer comes back.
  a_.PostSend(Transfer(kWrite, 64, to_.key));
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a_.PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 12) << "RETRY_EXC_ERR";
  const auto resent = NotesOf(UROCE_REASON_RETRANSMITTED);
  ASSERT_EQ(resent.size(), 3u);
  for (uint8_t i = 0; i < 3; ++i) {
    EXPECT_EQ(resent[i].detail, UROCE_RESEND_ACK_TIMEOUT);
    EXPECT_EQ(resent[i].number, i + 1);
    EXPECT_EQ(resent[i].limit, 3);
  }
  const auto duplicates = NotesOf(UROCE_REASON_DUPLICATE);
  ASSERT_EQ(duplicates.size(), 3u);
  EXPECT_EQ(duplicates[0].detail, 1) << "acknowledged again";
  EXPECT_EQ(duplicates[0].expected_psn, 1u);
}

TEST_F(WorkerCaptureTest, AReadGivenAgainIsToldAtBothEnds) {
  bed_.ports[1].filter = [this](rte_mbuf*) { return bed_.ports[1].sent != 1; };
  a_.PostSend(Transfer(kRead, 2000, to_.key));
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a_.PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 0);
  EXPECT_FALSE(NotesOf(UROCE_REASON_ANSWERED_AGAIN).empty());
  const auto resent = NotesOf(UROCE_REASON_RETRANSMITTED);
  ASSERT_FALSE(resent.empty());
  EXPECT_EQ(resent[0].detail, UROCE_RESEND_IMPLIED_NAK) << "the second response came alone";
  const auto duplicates = NotesOf(UROCE_REASON_DUPLICATE);
  ASSERT_FALSE(duplicates.empty());
  EXPECT_EQ(duplicates[0].detail, 1);
}

TEST_F(WorkerCaptureTest, AReceiverThatIsNotReadyIsToldAndTheResendAfterIt) {
  a_.PostSend(Transfer(kSend, 64, 0));
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] { return a_.PollSend(cqe); }));
  EXPECT_EQ(cqe.status, 13) << "RNR_RETRY_EXC_ERR";
  const auto not_ready = NotesOf(UROCE_REASON_NOT_READY);
  ASSERT_EQ(not_ready.size(), 3u);
  EXPECT_EQ(not_ready[0].number, bed_.attributes.min_rnr_timer);
  const auto resent = NotesOf(UROCE_REASON_RETRANSMITTED);
  ASSERT_EQ(resent.size(), 2u);
  EXPECT_EQ(resent[1].detail, UROCE_RESEND_RNR_NAK);
  EXPECT_EQ(resent[1].number, 2);
  EXPECT_EQ(resent[1].limit, 2);
}

TEST_F(WorkerCaptureTest, AKeyThatDoesNotGrantIsTheReasonOfTheRefusal) {
  a_.PostSend(Transfer(kWrite, 64, 0xdead));
  bed_.Settle();
  const auto refused = NotesOf(UROCE_REASON_REFUSED);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].detail, UROCE_REFUSAL_REMOTE_KEY);
  EXPECT_EQ(refused[0].number, 0x62);
  EXPECT_EQ(refused[0].flags, UROCE_NOTE_FAILED);
  // The NAK that the requester receives ends it too.
  const uroce_capture_note last = Records().back().note;
  EXPECT_EQ(last.flags, UROCE_NOTE_FAILED);
  EXPECT_EQ(last.status, 10) << "REM_ACCESS_ERR";
  EXPECT_EQ(last.qpn, a_.qp->qpn().value());
}

TEST_F(WorkerCaptureTest, AReceiveThatIsTooShortIsTheReasonOfTheRefusal) {
  b_.PostReceive(9, {Testbed::Sge(to_, 0, 16)});
  a_.PostSend(Transfer(kSend, 64, 0));
  bed_.Settle();
  const auto refused = NotesOf(UROCE_REASON_REFUSED);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].detail, UROCE_REFUSAL_RECEIVE_LENGTH);
  EXPECT_EQ(refused[0].status, 1) << "LOC_LEN_ERR of the receive";
}

TEST_F(WorkerCaptureTest, AWrongIcrcIsTold) {
  ChangeFromA(kEthernetBytes + kIpv4Bytes + 8 + 12 + 16 + 3, 0x5a);  // In the payload.
  EXPECT_EQ(FirstReceived().reason, UROCE_REASON_BAD_ICRC);
}

TEST_F(WorkerCaptureTest, AnUnknownQueuePairIsTold) {
  ChangeFromA(kEthernetBytes + kIpv4Bytes + 8 + 5, 0x77);
  const uroce_capture_note note = FirstReceived();
  EXPECT_EQ(note.reason, UROCE_REASON_UNKNOWN_QPN);
  EXPECT_EQ(note.qpn >> 16, 0x77u);
}

TEST_F(WorkerCaptureTest, AnotherMacIsTold) {
  ChangeFromA(5, 0x99);
  EXPECT_EQ(FirstReceived().reason, UROCE_REASON_NOT_ROCE);
}

TEST_F(WorkerCaptureTest, AFrameThatDoesNotDecodeIsToldWithItsReason) {
  ChangeFromA(kEthernetBytes, 0x46);
  const uroce_capture_note note = FirstReceived();
  EXPECT_EQ(note.reason, UROCE_REASON_MALFORMED);
  EXPECT_EQ(note.detail, static_cast<uint8_t>(wire::DecodeResult::kIpOptions));
}

TEST_F(WorkerCaptureTest, AStateThatTakesNoPacketIsTold) {
  bed_.Modify(b_, transport::QpState::kErr);
  const uroce_capture_note note = FirstReceived();
  EXPECT_EQ(note.reason, UROCE_REASON_BAD_STATE);
  EXPECT_EQ(note.detail, 6) << "IBV_QPS_ERR";
}

TEST_F(WorkerCaptureTest, CongestionMarksAreRecordedOfFramesThatAreTaken) {
  bed_.ports[0].filter = [](rte_mbuf* frame) {
    uint8_t* const ip = rte_pktmbuf_mtod_offset(frame, uint8_t*, kEthernetBytes);
    ip[1] |= 3;
    uint32_t sum = 0;
    ip[10] = ip[11] = 0;
    for (size_t i = 0; i < kIpv4Bytes; i += 2) sum += static_cast<uint32_t>(ip[i] << 8 | ip[i + 1]);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16));
    ip[10] = static_cast<uint8_t>(sum >> 8);
    ip[11] = static_cast<uint8_t>(sum);
    return true;
  };
  const uroce_capture_note note = FirstReceived();
  EXPECT_EQ(note.flags, UROCE_NOTE_MARKED);
  EXPECT_EQ(note.reason, UROCE_REASON_NONE);
}

}  // namespace
}  // namespace uroce::datapath
