// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/thread/scheduling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace uroce::datapath {
namespace {

constexpr Nanos kBegin{1'000'000'000};
constexpr Nanos kSecond{1'000'000'000};

struct RatedSender {
  RateShare share;
  uint32_t packet_bytes;
  uint64_t sent_bytes = 0;
};

/// Lets `senders` send whenever they may, for `duration`, with a turn every `turn`.
void SendFor(std::vector<RatedSender>& senders, Nanos duration, Nanos turn,
             int packets_a_turn = 64) {
  for (Nanos now = kBegin; now < kBegin + duration; now = now + turn) {
    for (RatedSender& sender : senders) {
      for (int i = 0; i < packets_a_turn && sender.share.MaySend(now); ++i) {
        sender.share.OnSent(sender.packet_bytes);
        sender.sent_bytes += sender.packet_bytes;
      }
    }
  }
}

uint64_t SumOf(const std::vector<RatedSender>& senders) {
  uint64_t sum = 0;
  for (const RatedSender& sender : senders) sum += sender.sent_bytes;
  return sum;
}

TEST(SharedRateTest, ARateChangesAndEndsWhileItsSendersStay) {
  SharedRate rate(0);
  RateShare share(&rate);
  EXPECT_FALSE(share.is_limited());
  Nanos now = kBegin;
  for (const uint64_t bps : {8'000'000ull, 80'000'000ull, 8'000'000ull}) {
    rate.Set(bps);
    EXPECT_TRUE(share.is_limited());
    uint64_t sent_bytes = 0;
    for (const Nanos end = now + kSecond; now < end; now = now + Nanos(50'000)) {
      for (int i = 0; i < 64 && share.MaySend(now); ++i, sent_bytes += 1000) share.OnSent(1000);
    }
    EXPECT_NEAR(static_cast<double>(sent_bytes) * 8 / static_cast<double>(bps), 1, 0.15) << bps;
  }
  rate.Set(0);
  EXPECT_FALSE(share.is_limited());
}

// [cc.limit.rate] The senders of a limit keep it together, from 10 Mb/s to 20 Gb/s, whatever their
// packets are, and share it by bytes.
TEST(SharedRateTest, SendersKeepTheRateTogether) {
  for (const uint64_t bps : {10'000'000ull, 1'000'000'000ull, 20'000'000'000ull}) {
    for (const size_t count : {1, 2, 5}) {
      SharedRate rate(bps);
      std::vector<RatedSender> senders;
      const std::array<uint32_t, 5> sizes = {4200, 98, 1100, 4200, 300};
      for (size_t i = 0; i < count; ++i) senders.push_back({RateShare(&rate), sizes[i]});
      const auto seconds = bps > 1'000'000'000 ? 0.05 : 4.0;
      const Nanos duration(static_cast<int64_t>(seconds * 1e9));
      SendFor(senders, duration, Nanos(bps > 1'000'000'000 ? 5'000 : 50'000), 512);
      const double wanted = static_cast<double>(bps) / 8 * seconds;
      EXPECT_NEAR(static_cast<double>(SumOf(senders)) / wanted, 1, 0.01) << bps << " " << count;
      for (const RatedSender& sender : senders) {
        EXPECT_NEAR(static_cast<double>(sender.sent_bytes) / (wanted / static_cast<double>(count)),
                    1, 0.03)
            << bps << " " << count << " " << sender.packet_bytes;
      }
    }
  }
}

// [cc.limit.idle] A sender that has nothing to send takes nothing from the others.
TEST(SharedRateTest, WhoIsIdleTakesNothing) {
  SharedRate rate(1'000'000'000);
  RateShare idle(&rate);
  ASSERT_TRUE(idle.MaySend(kBegin));
  idle.OnSent(100);
  std::vector<RatedSender> senders = {{RateShare(&rate), 4200}};
  SendFor(senders, kSecond, Nanos(10'000));
  EXPECT_NEAR(static_cast<double>(SumOf(senders)) / 125e6, 1, 0.01);
}

// [cc.limit.burst] After a pause of any length a burst of 32 packets of 4 KB leaves at once.
TEST(SharedRateTest, APauseBuysABurst) {
  for (const uint64_t bps : {1'000'000ull, 1'000'000'000ull, 100'000'000'000ull}) {
    SharedRate rate(bps);
    RatedSender sender{RateShare(&rate), 4200};
    const Nanos now = kBegin + kSecond * 1000;
    while (sender.share.MaySend(now)) {
      sender.share.OnSent(sender.packet_bytes);
      sender.sent_bytes += sender.packet_bytes;
    }
    EXPECT_GE(sender.sent_bytes, 4200u);
    EXPECT_LE(sender.sent_bytes, 32u * 4096 + 2 * 4200) << bps;
    EXPECT_GT(sender.share.next_send(), now);
  }
}

// [cc.limit.burst] Each of many senders waits for the time of its ticket: together they send no
// more at once than one does.
TEST(SharedRateTest, ABurstIsThatOfAllSenders) {
  SharedRate rate(1'000'000'000);
  std::vector<RatedSender> senders;
  for (int i = 0; i < 64; ++i) senders.push_back({RateShare(&rate), 4200});
  const Nanos now = kBegin + kSecond;
  for (RatedSender& sender : senders) {
    while (sender.share.MaySend(now)) {
      sender.share.OnSent(sender.packet_bytes);
      sender.sent_bytes += sender.packet_bytes;
    }
  }
  EXPECT_LE(SumOf(senders), 32u * 4096 + 2 * 4200);
}

// [cc.limit.rate] A slow sender waits once for each long packet, and so its worker wakes up once.
TEST(SharedRateTest, APacketWaitsOnce) {
  SharedRate rate(1'000'000);
  RateShare share(&rate);
  Nanos now = kBegin;
  int waits = 0;
  for (int packets = 0; packets < 100; ++packets) {
    for (; !share.MaySend(now); ++waits) now = share.next_send();
    share.OnSent(4200);
  }
  EXPECT_LE(waits, 100);
  EXPECT_GE(now - kBegin, Nanos(3'200'000'000)) << "420 KB at 1 Mb/s, but for the first burst";
}

// [cc.limit.late] A worker that looks every 100 us keeps a rate of 5 Gb/s, of which 100 us are less
// than a burst.
TEST(SharedRateTest, LateTurnsCostNoRate) {
  SharedRate rate(5'000'000'000);
  std::vector<RatedSender> senders = {{RateShare(&rate), 4200}};
  SendFor(senders, kSecond, Nanos(100'000));
  EXPECT_NEAR(static_cast<double>(SumOf(senders)) / 625e6, 1, 0.01);
}

// [cc.limit.ack] What does not wait counts, and so data waits for longer; but not without limit.
TEST(SharedRateTest, WhatDoesNotWaitCounts) {
  SharedRate rate(100'000'000);
  RateShare share(&rate);
  while (share.MaySend(kBegin)) share.OnSent(1'000);
  Nanos now = share.next_send();
  share.OnSent(12'500);  // A millisecond, less what the ticket holds.
  while (!share.MaySend(now)) now = now + Nanos(1'000);
  EXPECT_GE(now - kBegin, Nanos(700'000));
  for (int i = 0; i < 1000; ++i) share.OnSent(1'000'000);
  const Nanos before = now;
  while (!share.MaySend(now)) now = now + Nanos(1'000);
  EXPECT_LE(now - before, Nanos(8'000'000)) << "64 KB are remembered";
}

// Two threads take tickets at once: none is given twice.
TEST(SharedRateTest, TicketsOfThreadsDoNotOverlap) {
  constexpr int kTickets = 100'000;
  SharedRate rate(8'000'000'000);
  const auto take = [&](std::vector<Nanos>& tickets) {
    for (int i = 0; i < kTickets; ++i) tickets.push_back(rate.TakeTicket(kBegin));
  };
  std::vector<Nanos> a, b;
  std::thread other([&] { take(b); });
  take(a);
  other.join();
  a.insert(a.end(), b.begin(), b.end());
  std::ranges::sort(a);
  for (size_t i = 1; i < a.size(); ++i) ASSERT_EQ(a[i] - a[i - 1], Nanos(16'384)) << i;
}

}  // namespace
}  // namespace uroce::datapath
