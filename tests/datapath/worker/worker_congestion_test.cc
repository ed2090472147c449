// SPDX-License-Identifier: Apache-2.0
// Marks, CNPs and rates of a worker's queue pairs (docs/protocol/congestion.md, section 8).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pipeline/congestion/flow.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/icrc.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

using congestion::Profile;

constexpr uint64_t kLine = 40'000'000'000;

uint8_t* Ip(rte_mbuf* frame) { return rte_pktmbuf_mtod(frame, uint8_t*) + 14; }
wire::Opcode OpcodeOf(rte_mbuf* frame) { return static_cast<wire::Opcode>(Ip(frame)[28]); }
bool IsCnp(rte_mbuf* frame) { return OpcodeOf(frame) == wire::Opcode::kCnp; }
bool IsData(rte_mbuf* frame) { return congestion::IsNotified(OpcodeOf(frame)); }

/// Sets CE, as a switch does.
void Mark(rte_mbuf* frame) {
  uint8_t* const ip = Ip(frame);
  ip[1] |= 3;
  ip[10] = ip[11] = 0;
  uint32_t sum = 0;
  for (int at = 0; at < 20; at += 2) sum += uint32_t{ip[at]} << 8 | ip[at + 1];
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  ip[10] = static_cast<uint8_t>(~sum >> 8);
  ip[11] = static_cast<uint8_t>(~sum);
}

class WorkerCongestionTest : public testing::Test {
 protected:
  static constexpr uint32_t kPath = 1024;
  static constexpr size_t kBytes = 1 << 20;

  explicit WorkerCongestionTest(Profile profile = Profile::kDcqcn) {
    for (const auto& device : bed_.devices) {
      device->SetCongestion(congestion::DefaultsOf(profile), kLine);
    }
    bed_.attributes.path_mtu_bytes = kPath;
    bed_.attributes.timeout = 0;
    bed_.Connect(a_, b_);
    Watch(0);
    Watch(1);
  }
  /// Notes what leaves a device: all frames, and those of which its rate is made.
  void Watch(int device) {
    bed_.ports[device].filter = [this, device](rte_mbuf* frame) {
      opcodes_[device].push_back(OpcodeOf(frame));
      if (IsCnp(frame)) {
        cnps_[device].emplace_back(Ip(frame), Ip(frame) + frame->data_len - 14);
      } else if (IsData(frame)) {
        data_bytes_[device] += frame->data_len + congestion::kFrameOverheadBytes;
        data_classes_[device] = Ip(frame)[1];
        if (marks_[device] != 0) {
          --marks_[device];
          Mark(frame);
        }
      }
      if (IsData(frame) && loses_data_ != 0 && --loses_data_ == 0) return false;
      return !loses_cnps_ || !IsCnp(frame);
    };
  }
  void Post(uint8_t opcode, uint64_t wr_id, uint32_t length) {
    a_.PostSend({.opcode = opcode,
                 .wr_id = wr_id,
                 .list = {Testbed::Sge(from_, 0, length)},
                 .remote_addr = to_.iova,
                 .rkey = to_.key});
    a_.RingBell();
  }
  void ExpectDone(uint32_t count) {
    uroce_cqe cqe;
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_TRUE(bed_.RunUntil([&] { return a_.PollSend(cqe); }));
      EXPECT_EQ(cqe.status, 0);
    }
  }
  uint64_t Counted(int device, std::atomic<uint64_t> DeviceCounters::*counter) const {
    return bed_.devices[device]->Sum(counter);
  }
  /// Has `to` receive a CNP that says it comes from `from`.
  void InjectCnp(int to, const Gid& from, Qpn qpn, bool breaks_icrc = false) {
    rte_mbuf* const frame = rte_pktmbuf_alloc(TestPool());
    const wire::HeaderTemplateConfig config{.destination_mac = bed_.devices[to]->mac,
                                            .source = from,
                                            .destination = Testbed::AddressOf(*bed_.devices[to]),
                                            .traffic_class = 0xc2,
                                            .dest_qpn = qpn};
    uint8_t* const start = rte_pktmbuf_mtod(frame, uint8_t*);
    const wire::EncodedHeaders headers = wire::EncodeHeaders(
        wire::HeaderTemplate(config), {.opcode = wire::Opcode::kCnp}, 16, 0, start);
    const std::array<uint8_t, 16> zeros{};
    const uint32_t crc =
        wire::CopyCrc32(headers.crc_state, start + headers.length_bytes, zeros.data(), 16);
    const size_t trailer = wire::WriteTrailer(start + headers.length_bytes + 16, 16, crc);
    frame->data_len = static_cast<uint16_t>(headers.length_bytes + 16 + trailer);
    frame->pkt_len = frame->data_len;
    if (breaks_icrc) start[frame->data_len - 1] ^= 1;
    bed_.ports[to].arrived.push_back(frame);
    bed_.Turn();
  }

  Testbed bed_;
  Endpoint& a_ = bed_.AddEndpoint(0);
  Endpoint& b_ = bed_.AddEndpoint(1);
  std::vector<uint8_t> source_ = Pattern(kBytes, 1);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(kBytes);
  MemoryRegion& from_ = bed_.Register(source_.data(), kBytes, kAllAccess, MrMode::kMapped);
  MemoryRegion& to_ = bed_.Register(target_.data(), kBytes, kAllAccess, MrMode::kMapped);
  std::array<std::vector<wire::Opcode>, 2> opcodes_;
  std::array<std::vector<std::vector<uint8_t>>, 2> cnps_;
  std::array<uint64_t, 2> data_bytes_{};
  std::array<uint8_t, 2> data_classes_{};
  std::array<uint32_t, 2> marks_{};
  bool loses_cnps_ = false;
  uint32_t loses_data_ = 0;  ///< The packet that is lost, counted from the next one; 0: none is.
};

// [cc.np.cnp] A marked request gets a CNP like vector V1 of docs/protocol/wire-format.md,
// section 7.3: before the acknowledgements of its burst, and one for all marks in 50 us.
TEST_F(WorkerCongestionTest, AMarkGetsOneCnp) {
  marks_[0] = 16;
  Post(kWrite, 1, 16 * kPath);
  ExpectDone(1);
  ASSERT_EQ(cnps_[1].size(), 1u);
  EXPECT_EQ(opcodes_[1].front(), wire::Opcode::kCnp) << "ahead of the ACK";
  const std::vector<uint8_t>& cnp = cnps_[1][0];
  ASSERT_EQ(cnp.size(), 60u);
  EXPECT_EQ(cnp[1], 0xc2) << "DSCP 48, ECT(0)";
  EXPECT_EQ(cnp[25], 40) << "UDP length";
  const uint32_t peer = a_.qp->qpn().value();
  const std::vector<uint8_t> bth = {0x81,
                                    0,
                                    0xff,
                                    0xff,
                                    0x40,
                                    static_cast<uint8_t>(peer >> 16),
                                    static_cast<uint8_t>(peer >> 8),
                                    static_cast<uint8_t>(peer),
                                    0,
                                    0,
                                    0,
                                    0};
  EXPECT_TRUE(std::equal(bth.begin(), bth.end(), cnp.begin() + 28));
  EXPECT_TRUE(std::all_of(cnp.begin() + 40, cnp.begin() + 56, [](uint8_t b) { return b == 0; }));
  EXPECT_EQ(Counted(1, &DeviceCounters::np_cnp_sent), 1u);
  EXPECT_EQ(Counted(1, &DeviceCounters::np_ecn_marked_roce_packets), 16u);
  EXPECT_EQ(Counted(0, &DeviceCounters::rp_cnp_handled), 1u);
  ASSERT_NE(a_.qp->flow().rate.point(), nullptr);
  EXPECT_GE(a_.qp->flow().rate.point()->rate_bps(), 20e9);
  EXPECT_EQ(b_.qp->flow().rate.point(), nullptr);
}

// [cc.ect] Data says ECT(0) with congestion control.
TEST_F(WorkerCongestionTest, DataIsEcnCapable) {
  Path path = a_.qp->path();
  path.traffic_class = 0x68;
  path.ecn_capable = true;
  bed_.worker->Modify(a_.qp.get(), transport::QpState::kRts, bed_.attributes, &path);
  Post(kWrite, 1, kPath);
  ExpectDone(1);
  EXPECT_EQ(data_classes_[0], 0x6a);
  path.traffic_class = 0x69;
  path.ecn_capable = false;
  bed_.worker->Modify(a_.qp.get(), transport::QpState::kRts, bed_.attributes, &path);
  Post(kWrite, 2, kPath);
  ExpectDone(1);
  EXPECT_EQ(data_classes_[0], 0x69) << "off: as the program gave it";
}

// [cc.np.interval] With marks on all packets: at most one CNP in 50 us.
TEST_F(WorkerCongestionTest, AtMostOneCnpInAnInterval) {
  marks_[0] = UINT32_MAX;
  const Nanos began = bed_.now;
  for (int i = 0; i < 32; ++i) Post(kWrite, i, 64 * kPath);
  ExpectDone(32);
  const auto most = static_cast<uint64_t>((bed_.now - began).count() / 50'000 + 1);
  EXPECT_GT(cnps_[1].size(), 4u);
  EXPECT_LE(cnps_[1].size(), most);
}

// [cc.np.off cc.rp.off] Without a profile: no CNP, and those that come are ignored.
TEST_F(WorkerCongestionTest, OffDoesNothing) {
  for (const auto& device : bed_.devices) device->SetCongestion({}, kLine);
  marks_[0] = 16;
  Post(kWrite, 1, 16 * kPath);
  ExpectDone(1);
  EXPECT_TRUE(cnps_[1].empty());
  EXPECT_EQ(Counted(1, &DeviceCounters::np_ecn_marked_roce_packets), 16u);
  InjectCnp(0, Testbed::AddressOf(*bed_.devices[1]), a_.qp->qpn());
  EXPECT_EQ(Counted(0, &DeviceCounters::rp_cnp_ignored), 1u);
  EXPECT_EQ(a_.qp->flow().rate.point(), nullptr);
}

// [cc.rp.peer] CNPs of other hosts, to an unknown queue pair, to a queue pair that does not
// receive, with a wrong ICRC, or of a priority that is not enabled, change nothing.
TEST_F(WorkerCongestionTest, CnpsThatAreNotBelieved) {
  const Gid peer = Testbed::AddressOf(*bed_.devices[1]);
  Gid other_host = peer;
  other_host.bytes[15] ^= 0x40;
  InjectCnp(0, other_host, a_.qp->qpn());
  InjectCnp(0, peer, Qpn(0x4711));
  EXPECT_EQ(Counted(0, &DeviceCounters::rp_cnp_ignored), 2u);
  InjectCnp(0, peer, a_.qp->qpn(), true);
  EXPECT_EQ(Counted(0, &DeviceCounters::rx_icrc_encapsulated), 1u);
  congestion::Settings settings = congestion::DefaultsOf(Profile::kDcqcn);
  settings.rp.rp_enable = 0xfe;
  bed_.devices[0]->SetCongestion(settings, kLine);
  InjectCnp(0, peer, a_.qp->qpn());
  EXPECT_EQ(Counted(0, &DeviceCounters::rp_cnp_ignored), 3u);
  bed_.Modify(a_, transport::QpState::kErr);
  bed_.devices[0]->SetCongestion(congestion::DefaultsOf(Profile::kDcqcn), kLine);
  InjectCnp(0, peer, a_.qp->qpn());
  EXPECT_EQ(Counted(0, &DeviceCounters::rp_cnp_ignored), 4u);
  EXPECT_EQ(Counted(0, &DeviceCounters::rp_cnp_handled), 0u);
  EXPECT_EQ(a_.qp->flow().rate.point(), nullptr);
}

// [cc.np.never] A CNP with a mark is not answered.
TEST_F(WorkerCongestionTest, ACnpIsNeverAnswered) {
  bed_.ports[1].filter = [&](rte_mbuf* frame) {
    if (IsCnp(frame)) Mark(frame);
    return true;
  };
  marks_[0] = 1;
  Post(kWrite, 1, 4 * kPath);
  ExpectDone(1);
  bed_.Settle();
  EXPECT_EQ(Counted(0, &DeviceCounters::rp_cnp_handled), 1u);
  EXPECT_TRUE(cnps_[0].empty());
}

// [cc.pace.rate] A paced queue pair sends its bytes of the wire at its rate, and a burst.
TEST_F(WorkerCongestionTest, RequestsKeepTheRate) {
  congestion::Settings settings = congestion::DefaultsOf(Profile::kDcqcn);
  settings.rp.rate_to_set_on_first_cnp = 2'000;
  settings.rp.rpg_time_reset = 1'000'000;
  settings.rp.rpg_byte_reset = 1u << 30;
  for (const auto& device : bed_.devices) device->SetCongestion(settings, kLine);
  InjectCnp(0, Testbed::AddressOf(*bed_.devices[1]), a_.qp->qpn());
  const Nanos began = bed_.now;
  data_bytes_[0] = 0;
  Post(kWrite, 1, kBytes);
  Post(kWrite, 2, kBytes);
  ExpectDone(2);
  const double bits = static_cast<double>(data_bytes_[0]) * 8;
  const auto nanos = static_cast<double>((bed_.now - began).count());
  EXPECT_LE(bits, nanos + 8.0 * congestion::kMaxBurstBytes + 16'000);
  EXPECT_GE(bits, nanos * 0.95);
}

// [cc.pace.again] What is sent again counts as what is sent for the first time.
TEST_F(WorkerCongestionTest, RetransmissionsKeepTheRate) {
  congestion::Settings settings = congestion::DefaultsOf(Profile::kDcqcn);
  settings.rp.rate_to_set_on_first_cnp = 2'000;
  settings.rp.rpg_time_reset = 1'000'000;
  settings.rp.rpg_byte_reset = 1u << 30;
  settings.rp.rate_reduce_monitor_period = 1'000'000;  // Losses are CNPs, and change nothing here.
  for (const auto& device : bed_.devices) device->SetCongestion(settings, kLine);
  bed_.ports[0].filter = [&, count = 0](rte_mbuf* frame) mutable {
    data_bytes_[0] += frame->data_len + congestion::kFrameOverheadBytes;
    return ++count % 100 != 50;
  };
  InjectCnp(0, Testbed::AddressOf(*bed_.devices[1]), a_.qp->qpn());
  const Nanos began = bed_.now;
  Post(kWrite, 1, kBytes);
  Post(kWrite, 2, kBytes);
  ExpectDone(2);
  EXPECT_GT(a_.qp->counters().retransmitted_pkts, 50u);
  const double bits = static_cast<double>(data_bytes_[0]) * 8;
  EXPECT_LE(bits, static_cast<double>((bed_.now - began).count()) +
                      8.0 * congestion::kMaxBurstBytes + 16'000);
}

// [cc.np.free] A CNP waits for no rate: its queue pair may be slowed down itself.
TEST_F(WorkerCongestionTest, CnpsAreNotPaced) {
  congestion::Settings settings = congestion::DefaultsOf(Profile::kDcqcn);
  settings.rp.rate_to_set_on_first_cnp = 2;
  bed_.devices[1]->SetCongestion(settings, kLine);
  InjectCnp(1, Testbed::AddressOf(*bed_.devices[0]), b_.qp->qpn());
  b_.PostSend({.opcode = kWrite,
               .list = {Testbed::Sge(from_, 0, 256 * kPath)},
               .remote_addr = to_.iova,
               .rkey = to_.key});
  b_.RingBell();
  for (int i = 0; i < 10; ++i) bed_.Turn();
  ASSERT_FALSE(b_.qp->flow().rate.MaySend(bed_.now));
  marks_[0] = 1;
  Post(kWrite, 1, kPath);
  for (int i = 0; i < 4; ++i) bed_.Turn();
  EXPECT_EQ(cnps_[1].size(), 1u);
  uroce_cqe cqe;
  EXPECT_TRUE(a_.PollSend(cqe)) << "nor does an ACK";
}

// [cc.pace.read] READ responses are paced by their responder, and so are the requests of one whose
// responder takes no CNPs: with marks on all responses, which no other host reacts to.
TEST_F(WorkerCongestionTest, ReadsArePaced) {
  for (const bool responder_reacts : {true, false}) {
    congestion::Settings settings = congestion::DefaultsOf(Profile::kDcqcn);
    settings.rp.rate_to_set_on_first_cnp = 1'000;
    settings.rp.rpg_time_reset = 1'000'000;
    settings.rp.rpg_byte_reset = 1u << 30;
    for (const auto& device : bed_.devices) device->SetCongestion(settings, kLine);
    if (!responder_reacts) bed_.devices[1]->SetCongestion({}, kLine);
    marks_[1] = 1;
    Post(kRead, 1, kPath);
    ExpectDone(1);
    for (int i = 0; i < 3; ++i) bed_.Turn();
    ASSERT_NE(a_.qp->flow().rate.point(), nullptr);
    EXPECT_EQ(b_.qp->flow().rate.point() != nullptr, responder_reacts);
    const Nanos began = bed_.now;
    for (int i = 0; i < 16; ++i) Post(kRead, i, 64 * kPath);
    ExpectDone(16);
    const auto nanos = static_cast<double>((bed_.now - began).count());
    EXPECT_GE(nanos * 0.5, 15 * 64 * kPath * 8 - 8.0 * congestion::kMaxBurstBytes * 2)
        << "500 Mb/s";
    bed_.Modify(a_, transport::QpState::kReset);
    bed_.Modify(b_, transport::QpState::kReset);
    EXPECT_EQ(a_.qp->flow().rate.point(), nullptr) << "reset";
    bed_.Connect(a_, b_);
  }
}

// [cc.rp.state] After the last CNP the state goes, though the queue pair sends nothing.
TEST_F(WorkerCongestionTest, TheStateGoes) {
  InjectCnp(0, Testbed::AddressOf(*bed_.devices[1]), a_.qp->qpn());
  ASSERT_NE(a_.qp->flow().rate.point(), nullptr);
  bed_.Turn(Nanos(5'000'000));
  EXPECT_EQ(a_.qp->flow().rate.point(), nullptr);
}

// [cc.loss] A timeout counts as a CNP for a rate.
TEST_F(WorkerCongestionTest, ATimeoutSlowsDown) {
  bed_.attributes.timeout = 8;
  bed_.attributes.retry_count = 7;
  bed_.Modify(a_, transport::QpState::kReset);
  bed_.Modify(b_, transport::QpState::kReset);
  bed_.Connect(a_, b_);
  bool lost = false;
  bed_.ports[0].filter = [&](rte_mbuf*) { return std::exchange(lost, true); };
  Post(kWrite, 1, kPath);
  bool slowed = false;
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] {
    slowed |= a_.qp->flow().rate.point() != nullptr;
    return a_.PollSend(cqe);
  }));
  EXPECT_TRUE(slowed);
  EXPECT_EQ(Counted(0, &DeviceCounters::rp_cnp_handled), 0u);
  EXPECT_EQ(Counted(0, &DeviceCounters::roce_slow_restart), 1u);
  EXPECT_EQ(Counted(0, &DeviceCounters::roce_slow_restart_cnps), 1u);
  EXPECT_EQ(Counted(0, &DeviceCounters::roce_slow_restart_trans), 1u);
}

// [cc.priority] Each priority has its own profile: that of the path decides what marks, CNPs and
// losses do, and that of the marked packet whether it is answered.
TEST_F(WorkerCongestionTest, APriorityHasItsProfile) {
  Device::SettingsOfPriorities settings;
  settings.fill(congestion::DefaultsOf(Profile::kDcqcn));
  settings[3] = congestion::DefaultsOf(Profile::kOff);
  settings[5].np.np_enable = settings[5].rp.rp_enable = 0xdf;
  for (const auto& device : bed_.devices) device->SetCongestionOfPriorities(settings, kLine);
  const Gid peer = Testbed::AddressOf(*bed_.devices[1]);
  uint64_t ignored = 0;
  for (const int priority : {3, 5, 4}) {
    Path path = a_.qp->path();
    path.traffic_class = static_cast<uint8_t>(priority << 5);
    bed_.worker->Modify(a_.qp.get(), transport::QpState::kRts, bed_.attributes, &path);
    const bool is_on = priority == 4;
    cnps_[1].clear();
    marks_[0] = 1;
    Post(kWrite, static_cast<uint64_t>(priority), kPath);
    ExpectDone(1);
    EXPECT_EQ(cnps_[1].size(), is_on ? 1u : 0u) << priority;
    if (!is_on) InjectCnp(0, peer, a_.qp->qpn());
    bed_.Turn();
    EXPECT_EQ(a_.qp->flow().rate.point() != nullptr, is_on) << priority;
    ignored += is_on ? 0 : 1;
    EXPECT_EQ(Counted(0, &DeviceCounters::rp_cnp_ignored), ignored);
  }
}

// [cc.priority] By delay on one priority alone: the window of a path of another has losses alone.
TEST_F(WorkerCongestionTest, APriorityHasItsWindow) {
  Device::SettingsOfPriorities settings;
  settings.fill(congestion::DefaultsOf(Profile::kDcqcn));
  settings[3] = congestion::DefaultsOf(Profile::kDelay);
  settings[5] = congestion::DefaultsOf(Profile::kDelay);
  settings[5].rp.rp_enable = 0xff & ~(1 << 5);
  for (const auto& device : bed_.devices) device->SetCongestionOfPriorities(settings, kLine);
  for (const int priority : {3, 4, 5}) {
    const auto traffic_class = static_cast<uint8_t>(priority << 5);
    bed_.attributes.congestion = &bed_.devices[0]->CongestionOf(0, traffic_class);
    bed_.Modify(a_, transport::QpState::kReset);
    bed_.Modify(b_, transport::QpState::kReset);
    bed_.Connect(a_, b_);
    EXPECT_EQ(a_.qp->core().reliable().window().delay() != nullptr, priority == 3);
  }
}

// A requester whose window is by delay counts a loss, which is no CNP then.
TEST_F(WorkerCongestionTest, ALossOfADelayWindowIsCounted) {
  for (const auto& device : bed_.devices) {
    device->SetCongestion(congestion::DefaultsOf(Profile::kDelay), kLine);
  }
  bed_.attributes.timeout = 8;
  bed_.Modify(a_, transport::QpState::kReset);
  bed_.Modify(b_, transport::QpState::kReset);
  bed_.Connect(a_, b_);
  bool lost = false;
  bed_.ports[0].filter = [&](rte_mbuf*) { return std::exchange(lost, true); };
  Post(kWrite, 1, kPath);
  ExpectDone(1);
  EXPECT_EQ(Counted(0, &DeviceCounters::roce_slow_restart), 1u);
  EXPECT_EQ(Counted(0, &DeviceCounters::roce_slow_restart_cnps), 0u);
  EXPECT_EQ(Counted(0, &DeviceCounters::roce_slow_restart_trans), 0u);
}

class WorkerDelayTest : public WorkerCongestionTest {
 protected:
  WorkerDelayTest() : WorkerCongestionTest(Profile::kDelay) {}
};

// [cc.delay.start] By delay: the window grows on an idle wire, and a mark slows the flow too.
TEST_F(WorkerDelayTest, AnIdleWireIsUsed) {
  for (int i = 0; i < 16; ++i) Post(kWrite, i, 64 * kPath);
  ExpectDone(16);
  EXPECT_GE(a_.qp->core().reliable().window().packets(), 64u);
  EXPECT_EQ(a_.qp->flow().rate.point(), nullptr);
  marks_[0] = 1;
  Post(kWrite, 17, 4 * kPath);
  ExpectDone(1);
  EXPECT_NE(a_.qp->flow().rate.point(), nullptr);
}

// [cc.delay.host] A thread that waited for a CPU tells its peers, and leaves its wait out.
TEST_F(WorkerDelayTest, AWaitForACpuIsTold) {
  const auto& environment = bed_.devices[0]->congestion(0)[0];
  const auto turn = [&](int64_t waited) {
    bed_.now = bed_.now + Nanos(waited + 1'000);
    bed_.worker->RunOnce(bed_.now, Nanos(waited));
  };
  turn(50'000);
  EXPECT_EQ(environment.host_delay, Nanos(0)) << "as long as a turn may take";
  turn(60'000);
  EXPECT_EQ(environment.host_delay, Nanos(60'000));
  EXPECT_EQ(environment.stalled, Nanos(60'000));
  turn(60'000);
  EXPECT_EQ(environment.stalled, Nanos(120'000));
  turn(0);
  EXPECT_EQ(environment.host_delay, Nanos(0));
  EXPECT_EQ(environment.stalled, Nanos(120'000));
}

// [cc.delay.host] An emulated network that has waited with the thread: no packet has waited longer
// than the network says, and round trips are those of its time.
TEST_F(WorkerDelayTest, ANetworkThatLags) {
  const auto& environment = bed_.devices[0]->congestion(0)[0];
  const auto turn = [&](int64_t waited, int64_t lag) {
    bed_.ports[0].lag = Nanos(lag);
    bed_.now = bed_.now + Nanos(waited + 1'000);
    bed_.worker->RunOnce(bed_.now, Nanos(waited));
    EXPECT_EQ(environment.lag, Nanos(lag));
  };
  turn(60'000, 60'000);
  EXPECT_EQ(environment.host_delay, Nanos(0));
  EXPECT_EQ(environment.stalled, Nanos(0));
  turn(70'000, 100'000);
  EXPECT_EQ(environment.host_delay, Nanos(30'000)) << "the network waited for a part of it";
  EXPECT_EQ(environment.stalled, Nanos(30'000));
  // The network catches up while a packet is under way: its round trip is longer than it seems.
  const auto* const delay = a_.qp->core().reliable().window().delay();
  Post(kWrite, 0, kPath);
  turn(0, 60'000);
  bed_.ports[0].lag = Nanos(10'000);
  ExpectDone(1);
  EXPECT_GE(delay->delay(), Nanos(50'000));
  EXPECT_LT(delay->delay(), Nanos(100'000));
}

// [cc.delay.small] Less than one packet in flight: a gap between them.
TEST_F(WorkerDelayTest, AGapBetweenPackets) {
  bed_.attributes.selective_repeat = true;  // The peer tells its waits.
  bed_.Modify(a_, transport::QpState::kReset);
  bed_.Modify(b_, transport::QpState::kReset);
  bed_.Connect(a_, b_);
  Post(kWrite, 0, 4 * kPath);
  ExpectDone(1);
  // Acknowledgements take 2 ms from now on.
  std::vector<std::pair<Nanos, rte_mbuf*>> late;
  bed_.ports[1].filter = [&](rte_mbuf* frame) {
    rte_mbuf* const copy = rte_pktmbuf_copy(frame, TestPool(), 0, UINT32_MAX);
    late.emplace_back(bed_.now + Nanos(2'000'000), copy);
    return false;
  };
  const auto deliver = [&] {
    std::erase_if(late, [&](const auto& entry) {
      if (entry.first > bed_.now) return false;
      bed_.ports[0].arrived.push_back(entry.second);
      return true;
    });
  };
  bed_.ports[0].filter = [lost = 0](rte_mbuf* frame) mutable {
    return !IsData(frame) || ++lost > 8;  // More than single losses.
  };
  for (int i = 0; i < 40; ++i) {
    Post(kWrite, i, i == 0 ? 16 * kPath : kPath);
    uroce_cqe cqe;
    ASSERT_TRUE(bed_.RunUntil([&] {
      deliver();
      return a_.PollSend(cqe);
    }));
  }
  const auto& delay = *a_.qp->core().reliable().window().delay();
  ASSERT_LT(delay.milli_packets(), 1000u) << "there was a loss";
  const Nanos gap = delay.gap();
  EXPECT_GT(gap, Nanos(2'000'000));
  const Nanos began = bed_.now;
  Post(kWrite, 50, kPath);
  uroce_cqe cqe;
  ASSERT_TRUE(bed_.RunUntil([&] {
    deliver();
    return a_.PollSend(cqe);
  }));
  EXPECT_GE(bed_.now - began, gap);
}

}  // namespace
}  // namespace uroce::datapath
