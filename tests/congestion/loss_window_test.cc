// SPDX-License-Identifier: Apache-2.0
// How far losses let a requester go ahead (pipeline/congestion/window.h).
#include "pipeline/congestion/window.h"

#include <gtest/gtest.h>

namespace uroce::congestion {
namespace {

// [sr.flight]
TEST(LossWindow, GrowsWhileItIsUsed) {
  LossWindow window(256);
  window.OnRound(128);
  EXPECT_EQ(window.packets(), 256u);
  window.OnRound(129);
  EXPECT_EQ(window.packets(), 512u);
  for (int i = 0; i < 3; ++i) window.OnRound(window.packets());
  EXPECT_EQ(window.packets(), LossWindow::kMostPackets);
}

// [sr.flight] Single losses change nothing; more than one packet in eight is too much.
TEST(LossWindow, ShrinksWhereMuchIsLostAndGrowsSlowlyFromThenOn) {
  LossWindow window(256);
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
TEST(LossWindow, GoingBackNarrowsItAndAcknowledgementsWidenIt) {
  LossWindow window(64);
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
  LossWindow narrow(4);
  narrow.OnGoBack();
  EXPECT_EQ(narrow.packets(), 4u);
}

// [sr.flight] A window that begins wider stays as it is.
TEST(LossWindow, AWideOneStays) {
  LossWindow window(4096);
  window.OnRound(4096);
  EXPECT_EQ(window.packets(), 4096u);
}

}  // namespace
}  // namespace uroce::congestion
