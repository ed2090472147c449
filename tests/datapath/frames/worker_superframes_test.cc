// SPDX-License-Identifier: Apache-2.0
// Packets of a queue pair that a worker writes behind each other, and superframes that a worker
// takes apart: the same bytes, order and counts as with a frame for each packet.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "pipeline/datapath/capture/packet_records.h"
#include "pipeline/port/superframes.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/icrc.h"
#include "tests/datapath/testbed.h"
#include "tests/datapath/work_codes.h"

namespace uroce::datapath {
namespace {

constexpr uint32_t kPacketBytes = 1024;

/// What a port has been given: the packets of frames and of superframes.
struct Seen {
  uint32_t frames = 0;
  uint32_t superframes = 0;
  uint32_t longest = 0;                            ///< Packets of a superframe.
  std::map<uint32_t, std::vector<uint32_t>> psns;  ///< By the queue pair that they are sent to.
  bool has_wrong_icrc = false;

  void Look(const rte_mbuf* frame) {
    const uint32_t packets = drivers::PacketsOf(*frame);
    ++(packets > 1 ? superframes : frames);
    longest = std::max(longest, packets);
    std::vector<uint8_t> bytes(rte_pktmbuf_mtod(frame, const uint8_t*),
                               rte_pktmbuf_mtod(frame, const uint8_t*) + frame->data_len);
    const auto cutter = wire::SuperframeCutter::Make(
        bytes, packets > 1 ? drivers::SuperframeMark::SegmentBytesOf(*frame) : UINT16_MAX);
    for (uint32_t i = 0; i < packets; ++i) {
      std::vector<uint8_t> packet_bytes = bytes;
      if (packets > 1) {
        packet_bytes.resize(cutter->FrameBytes(i));
        cutter->Write(i, wire::Identifications::kRising, packet_bytes.data());
      }
      wire::Packet packet;
      wire::FrameView view;
      const bool is_right = wire::Decode(packet_bytes, packet, view) == wire::DecodeResult::kOk &&
                            wire::IcrcIsRight(packet_bytes, view);
      has_wrong_icrc |= !is_right;
      psns[packet.header.dest_qpn.value()].push_back(packet.header.psn.value());
    }
  }
  /// Whether the PSNs of each queue pair rise by one.
  bool IsInOrder() const {
    return std::ranges::all_of(psns, [](const auto& each) {
      const std::vector<uint32_t>& all = each.second;
      for (size_t i = 1; i < all.size(); ++i) {
        if (all[i] != ((all[i - 1] + 1) & 0xffffff)) return false;
      }
      return true;
    });
  }
};

class WorkerSuperframesTest : public testing::Test {
 protected:
  explicit WorkerSuperframesTest(uint32_t turn_bytes = 131'070, uint64_t rate_bps = 0)
      : bed_(Joined(turn_bytes), 1, kNever, rate_bps) {
    bed_.attributes.path_mtu_bytes = kPacketBytes;
    std::tie(a_, b_) = bed_.AddPair();
    Watch([](const rte_mbuf*) { return true; });
  }
  ~WorkerSuperframesTest() override { bed_.RemoveEndpoints(); }

  /// `passes` decides which frames are lost.
  void Watch(std::function<bool(const rte_mbuf*)> passes) {
    ports_[0].filter = [this, passes = std::move(passes)](rte_mbuf* frame) {
      seen_.Look(frame);
      return passes(frame);
    };
  }
  MemoryRegion& Source(MrMode mode = MrMode::kMapped) {
    return bed_.Register(source_.data(), source_.size(), kAllAccess, mode);
  }
  MemoryRegion& Target(MrMode mode = MrMode::kMapped) {
    return bed_.Register(target_.data(), target_.size(), kAllAccess, mode);
  }
  void Write(Endpoint& from, const MemoryRegion& source, const MemoryRegion& target, uint32_t at,
             uint32_t bytes) {
    from.PostSend({.opcode = kWrite,
                   .list = {Testbed::Sge(source, at, bytes)},
                   .remote_addr = target.iova + at,
                   .rkey = target.key});
  }
  static bool IsCompleted(Endpoint& endpoint, uint32_t works) {
    for (uint32_t i = 0; i < works; ++i) {
      uroce_cqe cqe{};
      if (!endpoint.PollSend(cqe) || cqe.status != IBV_WC_SUCCESS) return false;
    }
    return true;
  }
  uint64_t Sum(int device, std::atomic<uint64_t> DeviceCounters::*counter) const {
    return bed_.devices[static_cast<size_t>(device)]->Sum(counter);
  }

  /// Ports like those of kernel interfaces. Workers ask for limits when they get a port.
  std::array<drivers::Port*, 2> Joined(uint32_t turn_bytes) {
    TestPool();
    for (size_t i = 0; i < 2; ++i) {
      ports_[i].superframes = true;
      ports_[i].limit = {.frames = 64, .bytes = turn_bytes};
      ports_[i].room = 64;
      ports_[i].peer = &ports_[1 - i];
    }
    return {&ports_[0], &ports_[1]};
  }

  std::array<TestPort, 2> ports_;
  Testbed bed_;
  Seen seen_;
  Endpoint* a_ = nullptr;
  Endpoint* b_ = nullptr;
  std::vector<uint8_t> source_ = Pattern(512 * 1024, 3);
  std::vector<uint8_t> target_ = std::vector<uint8_t>(512 * 1024);
};

// A FIRST packet is longer by its RETH: the one behind it ends its superframe. It leaves alone
// where the packets behind it need no more superframes without it.
TEST_F(WorkerSuperframesTest, TheFirstPacketOfAWriteIsAloneWhereThatCostsNoSuperframe) {
  struct Case {
    uint32_t packets;
    uint32_t alone;  ///< Packets that are in no superframe.
    uint32_t superframes;
  };
  const MemoryRegion& source = Source();
  const MemoryRegion& target = Target();
  for (const Case each :
       {Case{2, 0, 1}, {3, 1, 1}, {63, 1, 1}, {64, 0, 2}, {65, 1, 2}, {126, 0, 3}, {127, 1, 3}}) {
    seen_ = {};
    Write(*a_, source, target, 0, each.packets * kPacketBytes);
    bed_.Settle();
    EXPECT_TRUE(IsCompleted(*a_, 1));
    EXPECT_EQ(seen_.frames, each.alone) << each.packets << " packets";
    EXPECT_EQ(seen_.superframes, each.superframes) << each.packets << " packets";
    EXPECT_FALSE(seen_.has_wrong_icrc);
    EXPECT_TRUE(seen_.IsInOrder());
  }
}

TEST_F(WorkerSuperframesTest, AWriteLeavesInTwoSuperframes) {
  Write(*a_, Source(), Target(), 0, 64 * kPacketBytes);
  bed_.Settle();
  EXPECT_TRUE(IsCompleted(*a_, 1));
  EXPECT_TRUE(std::equal(source_.begin(), source_.begin() + 64 * kPacketBytes, target_.begin()));
  EXPECT_EQ(seen_.superframes, 2u);
  EXPECT_EQ(seen_.longest, 62u);
  EXPECT_FALSE(seen_.has_wrong_icrc);
  EXPECT_TRUE(seen_.IsInOrder());
}

TEST_F(WorkerSuperframesTest, CountersCountPacketsAndTheBytesOfTheirFrames) {
  Write(*a_, Source(), Target(), 0, 64 * kPacketBytes);
  bed_.Settle();
  EXPECT_EQ(Sum(0, &DeviceCounters::port_xmit_packets), 64u);
  EXPECT_EQ(Sum(1, &DeviceCounters::port_rcv_packets), 64u);
  const uint64_t bytes = 64 * (14 + 20 + 8 + 12 + kPacketBytes + 4) + 16;
  EXPECT_EQ(Sum(0, &DeviceCounters::port_xmit_bytes), bytes);
  EXPECT_EQ(Sum(1, &DeviceCounters::port_rcv_bytes), bytes);
  EXPECT_EQ(a_->qp->traffic().sent_packets, 64u);
}

// SENDs have packets of one size, so that those of several messages join.
TEST_F(WorkerSuperframesTest, MessagesOfAQueuePairJoin) {
  const MemoryRegion& source = Source();
  const MemoryRegion& target = Target();
  for (uint32_t i = 0; i < 4; ++i) {
    b_->PostReceive(i, {Testbed::Sge(target, i * 8 * kPacketBytes, 8 * kPacketBytes)});
  }
  for (uint32_t i = 0; i < 4; ++i) {
    a_->PostSend(
        {.opcode = kSend, .list = {Testbed::Sge(source, i * 8 * kPacketBytes, 8 * kPacketBytes)}});
  }
  bed_.Settle();
  EXPECT_TRUE(IsCompleted(*a_, 4));
  EXPECT_TRUE(std::equal(source_.begin(), source_.begin() + 32 * kPacketBytes, target_.begin()));
  EXPECT_EQ(seen_.superframes, 1u);
  EXPECT_EQ(seen_.longest, 32u);
}

TEST_F(WorkerSuperframesTest, ReadResponsesLeaveInSuperframesToo) {
  for (TestPort& port : ports_) port.filter = nullptr;
  ports_[1].filter = [this](rte_mbuf* frame) {
    seen_.Look(frame);
    return true;
  };
  const MemoryRegion& local = Target();
  const MemoryRegion& remote = Source();
  for (uint32_t at = 0; at < 256 * kPacketBytes; at += 64 * kPacketBytes) {
    a_->PostSend({.opcode = kRead,
                  .list = {Testbed::Sge(local, at, 64 * kPacketBytes)},
                  .remote_addr = remote.iova + at,
                  .rkey = remote.key});
  }
  bed_.Settle();
  EXPECT_TRUE(IsCompleted(*a_, 4));
  EXPECT_TRUE(std::equal(source_.begin(), source_.begin() + 256 * kPacketBytes, target_.begin()));
  // FIRST and LAST are longer by their AETHs: LAST, FIRST and MIDDLE, then 61 MIDDLE packets.
  EXPECT_EQ(seen_.longest, 61u);
  EXPECT_LE(seen_.superframes + seen_.frames, 9u);
  EXPECT_FALSE(seen_.has_wrong_icrc);
  EXPECT_TRUE(seen_.IsInOrder());
}

// An inline SEND needs its own frame: the packets before it leave before.
TEST_F(WorkerSuperframesTest, AFrameBetweenSuperframesKeepsItsPlace) {
  const MemoryRegion& source = Source();
  const MemoryRegion& target = Target();
  for (uint32_t i = 0; i < 16; ++i) {
    b_->PostReceive(i, {Testbed::Sge(target, i * 2 * kPacketBytes, 2 * kPacketBytes)});
  }
  for (uint32_t i = 0; i < 16; i += 2) {
    a_->PostSend(
        {.opcode = kSend, .list = {Testbed::Sge(source, i * 2 * kPacketBytes, 2 * kPacketBytes)}});
    a_->PostSend({.opcode = kSend, .inline_data = "inline"});
  }
  bed_.Settle();
  EXPECT_TRUE(IsCompleted(*a_, 16));
  for (uint32_t i = 0; i < 16; i += 2) {
    const auto at = static_cast<ptrdiff_t>(i) * 2 * kPacketBytes;
    EXPECT_TRUE(std::equal(source_.begin() + at, source_.begin() + at + 2 * kPacketBytes,
                           target_.begin() + at))
        << i;
  }
  EXPECT_TRUE(seen_.IsInOrder());
  EXPECT_EQ(seen_.superframes, 8u);
  EXPECT_EQ(seen_.frames, 8u);
}

// Queue pairs take turns within a turn of the worker; each fills its own superframe.
TEST_F(WorkerSuperframesTest, EachQueuePairFillsItsOwnSuperframe) {
  const MemoryRegion& source = Source();
  const MemoryRegion& target = Target();
  std::vector<Endpoint*> senders = {a_};
  for (int i = 0; i < 11; ++i) senders.push_back(bed_.AddPair().first);
  uint16_t source_port = 0xc000;
  bed_.worker->RewritePaths([&](const QueuePair&, Path& path) {
    path.udp_source_port = ++source_port;
    return true;
  });
  uint32_t at = 0;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < senders.size(); ++i) {
      // A short packet would fit behind those of the queue pair before it.
      const uint32_t bytes = i % 2 == 0 ? 10 * kPacketBytes : 900;
      Write(*senders[i], source, target, at, bytes);
      at += bytes;
    }
  }
  bed_.Settle();
  for (Endpoint* sender : senders) EXPECT_TRUE(IsCompleted(*sender, 3));
  EXPECT_TRUE(std::equal(source_.begin(), source_.begin() + at, target_.begin()));
  EXPECT_TRUE(seen_.IsInOrder());
  EXPECT_FALSE(seen_.has_wrong_icrc);
  EXPECT_EQ(seen_.psns.size(), senders.size());
}

// A message takes a little more than the quantum of its queue pair, on the wire.
TEST_F(WorkerSuperframesTest, TurnsOfQueuePairsCutNoSuperframeInTwo) {
  const MemoryRegion& source = Source();
  const MemoryRegion& target = Target();
  std::vector<Endpoint*> senders = {a_};
  for (int i = 0; i < 3; ++i) senders.push_back(bed_.AddPair().first);
  uint32_t at = 0;
  for (int round = 0; round < 2; ++round) {
    for (Endpoint* sender : senders) {
      Write(*sender, source, target, at, 64 * kPacketBytes);
      at += 64 * kPacketBytes;
    }
  }
  bed_.Settle();
  for (Endpoint* sender : senders) EXPECT_TRUE(IsCompleted(*sender, 2));
  EXPECT_EQ(source_, target_);
  EXPECT_EQ(seen_.superframes, 2 * 8u) << "as where each is sent alone";
  EXPECT_EQ(seen_.frames, 0u);
  EXPECT_TRUE(seen_.IsInOrder());
}

// The limit of a turn cuts no superframe in two: the last one waits for the next turn.
TEST_F(WorkerSuperframesTest, ASuperframeGoesOnInTheNextTurn) {
  Write(*a_, Source(), Target(), 0, 512 * kPacketBytes);
  bed_.Settle();
  EXPECT_TRUE(IsCompleted(*a_, 1));
  EXPECT_EQ(source_, target_);
  // Two packets, then 62 to each.
  EXPECT_LE(seen_.superframes + seen_.frames, 1u + 510 / 62 + 2);
  EXPECT_TRUE(seen_.IsInOrder());
}

// What a queue pair has in an open superframe leaves, whatever becomes of the queue pair.
TEST_F(WorkerSuperframesTest, AQueuePairMayEndWhileItsSuperframeWaits) {
  for (int turns = 1; turns < 6; ++turns) {
    auto [one, other] = bed_.AddPair();
    Write(*one, Source(), Target(), 0, 400 * kPacketBytes);
    for (int i = 0; i < turns; ++i) bed_.Turn();
    bed_.Modify(*one, transport::QpState::kReset);
    bed_.Connect(*one, *other);
    Write(*one, Source(), Target(), 0, 64 * kPacketBytes);
    bed_.Settle();
  }
  bed_.RemoveEndpoints();
  EXPECT_FALSE(seen_.has_wrong_icrc);
}

// Packets of the new path are not joined to those of the old one.
TEST_F(WorkerSuperframesTest, APathMayChangeWhileASuperframeWaits) {
  constexpr uint8_t kNewDscp = 10 << 2;
  std::vector<uint8_t> classes;
  ports_[0].filter = [&](const rte_mbuf* frame) {
    seen_.Look(frame);
    for (uint32_t i = drivers::PacketsOf(*frame); i != 0; --i) {
      classes.push_back(rte_pktmbuf_mtod(frame, const uint8_t*)[15]);
    }
    return true;
  };
  Write(*a_, Source(), Target(), 0, 512 * kPacketBytes);
  size_t before = 0;
  for (int i = 0; i < 3; ++i) bed_.Turn();
  before = classes.size();
  bed_.worker->RewritePaths([&](const QueuePair& qp, Path& path) {
    if (&qp != a_->qp.get()) return false;
    path.traffic_class = kNewDscp;
    return true;
  });
  const uint32_t sent = static_cast<uint32_t>(a_->qp->traffic().sent_packets);
  bed_.Settle();
  EXPECT_TRUE(IsCompleted(*a_, 1));
  EXPECT_EQ(source_, target_);
  EXPECT_LT(before, sent) << "A superframe waited.";
  EXPECT_EQ(std::ranges::count(classes, kNewDscp), 512 - static_cast<ptrdiff_t>(sent));
}

// Lost superframes are sent again, those behind them are kept: each packet of one is a frame then.
TEST_F(WorkerSuperframesTest, WhatIsLostAndWhatIsKeptArrivesOnce) {
  int number = 0;
  Watch([&](const rte_mbuf*) { return ++number % 3 != 2; });
  const MemoryRegion& source = Source();
  const MemoryRegion& target = Target();
  for (uint32_t i = 0; i < 8; ++i) Write(*a_, source, target, i * 65'536, 65'536);
  uint32_t completed = 0;
  const bool done = bed_.RunUntil([&] {
    uroce_cqe cqe{};
    while (a_->PollSend(cqe)) {
      EXPECT_EQ(cqe.status, IBV_WC_SUCCESS);
      ++completed;
    }
    return completed == 8;
  });
  EXPECT_TRUE(done);
  EXPECT_EQ(source_, target_);
  EXPECT_FALSE(seen_.has_wrong_icrc);
}

// Copies of copied memory end later: each of their packets has its own frame.
TEST_F(WorkerSuperframesTest, CopiedMemoryAtEitherEnd) {
  bed_.StartCopyHelper();
  for (const auto& [from, to] :
       {std::pair{MrMode::kCopied, MrMode::kMapped}, std::pair{MrMode::kMapped, MrMode::kCopied},
        std::pair{MrMode::kCopied, MrMode::kCopied}}) {
    std::ranges::fill(target_, uint8_t{0});
    const MemoryRegion& source = Source(from);
    const MemoryRegion& target = Target(to);
    for (uint32_t i = 0; i < 4; ++i) Write(*a_, source, target, i * 65'536, 65'536);
    bed_.Settle();
    EXPECT_TRUE(IsCompleted(*a_, 4));
    EXPECT_TRUE(std::equal(source_.begin(), source_.begin() + 4 * 65'536, target_.begin()));
  }
  EXPECT_FALSE(seen_.has_wrong_icrc);
}

// A packet of copied memory has its own frame between others, which do not overtake it.
TEST_F(WorkerSuperframesTest, CopiedMemoryBetweenMappedMemoryKeepsItsPlace) {
  bed_.StartCopyHelper(*bed_.session, /*by_workers=*/true);
  const MemoryRegion& mapped = Source();
  const MemoryRegion& copied = Source(MrMode::kCopied);
  const MemoryRegion& target = Target();
  constexpr uint32_t kMessage = 3 * kPacketBytes + 500;
  for (uint32_t i = 0; i < 8; ++i) {
    b_->PostReceive(i, {Testbed::Sge(target, i * kMessage, kMessage)});
    const uint32_t at = i * kMessage;
    a_->PostSend({.opcode = kSend,
                  .list = {Testbed::Sge(mapped, at, 2 * kPacketBytes),
                           Testbed::Sge(copied, at + 2 * kPacketBytes, kPacketBytes),
                           Testbed::Sge(mapped, at + 3 * kPacketBytes, 500)}});
  }
  bed_.Settle();
  EXPECT_TRUE(IsCompleted(*a_, 8));
  EXPECT_TRUE(std::equal(source_.begin(), source_.begin() + 8 * kMessage, target_.begin()));
  EXPECT_TRUE(seen_.IsInOrder());
  EXPECT_FALSE(seen_.has_wrong_icrc);
}

// A packet history records frames.
TEST_F(WorkerSuperframesTest, WhatIsRecordedHasAFrame) {
  a_->qp->set_history(std::make_unique<PacketHistory>(1000));
  Write(*a_, Source(), Target(), 0, 16 * kPacketBytes);
  bed_.Settle();
  EXPECT_TRUE(IsCompleted(*a_, 1));
  EXPECT_EQ(seen_.superframes, 0u);
  EXPECT_EQ(seen_.frames, 16u);
}

TEST_F(WorkerSuperframesTest, APortThatTakesNoneGetsNone) {
  ports_[0].superframes = false;
  Write(*a_, Source(), Target(), 0, 64 * kPacketBytes);
  bed_.Settle();
  EXPECT_TRUE(IsCompleted(*a_, 1));
  EXPECT_EQ(seen_.superframes, 0u);
  EXPECT_EQ(seen_.frames, 64u);
}

// A packet with another payload size, or the wrong key, in the middle: what is before it counts.
TEST_F(WorkerSuperframesTest, ADeniedWriteFailsItsQueuePairAlone) {
  const MemoryRegion& source = Source();
  MemoryRegion& target = Target();
  auto [other, its_peer] = bed_.AddPair();
  a_->PostSend({.opcode = kWrite,
                .list = {Testbed::Sge(source, 0, 8 * kPacketBytes)},
                .remote_addr = target.iova,
                .rkey = target.key + 1});
  Write(*other, source, target, 65'536, 65'536);
  bed_.Settle();
  uroce_cqe cqe{};
  ASSERT_TRUE(a_->PollSend(cqe));
  EXPECT_EQ(cqe.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(IsCompleted(*other, 1));
  EXPECT_TRUE(
      std::equal(source_.begin() + 65'536, source_.begin() + 131'072, target_.begin() + 65'536));
}

// The source's key is gone: the work fails, and what was taken for its packet is given back.
TEST_F(WorkerSuperframesTest, ASourceThatIsDeniedFailsItsWork) {
  const MemoryRegion& source = Source();
  const MemoryRegion& target = Target();
  for (int i = 0; i < 20; ++i) {
    auto [one, other] = bed_.AddPair();
    uroce_sge wrong = Testbed::Sge(source, 0, 8 * kPacketBytes);
    ++wrong.lkey;
    one->PostSend(
        {.opcode = kWrite, .list = {wrong}, .remote_addr = target.iova, .rkey = target.key});
    bed_.Settle();
    uroce_cqe cqe{};
    ASSERT_TRUE(one->PollSend(cqe));
    EXPECT_EQ(cqe.status, IBV_WC_LOC_PROT_ERR);
  }
  Write(*a_, source, target, 0, 64 * kPacketBytes);
  bed_.Settle();
  EXPECT_TRUE(IsCompleted(*a_, 1));
  EXPECT_EQ(seen_.superframes, 2u) << "All buffers are free.";
}

// Runs of packets (transport::TxRun, wire::SegmentRun): where one packet would be treated
// otherwise, they go one by one.

// Payload in several pieces: packets begin and end within them. Beyond eight pieces there is no
// run.
TEST_F(WorkerSuperframesTest, PayloadOfManyPieces) {
  const MemoryRegion& source = Source();
  const MemoryRegion& target = Target();
  Endpoint& a = bed_.AddEndpoint(0, {.max_sge = 16});
  Endpoint& b = bed_.AddEndpoint(1, {.max_sge = 16});
  bed_.Connect(a, b);
  for (const uint32_t pieces : {2u, 3u, 7u, 16u}) {
    std::ranges::fill(target_, uint8_t{0});
    constexpr uint32_t kMessage = 60 * kPacketBytes;
    std::vector<uroce_sge> from, to;
    uint32_t at = 0;
    for (uint32_t i = 0; i < pieces; ++i) {
      const uint32_t end = i + 1 == pieces ? kMessage : (i + 1) * kMessage / pieces + 13 * i;
      from.push_back(Testbed::Sge(source, at, end - at));
      to.insert(to.begin(), Testbed::Sge(target, at, end - at));
      at = end;
    }
    b.PostReceive(7, to);
    a.PostSend({.opcode = kSend, .list = from});
    bed_.Settle();
    EXPECT_TRUE(IsCompleted(a, 1));
    // The receive's list begins with the last piece.
    std::vector<uint8_t> received;
    for (const uroce_sge& each : to) {
      const auto begin = target_.begin() + static_cast<ptrdiff_t>(each.addr - target.iova);
      received.insert(received.end(), begin, begin + each.length);
    }
    EXPECT_TRUE(std::equal(received.begin(), received.end(), source_.begin())) << pieces;
  }
  EXPECT_FALSE(seen_.has_wrong_icrc);
}

// What is before memory that is denied was sent, and placed, as packet by packet.
TEST_F(WorkerSuperframesTest, MemoryThatIsDeniedWithinARun) {
  const MemoryRegion& source = Source();
  const MemoryRegion& target = Target();
  uroce_sge wrong = Testbed::Sge(target, 20 * kPacketBytes, 20 * kPacketBytes);
  ++wrong.lkey;
  b_->PostReceive(1, {Testbed::Sge(target, 0, 20 * kPacketBytes), wrong});
  a_->PostSend({.opcode = kSend, .list = {Testbed::Sge(source, 0, 40 * kPacketBytes)}});
  bed_.Settle();
  uroce_cqe cqe{};
  ASSERT_TRUE(a_->PollSend(cqe));
  EXPECT_EQ(cqe.status, IBV_WC_REM_OP_ERR);
  ASSERT_TRUE(b_->PollReceive(cqe));
  EXPECT_EQ(cqe.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_TRUE(std::equal(source_.begin(), source_.begin() + 20 * kPacketBytes, target_.begin()));
  EXPECT_EQ(target_[20 * kPacketBytes], 0);

  auto [one, other] = bed_.AddPair();
  seen_ = {};
  wrong = Testbed::Sge(source, 20 * kPacketBytes, 20 * kPacketBytes);
  ++wrong.lkey;
  one->PostSend({.opcode = kWrite,
                 .list = {Testbed::Sge(source, 0, 20 * kPacketBytes), wrong},
                 .remote_addr = target.iova + 100 * kPacketBytes,
                 .rkey = target.key});
  bed_.Settle();
  ASSERT_TRUE(one->PollSend(cqe));
  EXPECT_EQ(cqe.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(one->qp->traffic().sent_packets, 20u);
}

TEST_F(WorkerSuperframesTest, EachPacketThatArrivesIsRecorded) {
  b_->qp->set_history(std::make_unique<PacketHistory>(1000));
  Write(*a_, Source(), Target(), 0, 64 * kPacketBytes);
  bed_.Settle();
  EXPECT_TRUE(IsCompleted(*a_, 1));
  std::vector<uint32_t> psns;
  for (const HistoryPacket& each : b_->qp->history()->InOrder()) {
    if (each.direction == UROCE_CAPTURE_INBOUND) psns.push_back(each.note.psn);
  }
  ASSERT_EQ(psns.size(), 64u);
  EXPECT_EQ(psns.back(), psns.front() + 63);
}

TEST_F(WorkerSuperframesTest, EachMarkedPacketCounts) {
  ports_[0].filter = [](rte_mbuf* frame) {
    rte_pktmbuf_mtod(frame, uint8_t*)[15] |= 3;  // CE. The ICRC does not cover it.
    return true;
  };
  Write(*a_, Source(), Target(), 0, 64 * kPacketBytes);
  bed_.Settle();
  EXPECT_TRUE(IsCompleted(*a_, 1));
  EXPECT_EQ(Sum(1, &DeviceCounters::np_ecn_marked_roce_packets), 64u);
}

class WorkerShortTurnsTest : public WorkerSuperframesTest {
 protected:
  static constexpr uint32_t kTurnBytes = 40'000;
  WorkerShortTurnsTest() : WorkerSuperframesTest(kTurnBytes) {}
};

// A program sends 16 KB before the next one does, in superframes too.
TEST_F(WorkerShortTurnsTest, ProgramsTakeTurnsWithinATurnOfTheWorker) {
  Endpoint& from = bed_.AddEndpoint(0, {.session = &bed_.AddSession()});
  Endpoint& to = bed_.AddEndpoint(1);
  bed_.Connect(from, to);
  const MemoryRegion& source = Source();
  const MemoryRegion& target = Target();
  Write(*a_, source, target, 0, 64 * kPacketBytes);
  from.PostSend({.opcode = kWrite,
                 .list = {Testbed::Sge(source, 64 * kPacketBytes, 64 * kPacketBytes)},
                 .remote_addr = target.iova + 64 * kPacketBytes,
                 .rkey = target.key});
  bed_.Turn();
  const auto one = static_cast<int64_t>(a_->qp->traffic().sent_bytes);
  const auto other = static_cast<int64_t>(from.qp->traffic().sent_bytes);
  EXPECT_GT(one, 0);
  EXPECT_LE(std::abs(one - other), kSessionQuantumBytes + 2 * kPacketBytes);
  bed_.Settle();
  EXPECT_TRUE(IsCompleted(*a_, 1));
  EXPECT_TRUE(std::equal(source_.begin(), source_.begin() + 128 * kPacketBytes, target_.begin()));
}

TEST_F(WorkerShortTurnsTest, ATurnQueuesWhatThePortTakes) {
  uint64_t bytes = 0;
  ports_[0].filter = [&](const rte_mbuf* frame) {
    bytes += frame->data_len;
    return true;
  };
  Write(*a_, Source(), Target(), 0, 256 * kPacketBytes);
  uint64_t most = 0;
  for (int i = 0; i < 100; ++i) {
    bytes = 0;
    bed_.Turn();
    most = std::max(most, bytes);
  }
  EXPECT_TRUE(IsCompleted(*a_, 1));
  // A superframe that goes on was begun in the turn before.
  EXPECT_LE(most, 2 * kTurnBytes);
}

class WorkerLimitedSuperframesTest : public WorkerSuperframesTest {
 protected:
  static constexpr uint64_t kRate = 100'000'000;
  WorkerLimitedSuperframesTest() : WorkerSuperframesTest(131'070, kRate) {}

  /// How many packets leave at once.
  uint64_t Burst(bool in_superframes) {
    ports_[0].superframes = in_superframes;
    auto [one, other] = bed_.AddPair();
    Write(*one, Source(), Target(), 0, 512 * kPacketBytes);
    bed_.Turn(Nanos(50'000'000));
    const uint64_t sent = one->qp->traffic().sent_packets;
    bed_.Modify(*one, transport::QpState::kReset);
    return sent;
  }
};

// Each packet asks whether the limit lets it leave.
TEST_F(WorkerLimitedSuperframesTest, ALimitHoldsInSuperframesToo) {
  Burst(false);  // Leaves the limit in the state in which each of the others finds it.
  for (int i = 0; i < 4; ++i) {
    const auto in_frames = static_cast<int64_t>(Burst(false));
    EXPECT_LT(in_frames, 40);
    EXPECT_LE(std::abs(static_cast<int64_t>(Burst(true)) - in_frames), 2);
  }
}

}  // namespace
}  // namespace uroce::datapath
