// SPDX-License-Identifier: Apache-2.0
// Rules: which packets they count, on which they act, and what arrives then, with its ICRC.
#include "drivers/fault/fault_config.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "drivers/cable/cable_port.h"
#include "drivers/fault/fault_port.h"
#include "tests/drivers/frame_pool.h"
#include "tests/wire/packet_train.h"

namespace uroce::drivers {
namespace {

FaultRule RuleOf(const std::string& text) {
  const auto config = ParseFault(text);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() && !config->rules.empty() ? config->rules.front() : FaultRule{};
}

/// The numbers of 1 to 12 on which the rule acts.
std::vector<uint64_t> ActsOn(const std::string& keys) {
  std::vector<uint64_t> numbers;
  const FaultRule rule = RuleOf("rule=drop" + keys);
  for (uint64_t number = 1; number <= 12; ++number) {
    if (rule.ActsOn(number)) numbers.push_back(number);
  }
  return numbers;
}

using Numbers64 = std::vector<uint64_t>;

TEST(FaultRuleTest, PacketsAreChosenByTheirNumber) {
  EXPECT_EQ(ActsOn("").size(), 12u);
  EXPECT_EQ(ActsOn(",nth=3"), Numbers64({3}));
  EXPECT_EQ(ActsOn(",nth=3,count=2"), Numbers64({3, 4}));
  EXPECT_EQ(ActsOn(",every=5"), Numbers64({1, 6, 11}));
  EXPECT_EQ(ActsOn(",nth=2,every=4"), Numbers64({2, 6, 10}));
  EXPECT_EQ(ActsOn(",nth=2,every=4,count=2"), Numbers64({2, 6}));
  EXPECT_EQ(ActsOn(",count=1"), Numbers64({1}));
}

TEST(FaultRuleTest, TextIsThatOfTheRule) {
  for (const char* text :
       {"rule=drop", "rule=duplicate,qpn=0x12ab", "rule=corrupt,opcode=UC_SEND_ONLY",
        "rule=mark,dir=rx,nth=3,count=1", "rule=delay:20ms,opcode=ACK,dir=tx,nth=2,every=5",
        "rule=reorder:3,opcode=CNP,count=7"}) {
    EXPECT_EQ(FormatRule(RuleOf(text)), text);
  }
  EXPECT_EQ(FormatRule(RuleOf("rule=reorder,qpn=17,opcode=write_last")),
            "rule=reorder:1,qpn=0x11,opcode=WRITE_LAST");
}

TEST(FaultRuleTest, KeysBehindARuleAreItsOwn) {
  const auto config = ParseFault("drop=0.5,dir=tx,rule=drop,dir=rx,nth=2,rule=mark,opcode=ACK");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->drop, 0.5);
  EXPECT_EQ(config->direction, FaultDirection::kTransmit);
  ASSERT_EQ(config->rules.size(), 2u);
  EXPECT_EQ(FormatRule(config->rules[0]), "rule=drop,dir=rx,nth=2,count=1");
  EXPECT_EQ(FormatRule(config->rules[1]), "rule=mark,opcode=ACK");
}

TEST(FaultRuleTest, WrongTextSaysWhatWouldBeRight) {
  struct {
    const char* text;
    const char* said;
  } constexpr kWrong[] = {
      {"rule=lose", "rule=lose: one of drop, duplicate"},
      {"rule=delay", "delay:TIME"},
      {"rule=delay:2s", "from 0s to 1s"},
      {"rule=reorder:0", "1 to 512"},
      {"rule=drop:1", "one of drop"},
      {"rule=drop,opcode=WRITE_MIDLE", "did you mean WRITE_MIDDLE"},
      {"rule=drop,qpn=0x1000000", "the number of a queue pair"},
      {"rule=drop,nth=0", "a whole number from 1"},
      {"rule=drop,every=x", "a whole number from 1"},
      {"rule=drop,count=-1", "a whole number from 1"},
      {"rule=drop,dir=up", "one of both, rx, tx"},
      {"rule=drop,seed=1", "qpn, opcode, dir, nth, every, count"},
      {"nth=3", "unknown key"},
  };
  for (const auto& wrong : kWrong) {
    const auto config = ParseFault(wrong.text);
    ASSERT_FALSE(config.ok()) << wrong.text;
    EXPECT_NE(config.status().message().find(wrong.said), std::string::npos) << config.status();
  }
  std::string many = "rule=drop";
  for (size_t i = 0; i < kMaxFaultRules; ++i) many += ",rule=drop";
  EXPECT_FALSE(ParseFault(many).ok());
}

/// A wire whose first end has a rule. Packets are WRITE Middles with PSNs from 1 on.
class FaultRulePortTest : public FramePoolTest {
 protected:
  void TearDown() override {
    sender_.reset();
    receiver_.reset();
    FramePoolTest::TearDown();
  }

  void Make(const std::string& fault) {
    const auto config = ParseFault(fault);
    ASSERT_TRUE(config.ok()) << config.status();
    auto wire = MakeCable({}, {}, {.depth_frames = 512});
    ASSERT_TRUE(wire.ok()) << wire.status();
    sender_ = std::make_unique<FaultPort>(std::move(wire->first), *config, pool());
    receiver_ = std::move(wire->second);
    train_ = {.psn = 1};
  }

  rte_mbuf* NextPacket() {
    const std::vector<uint8_t> bytes = train_.Next(256);
    rte_mbuf* const frame = Frame(0, static_cast<uint16_t>(bytes.size()));
    std::memcpy(rte_pktmbuf_mtod(frame, void*), bytes.data(), bytes.size());
    return frame;
  }

  /// What arrives: PSN, whether the ICRC is right, whether congestion was experienced.
  struct Arrived {
    uint32_t psn;
    bool icrc_is_right;
    bool is_marked;
    bool operator==(const Arrived&) const = default;
  };

  std::vector<Arrived> Collect(Nanos now) {
    EXPECT_EQ(sender_->TransmitBurst(0, nullptr, 0, now), 0);
    std::vector<Arrived> arrived;
    rte_mbuf* frames[64];
    const uint16_t count = receiver_->ReceiveBurst(0, frames, 64, now);
    for (uint16_t i = 0; i < count; ++i) {
      const std::span bytes(rte_pktmbuf_mtod(frames[i], const uint8_t*), frames[i]->data_len);
      wire::Packet packet;
      wire::FrameView view;
      EXPECT_EQ(wire::Decode(bytes, packet, view), wire::DecodeResult::kOk);
      arrived.push_back({packet.header.psn.value(), wire::IcrcIsRight(bytes, view),
                         packet.congestion_experienced});
      rte_pktmbuf_free(frames[i]);
    }
    return arrived;
  }

  void Send(uint32_t count, Nanos now) {
    for (uint32_t i = 0; i < count; ++i) {
      rte_mbuf* frame = NextPacket();
      EXPECT_EQ(sender_->TransmitBurst(0, &frame, 1, now), 1);
    }
  }

  std::vector<Arrived> Pass(uint32_t count) {
    Send(count, Nanos(1000));
    return Collect(Nanos(1000));
  }

  const ActiveFaultRule& rule(size_t index = 0) { return *sender_->rules().at(index); }

  wire::PacketTrain train_;
  std::unique_ptr<FaultPort> sender_;
  std::unique_ptr<Port> receiver_;
};

using Packets = std::vector<uint32_t>;

Packets PsnsOf(const auto& arrived) {
  Packets psns;
  for (const auto& packet : arrived) psns.push_back(packet.psn);
  return psns;
}

TEST_F(FaultRulePortTest, OnlyTheChosenPacketIsDropped) {
  Make("rule=drop,opcode=WRITE_MIDDLE,qpn=0x1234,dir=tx,nth=3");
  EXPECT_EQ(PsnsOf(Pass(5)), Packets({1, 2, 4, 5}));
  EXPECT_EQ(rule().matched, 5u);
  EXPECT_EQ(rule().acted, 1u);
  EXPECT_EQ(sender_->transmit_counters().dropped, 1u);
}

TEST_F(FaultRulePortTest, OtherPacketsAreNotCounted) {
  for (const char* keys : {"opcode=WRITE_LAST", "qpn=0x1235", "dir=rx"}) {
    Make(std::string("rule=drop,") + keys);
    EXPECT_EQ(Pass(3).size(), 3u);
    EXPECT_EQ(rule().matched, 0u) << keys;
  }
  Make("rule=drop");
  rte_mbuf* frame = Frame(7);  // No RoCE packet.
  ASSERT_EQ(sender_->TransmitBurst(0, &frame, 1, Nanos(0)), 1);
  ASSERT_EQ(receiver_->ReceiveBurst(0, &frame, 1, Nanos(0)), 1);
  rte_pktmbuf_free(frame);
  EXPECT_EQ(rule().matched, 0u);
}

TEST_F(FaultRulePortTest, ADuplicateFollowsItsPacketAndIsIntact) {
  Make("rule=duplicate,nth=2");
  const std::vector<Arrived> arrived = Pass(3);
  EXPECT_EQ(PsnsOf(arrived), Packets({1, 2, 2, 3}));
  for (const Arrived& packet : arrived) EXPECT_TRUE(packet.icrc_is_right);
}

TEST_F(FaultRulePortTest, ACorruptPacketHasAWrongIcrc) {
  Make("rule=corrupt,nth=2");
  EXPECT_EQ(Pass(3), std::vector<Arrived>({{1, true, false}, {2, false, false}, {3, true, false}}));
}

TEST_F(FaultRulePortTest, AMarkedPacketKeepsItsIcrc) {
  Make("rule=mark,nth=2");
  EXPECT_EQ(Pass(3), std::vector<Arrived>({{1, true, false}, {2, true, true}, {3, true, false}}));
}

TEST_F(FaultRulePortTest, ADelayedPacketComesLaterAndHoldsNoOtherBack) {
  Make("rule=delay:20us,nth=2");
  EXPECT_EQ(PsnsOf(Pass(3)), Packets({1, 3}));
  EXPECT_EQ(sender_->NextDeadline(0), Nanos(21'000));
  EXPECT_TRUE(Collect(Nanos(20'999)).empty());
  EXPECT_EQ(Collect(Nanos(21'000)), std::vector<Arrived>({{2, true, false}}));
  EXPECT_EQ(sender_->NextDeadline(0), kNever);
}

TEST_F(FaultRulePortTest, AReorderedPacketComesBehindAsManyAsItSays) {
  Make("rule=reorder:2,nth=2");
  EXPECT_EQ(PsnsOf(Pass(6)), Packets({1, 3, 4, 2, 5, 6}));
  Make("rule=reorder,nth=1");
  EXPECT_EQ(PsnsOf(Pass(3)), Packets({2, 1, 3}));
}

TEST_F(FaultRulePortTest, AllPacketsMayBeHeld) {
  Make("rule=delay:20us");
  Send(200, Nanos(1000));
  EXPECT_TRUE(Collect(Nanos(1000)).empty());
  size_t arrived = 0;
  for (int i = 0; i < 5; ++i) arrived += Collect(Nanos(21'000)).size();
  EXPECT_EQ(arrived, 200u);
}

TEST_F(FaultRulePortTest, RulesOfOnePacketAllActAndCount) {
  Make("rule=duplicate,nth=2,rule=corrupt,nth=2,rule=drop,nth=3");
  EXPECT_EQ(Pass(4),
            std::vector<Arrived>(
                {{1, true, false}, {2, true, false}, {2, false, false}, {4, true, false}}));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(rule(i).acted, 1u);
}

TEST_F(FaultRulePortTest, RulesEndWhenFaultsAreSetAgain) {
  Make("rule=drop");
  EXPECT_TRUE(Pass(2).empty());
  EXPECT_EQ(sender_->Info().driver, "fault(wire)");
  sender_->Set({});
  EXPECT_EQ(Pass(2).size(), 2u);
  EXPECT_TRUE(sender_->rules().empty());
  EXPECT_EQ(sender_->Info().driver, "wire");
}

}  // namespace
}  // namespace uroce::drivers
