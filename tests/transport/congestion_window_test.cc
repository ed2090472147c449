// SPDX-License-Identifier: Apache-2.0
// How far a requester goes ahead (pipeline/transport/congestion_window.h).
#include "pipeline/transport/congestion_window.h"

#include <gtest/gtest.h>

#include <iomanip>
#include <sstream>

#include "tests/transport/selective_script.h"

namespace uroce::transport {
namespace {

// [sr.flight]
TEST(CongestionWindow, GrowsWhileItIsUsed) {
  CongestionWindow window(256);
  window.OnRound(128);
  EXPECT_EQ(window.packets(), 256u);
  window.OnRound(129);
  EXPECT_EQ(window.packets(), 512u);
  for (int i = 0; i < 3; ++i) window.OnRound(window.packets());
  EXPECT_EQ(window.packets(), CongestionWindow::kMostPackets);
}

// [sr.flight] Single losses change nothing; more than one packet in eight is too much.
TEST(CongestionWindow, ShrinksWhereMuchIsLostAndGrowsSlowlyFromThenOn) {
  CongestionWindow window(256);
  for (int i = 0; i < 2; ++i) window.OnRound(window.packets());
  window.OnLost(128);
  window.OnRound(1024);
  EXPECT_EQ(window.packets(), 2048u);
  window.OnLost(257);
  window.OnRound(2048);
  EXPECT_EQ(window.packets(), 1024u);
  window.OnRound(1024);
  EXPECT_EQ(window.packets(), 1040u);
  for (int i = 0; i < 3; ++i) {
    window.OnLost(200);
    window.OnRound(0);
  }
  EXPECT_EQ(window.packets(), 256u) << "never below that of go-back-N";
}

// [3.1.5.narrow] Go-back-N: half each time, not below eight, and slowly back to where it began.
TEST(CongestionWindow, GoingBackNarrowsItAndAcknowledgementsWidenIt) {
  CongestionWindow window(64);
  window.OnAcknowledged(1000);
  EXPECT_EQ(window.packets(), 64u);
  window.OnGoBack();
  EXPECT_EQ(window.packets(), 32u);
  for (int i = 0; i < 5; ++i) window.OnGoBack();
  EXPECT_EQ(window.packets(), 8u);
  window.OnAcknowledged(7);
  EXPECT_EQ(window.packets(), 8u);
  window.OnAcknowledged(1);
  EXPECT_EQ(window.packets(), 24u);
  for (int i = 0; i < 10; ++i) window.OnAcknowledged(64);
  EXPECT_EQ(window.packets(), 64u);
  CongestionWindow narrow(4);
  narrow.OnGoBack();
  EXPECT_EQ(narrow.packets(), 4u);
}

// [sr.flight] A window that begins wider stays as it is.
TEST(CongestionWindow, AWideOneStays) {
  CongestionWindow window(4096);
  window.OnRound(4096);
  EXPECT_EQ(window.packets(), 4096u);
}

// [sr.flight 3.1.5.window] In a requester: two packets, then, once a round has come back, four; the
// one at the bound asks for an ACK.
TEST(CongestionWindow, ARequesterSendsMoreOnceItsPeerIsKnown) {
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

// [sr.flight sr.standard] With a responder of another make it stays as it is.
TEST(CongestionWindow, ARequesterSendsNoMoreToAnotherMake) {
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
TEST(CongestionWindow, ARequesterThatGoesBackSendsHalfAtOnce) {
  ScriptConfig config;
  config.path_mtu = 256;
  config.max_in_flight_packets = 16;
  Script s(config);
  s.Post(Write(256 * 20));
  s.Sends(FirstOfAWrite(16));
  s.Receive("NAK_SEQ psn=000100 msn=0");
  s.Sends(FirstOfAWrite(8));
}

}  // namespace
}  // namespace uroce::transport
