// SPDX-License-Identifier: Apache-2.0
// How many packets a requester has in flight (pipeline/congestion/flow.h).
#include <gtest/gtest.h>

#include <iomanip>
#include <sstream>

#include "pipeline/wire/packet.h"
#include "tests/transport/script/packet_text.h"
#include "tests/transport/script/selective_script.h"

namespace uroce::transport {
namespace {

// [sr.flight 3.1.5.window] In a requester: two packets, then, once a round has come back, four; the
// one at the bound asks for an ACK.
TEST(RequesterWindow, ARequesterSendsMoreOnceItsPeerIsKnown) {
  ScriptConfig config = Selective();
  config.path_mtu = 256;
  config.max_in_flight_packets = 2;
  Script s(config);
  MeasureRoundTrip(s);
  s.Post(Write(256 * 8));
  s.Sends({"WRITE_FIRST psn=000101 len=256", "WRITE_MIDDLE psn=000102 len=256 ackreq"});
  s.Receive("ACK psn=000102 msn=1");
  s.Sends({"WRITE_MIDDLE psn=000103 len=256", "WRITE_MIDDLE psn=000104 len=256",
           "WRITE_MIDDLE psn=000105 len=256", "WRITE_MIDDLE psn=000106 len=256 ackreq"});
}

// [sr.flight sr.standard] With a responder of another vendor the window stays unchanged.
TEST(RequesterWindow, ARequesterSendsNoMoreToAnotherVendor) {
  ScriptConfig config{.selective_repeat = true};
  config.path_mtu = 256;
  config.max_in_flight_packets = 2;
  Script s(config);
  s.Post(Write(256 * 8));
  s.Sends({"WRITE_FIRST psn=000100 len=256", "WRITE_MIDDLE psn=000101 len=256 ackreq"});
  s.Receive("ACK psn=000101 msn=0");
  s.Sends({"WRITE_MIDDLE psn=000102 len=256", "WRITE_MIDDLE psn=000103 len=256 ackreq"});
}

/// The first `count` packets of a WRITE in packets of 256 bytes, with all that may be in flight.
Texts FirstOfAWrite(uint32_t count) {
  Texts texts;
  for (uint32_t i = 0; i < count; ++i) {
    std::ostringstream text;
    text << (i == 0 ? "WRITE_FIRST" : "WRITE_MIDDLE") << " psn=" << std::hex << std::setw(6)
         << std::setfill('0') << 0x100 + i << " len=256" << (i == count - 1 ? " ackreq" : "");
    texts.push_back(text.str());
  }
  return texts;
}

// [3.1.5.narrow] In a requester: of sixteen packets the first eight again.
TEST(RequesterWindow, ARequesterThatGoesBackSendsHalfAtOnce) {
  ScriptConfig config;
  config.path_mtu = 256;
  config.max_in_flight_packets = 16;
  Script s(config);
  s.Post(Write(256 * 20));
  s.Sends(FirstOfAWrite(16));
  s.Receive("NAK_SEQ psn=000100 msn=0");
  s.Sends(FirstOfAWrite(8));
}

struct RequesterRoundTrips : testing::Test {
  Nanos Measured() { return script.qp().window().delay()->delay(); }
  congestion::Environment environment{.settings =
                                          congestion::DefaultsOf(congestion::Profile::kDelay)};
  Script script{{.congestion = &environment}};
};

// [cc.delay.one] From a packet that asks to the ACK of it.
TEST_F(RequesterRoundTrips, AreThoseOfPacketsThatAsk) {
  script.At(0).Post(Write(8)).Sends({"WRITE_ONLY psn=000100 len=8 ackreq"});
  script.At(7'000).Receive("ACK psn=000100 msn=1").Completes({"0 WRITE SUCCESS"});
  EXPECT_EQ(Measured(), Nanos(7'000));
}

// [cc.delay.one] The responder answers a READ first, which takes its time.
TEST_F(RequesterRoundTrips, AreNotMeasuredBehindAReadThatIsAnswered) {
  script.At(0).Post(Read(8)).Post(Write(8));
  script.Sends({"READ_REQUEST psn=000100 len=8 ackreq", "WRITE_ONLY psn=000101 len=8 ackreq"});
  script.At(900'000).Receive("READ_RESPONSE_ONLY psn=000100 len=8 msn=1");
  script.Receive("ACK psn=000101 msn=2");
  EXPECT_EQ(Measured(), Nanos(0));
}

// [cc.delay.lost] The ACK may be that of the first transmission.
TEST_F(RequesterRoundTrips, AreNotMeasuredWithWhatIsSentAgain) {
  script.At(0).Post(Write(8)).Sends({"WRITE_ONLY psn=000100 len=8 ackreq"});
  constexpr int64_t kTimeout = 67'108'864;  // Code 14.
  script.At(kTimeout).Sends({"WRITE_ONLY psn=000100 len=8 ackreq"});
  script.At(kTimeout + 10).Receive("ACK psn=000100 msn=1").Completes({"0 WRITE SUCCESS"});
  EXPECT_EQ(Measured(), Nanos(0));
}

// [cc.delay.host] The responder tells how long its CPU made the packet wait.
TEST(RequesterWaits, OfThePeerAreLeftOutOnceItHasAgreed) {
  for (const bool agreed : {true, false}) {
    const congestion::Environment environment{
        .settings = congestion::DefaultsOf(congestion::Profile::kDelay)};
    Script script{{.selective_repeat = true, .agreed = agreed, .congestion = &environment}};
    script.At(0).Post(Write(8)).Sends({"WRITE_ONLY psn=000100 len=8 ackreq"});
    script.At(70'000).Receive("ACK psn=000100 msn=1 waited=40000").Completes({"0 WRITE SUCCESS"});
    EXPECT_EQ(script.qp().window().delay()->delay(), Nanos(agreed ? 30'000 : 70'000));
  }
}

// [cc.delay.host] The newest answer counts, not one before it.
TEST(RequesterWaits, AreThoseOfTheAnswer) {
  const congestion::Environment environment{
      .settings = congestion::DefaultsOf(congestion::Profile::kDelay)};
  Script script{{.selective_repeat = true, .agreed = true, .congestion = &environment}};
  script.At(0).Post(Write(8)).Sends({"WRITE_ONLY psn=000100 len=8 ackreq"});
  script.At(70'000).Receive("ACK psn=000100 msn=1 waited=40000").Completes({"0 WRITE SUCCESS"});
  script.Post(Write(8)).Sends({"WRITE_ONLY psn=000101 len=8 ackreq"});
  script.At(80'000).Receive("ACK psn=000101 msn=2").Completes({"1 WRITE SUCCESS"});
  EXPECT_EQ(script.qp().window().delay()->delay(), Nanos(10'000));
}

/// The host_delay of what a queue pair sends after `arrival`, 50 us after which its thread ran.
uint8_t ToldBy(bool agreed, const std::string& arrival) {
  RcConfig config{.selective_repeat = true};
  const congestion::Environment environment{.host_delay = Nanos(50'000)};
  config.congestion = &environment;
  RcQueuePair qp(config);
  QueuePairAttributes attributes;
  attributes.path_mtu_bytes = 1024;
  attributes.sq_psn = wire::Psn(0x100);
  attributes.rq_psn = wire::Psn(0x200);
  attributes.remote_write = true;
  attributes.selective_repeat = agreed;
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    qp.Modify(state, attributes);
  }
  if (arrival.empty()) {
    EXPECT_EQ(qp.Post(Write(8)), PostResult::kPosted);
  } else {
    Effect effect;
    EXPECT_EQ(qp.OnPacket(PacketOf(arrival, wire::Service::kRc), Nanos(1), effect),
              PacketResult::kAccepted);
  }
  TxPacket packet;
  EXPECT_TRUE(qp.PollPacket(Nanos(1), packet));
  return packet.header.host_delay;
}

// [cc.delay.host] Answers to a peer that has agreed tell; nothing else does.
TEST(ResponderWaits, AreToldInAnswers) {
  const std::string write = "WRITE_ONLY psn=000200 len=0 total=0 va=0 rkey=1 ackreq";
  EXPECT_EQ(ToldBy(true, write), wire::HostDelayCode(Nanos(50'000)));
  EXPECT_NE(ToldBy(true, write), 0);
  EXPECT_EQ(ToldBy(false, write), 0);
  EXPECT_EQ(ToldBy(true, ""), 0) << "a request";
}

}  // namespace
}  // namespace uroce::transport
