// SPDX-License-Identifier: Apache-2.0
// Packets that a shell sends and receives several at a time (RcQueuePair::PollRun and PlanRun): two
// connections do the same, packet by packet and in runs, and every packet, access to memory and
// completion has to be the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "pipeline/transport/rc_queue_pair.h"
#include "tests/transport/script/kept_copies.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kMtu = 256;
const std::array<uint8_t, kMtu> kPayload{};

/// A packet under way, and what tells it from others.
struct Moved {
  wire::TransportHeader header;
  uint32_t bytes = 0;
  uint32_t slot = 0;      ///< Where the payload comes from.
  uint64_t position = 0;  ///< The same.

  auto Key() const {
    return std::tuple(header.opcode, header.psn.value(), header.ack_request, header.solicited,
                      header.aeth.syndrome, header.aeth.msn, bytes, slot, position);
  }
};

/// Bytes of memory that were written one after the other.
struct Written {
  Effect::Kind kind;
  uint32_t key;
  uint64_t position;
  uint64_t bytes;
  bool operator==(const Written&) const = default;
};

class End {
 public:
  End(bool selective, uint32_t run_seed)
      : random_(run_seed),
        qp_({.max_send_works = 64, .max_in_flight_packets = 96, .selective_repeat = selective}) {
    const QueuePairAttributes attributes{.remote_write = true,
                                         .remote_read = true,
                                         .path_mtu_bytes = kMtu,
                                         .rq_psn = wire::Psn(0xffffc0),
                                         .sq_psn = wire::Psn(0xffffc0),
                                         .max_rd_atomic = 4,
                                         .max_dest_rd_atomic = 4,
                                         .timeout = 10,
                                         .retry_count = 7,
                                         .rnr_retry = 7,
                                         .selective_repeat = selective};
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      qp_.Modify(state, attributes);
    }
  }

  /// `in_runs`: several at a time, where that is possible.
  std::vector<Moved> Send(Nanos now, uint32_t most, bool in_runs) {
    std::vector<Moved> sent;
    TxPacket packet;
    while (sent.size() < most && qp_.PollPacket(now, packet)) {
      sent.push_back(MovedOf(packet));
      if (!in_runs) continue;
      const auto room = static_cast<uint32_t>(most - sent.size());
      uint32_t behind = std::min(qp_.RunBehind(packet), room);
      if (behind > 1) behind = 1 + static_cast<uint32_t>(random_()) % behind;
      if (behind == 0) continue;
      const TxRun run = qp_.PollRun(now, packet, std::min(behind, TxRun::kMost));
      sent_in_runs += run.packets;
      for (uint32_t i = 0; i < run.packets; ++i) {
        Moved next = sent.back();
        next.header.psn = next.header.psn + 1;
        next.header.ack_request = (run.asks >> i & 1) != 0;
        next.position += next.bytes;
        sent.push_back(next);
      }
    }
    return sent;
  }

  void Receive(const std::vector<Moved>& packets, Nanos now, bool in_runs) {
    for (size_t at = 0; at < packets.size();) {
      const uint32_t taken = in_runs ? TakeRun(packets, at, now) : 0;
      received_in_runs += taken;
      if (taken == 0) Take(PacketOf(packets[at]), now);
      at += std::max(taken, 1u);
      wire::Psn psn;
      while (qp_.PollKept(psn)) Take(kept_.Take(psn)->packet, now);
    }
  }

  void Settle() {
    Completion completion;
    while (qp_.PollCompletion(completion)) {
      completions.push_back(
          {completion.is_receive, completion.slot, completion.length_bytes, completion.status});
    }
  }

  void Post(SendWork work) {
    if (qp_.post_room() == 0) return;
    work.slot = next_slot_++;
    EXPECT_EQ(qp_.Post(work), PostResult::kPosted);
  }
  RcQueuePair& qp() { return qp_; }

  std::vector<std::tuple<bool, uint32_t, uint32_t, WcStatus>> completions;
  std::vector<Written> written;
  uint32_t sent_in_runs = 0;
  uint32_t received_in_runs = 0;

 private:
  static Moved MovedOf(const TxPacket& packet) {
    const bool is_remote = packet.payload_source == TxPacket::Source::kRemote;
    Moved moved{.header = packet.header, .bytes = packet.payload_bytes()};
    if (packet.payload_source == TxPacket::Source::kOwn) moved.bytes = 0;
    if (moved.bytes == 0) return moved;
    moved.slot = is_remote ? packet.remote.rkey.value() : packet.local.slot;
    moved.position = is_remote ? packet.remote.va : packet.local.offset_bytes;
    return moved;
  }
  static wire::Packet PacketOf(const Moved& moved) {
    wire::Packet packet;
    packet.header = moved.header;
    packet.payload = std::span(kPayload).first(moved.bytes);
    return packet;
  }

  /// MIDDLE packets with consecutive PSNs from `at` on; sometimes not all of them.
  uint32_t TakeRun(const std::vector<Moved>& packets, size_t at, Nanos now) {
    if (!wire::InfoOf(packets[at].header.opcode).is_middle()) return 0;
    uint32_t count = 0;
    bool asks = false;
    for (; at + count < packets.size(); ++count) {
      const wire::TransportHeader& header = packets[at + count].header;
      if (header.opcode != packets[at].header.opcode ||
          header.psn != packets[at].header.psn + count || random_() % 16 == 0) {
        break;
      }
      asks |= header.ack_request;
    }
    const wire::Packet first = PacketOf(packets[at]);
    Effect effect;
    if (count == 0 || !qp_.PlanRun(first, count, effect)) return 0;
    Write(effect);
    qp_.CommitRun(first, count, asks, now);
    return count;
  }

  void Take(const wire::Packet& packet, Nanos now) {
    if (qp_.NeedsReceive(packet.header)) {
      qp_.PostReceive({.slot = next_receive_, .length_bytes = 64 * kMtu});
      ++next_receive_;
    }
    Effect effect;
    static_cast<void>(qp_.OnPacket(packet, now, effect));
    if (effect.kind == Effect::Kind::kNone) return;
    if (effect.kind == Effect::Kind::kKeep) kept_.Keep(packet);
    Write(effect);
    qp_.OnEffectDone(EffectOutcome::kDone, 0, now);
  }

  void Write(const Effect& effect) {
    using Kind = Effect::Kind;
    if (effect.kind == Kind::kKeep || effect.kind == Kind::kCheckRemote) return;
    const bool is_remote = effect.kind == Kind::kPlaceRemote;
    const Written next{effect.kind, is_remote ? effect.remote.rkey.value() : effect.local.slot,
                       is_remote ? effect.remote.va : effect.local.offset_bytes,
                       is_remote ? effect.remote.length_bytes : effect.local.length_bytes};
    if (!written.empty()) {
      Written& last = written.back();
      if (last.kind == next.kind && last.key == next.key &&
          last.position + last.bytes == next.position) {
        last.bytes += next.bytes;
        return;
      }
    }
    written.push_back(next);
  }

  std::mt19937 random_;
  RcQueuePair qp_;
  KeptCopies kept_;
  uint32_t next_slot_ = 0;
  uint32_t next_receive_ = 0;
};

SendWork RandomWork(std::mt19937& random) {
  SendWork work;
  constexpr std::array kOpcodes = {WorkOpcode::kWrite, WorkOpcode::kWrite, WorkOpcode::kSend,
                                   WorkOpcode::kRead};
  work.opcode = kOpcodes[random() % kOpcodes.size()];
  work.length_bytes = static_cast<uint32_t>(random()) % (60 * kMtu);
  work.remote_va = random() % 1'000'000;
  work.rkey = Rkey(static_cast<uint32_t>(random()) % 100);
  return work;
}

std::vector<Moved> Lose(const std::vector<Moved>& packets, uint32_t one_in, std::mt19937& random) {
  std::vector<Moved> rest;
  for (const Moved& each : packets) {
    if (one_in == 0 || random() % one_in != 0) rest.push_back(each);
  }
  return rest;
}

struct Case {
  bool selective;
  uint32_t one_in;  ///< Packets of which one is lost; 0: none.
};

class PacketRunsTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, PacketRunsTest,
                         testing::Values(Case{false, 0}, Case{false, 40}, Case{true, 0},
                                         Case{true, 40}, Case{true, 400}),
                         [](const auto& parameter) {
                           return std::string(parameter.param.selective ? "Selective" : "GoBackN") +
                                  std::to_string(parameter.param.one_in);
                         });

TEST_P(PacketRunsTest, RunsDoWhatTheirPacketsDoOneByOne) {
  uint32_t sent_in_runs = 0, received_in_runs = 0;
  size_t completions = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed), losses[2] = {std::mt19937(seed), std::mt19937(seed)};
    // [connection][end]
    End ends[2][2] = {{End(GetParam().selective, 1), End(GetParam().selective, 2)},
                      {End(GetParam().selective, seed), End(GetParam().selective, seed + 99)}};
    Nanos now{0};
    for (int round = 0; round < 300; ++round) {
      now = now + Nanos(20'000);
      for (size_t side = 0; side < 2; ++side) {
        const SendWork work = RandomWork(random);
        const uint32_t posts = round < 200 ? random() % 2 : 0;
        const auto most = static_cast<uint32_t>(1 + random() % 100);
        const auto credits = static_cast<uint32_t>(random() % 4 == 0 ? kNoCredits : random() % 6);
        std::vector<Moved> sent[2];
        for (size_t connection = 0; connection < 2; ++connection) {
          End& from = ends[connection][side];
          if (posts != 0) from.Post(work);
          from.qp().OfferCredits(credits);
          if (from.qp().NextDeadline() <= now) from.qp().OnDeadline(now);
          sent[connection] = from.Send(now, most, /*in_runs=*/connection == 1);
          ends[connection][1 - side].Receive(
              Lose(sent[connection], GetParam().one_in, losses[connection]), now,
              /*in_runs=*/connection == 1);
        }
        ASSERT_EQ(sent[0].size(), sent[1].size()) << "round " << round;
        for (size_t i = 0; i < sent[0].size(); ++i) {
          ASSERT_EQ(sent[0][i].Key(), sent[1][i].Key()) << "round " << round << ", packet " << i;
        }
        for (auto& connection : ends) connection[1 - side].Settle();
        for (auto& connection : ends) connection[side].Settle();
      }
    }
    for (size_t side = 0; side < 2; ++side) {
      EXPECT_EQ(ends[0][side].completions, ends[1][side].completions);
      ASSERT_EQ(ends[0][side].written.size(), ends[1][side].written.size());
      for (size_t i = 0; i < ends[0][side].written.size(); ++i) {
        ASSERT_EQ(ends[0][side].written[i], ends[1][side].written[i]) << i;
      }
      EXPECT_EQ(ends[0][side].qp().NextDeadline(), ends[1][side].qp().NextDeadline());
      EXPECT_EQ(std::memcmp(&ends[0][side].qp().counters(), &ends[1][side].qp().counters(),
                            sizeof(QueuePairCounters)),
                0);
      completions += ends[1][side].completions.size();
      sent_in_runs += ends[1][side].sent_in_runs;
      received_in_runs += ends[1][side].received_in_runs;
    }
  }
  EXPECT_GT(completions, 100u);
  EXPECT_GT(sent_in_runs, 10'000u);
  EXPECT_GT(received_in_runs, 10'000u);
}

/// A connection whose responder has taken the FIRST packet of a WRITE of `packets` packets.
struct Begun {
  explicit Begun(uint32_t packets, WorkOpcode opcode = WorkOpcode::kWrite) {
    from.Post({.opcode = opcode, .length_bytes = packets * kMtu, .rkey = Rkey(7)});
    sent = from.Send(Nanos(0), packets, false);
    to.Receive({sent[0]}, Nanos(0), false);
  }
  bool Plan(size_t index, uint32_t count) {
    wire::Packet packet;
    packet.header = sent[index].header;
    packet.payload = std::span(kPayload).first(sent[index].bytes);
    Effect effect;
    return to.qp().PlanRun(packet, count, effect);
  }

  End from{false, 0}, to{false, 0};
  std::vector<Moved> sent;
};

// The last packet is none of them, however long the peer says that the run is.
TEST(PacketRunTest, ARunEndsBeforeItsMessage) {
  Begun begun(8);
  EXPECT_TRUE(begun.Plan(1, 6));
  EXPECT_FALSE(begun.Plan(1, 7));
  EXPECT_FALSE(begun.Plan(1, 8));
  EXPECT_FALSE(begun.Plan(0, 1)) << "FIRST";
  EXPECT_FALSE(begun.Plan(7, 1)) << "LAST";
}

TEST(PacketRunTest, ASendFitsItsReceive) {
  Begun begun(80, WorkOpcode::kSend);
  EXPECT_TRUE(begun.Plan(1, 63));
  EXPECT_FALSE(begun.Plan(1, 64)) << "The receive has 64 packets.";
}

TEST(PacketRunTest, PacketsOutOfTurnComeOneByOne) {
  Begun begun(16);
  EXPECT_FALSE(begun.Plan(2, 3)) << "behind a gap";
  begun.to.Receive({begun.sent[1], begun.sent[2]}, Nanos(0), false);
  EXPECT_FALSE(begun.Plan(2, 3)) << "a duplicate";
  EXPECT_TRUE(begun.Plan(3, 3));
  begun.to.Receive({begun.sent[5]}, Nanos(0), false);
  EXPECT_FALSE(begun.Plan(3, 3)) << "A NAK of the gap is on its way: each packet ends it.";
}

TEST(PacketRunTest, OtherSizesAndKindsAreNoRun) {
  Begun begun(16);
  begun.sent[1].bytes = kMtu - 1;
  EXPECT_FALSE(begun.Plan(1, 2));
  begun.sent[1].bytes = kMtu;
  begun.sent[1].header.opcode = wire::Opcode::kSendMiddle;
  EXPECT_FALSE(begun.Plan(1, 2));
  begun.sent[1].header.opcode = wire::Opcode::kReadResponseMiddle;
  EXPECT_FALSE(begun.Plan(1, 2));
}

// A plan alone changes nothing.
TEST(PacketRunTest, WithoutCommitThePacketsComeOneByOne) {
  Begun begun(16);
  EXPECT_TRUE(begun.Plan(1, 8));
  begun.to.Receive({begun.sent.begin() + 1, begun.sent.end()}, Nanos(0), false);
  ASSERT_EQ(begun.to.written.size(), 1u);
  EXPECT_EQ(begun.to.written[0].bytes, 16 * kMtu);
}

}  // namespace
}  // namespace uroce::transport
