// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/thread/scheduling.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace uroce::datapath {
namespace {

constexpr int64_t kSlotNs = 8192;

TEST(TimerWheelTest, NeverFiresBeforeTheDeadlineAndAtMostOneSlotAfter) {
  TimerWheel wheel(Nanos(1'000'000'007));
  for (const int64_t wait :
       std::initializer_list<int64_t>{1, 10'000, 8192, 67'108'864, 4'000'000'000}) {
    TimerEntry entry;
    const int64_t start = 1'000'000'007;
    wheel.File(entry, Nanos(start + wait));
    EXPECT_LE(wheel.NextDeadline().count(), start + wait + kSlotNs);
    wheel.Remove(entry);
    EXPECT_EQ(wheel.NextDeadline(), kNever);
  }
  TimerEntry entry;
  wheel.File(entry, Nanos(1'000'010'007));
  EXPECT_EQ(wheel.PopExpired(Nanos(1'000'010'006)), nullptr);
  EXPECT_EQ(wheel.PopExpired(Nanos(1'000'010'007 + kSlotNs)), &entry);
  EXPECT_FALSE(entry.filed());
}

TEST(TimerWheelTest, PastDeadlineIsDueAtOnce) {
  TimerWheel wheel(Nanos(1'000'000));
  TimerEntry entry;
  wheel.File(entry, Nanos(5));
  EXPECT_EQ(wheel.NextDeadline(), Nanos(0));
  EXPECT_EQ(wheel.PopExpired(Nanos(1'000'000)), &entry);
  EXPECT_EQ(wheel.PopExpired(Nanos(1'000'000)), nullptr);
}

TEST(TimerWheelTest, RefilingMovesTheOneEntry) {
  TimerWheel wheel(Nanos(0));
  TimerEntry entry;
  wheel.File(entry, Nanos(100'000));
  wheel.File(entry, Nanos(900'000'000));
  EXPECT_EQ(wheel.PopExpired(Nanos(200'000)), nullptr);
  EXPECT_EQ(wheel.PopExpired(Nanos(900'000'000 + kSlotNs)), &entry);
  EXPECT_EQ(wheel.PopExpired(Nanos(2'000'000'000)), nullptr);
}

// All entries against a plain list, over random deadlines of all magnitudes, removals and sleeps.
TEST(TimerWheelTest, AgreesWithAListOfDeadlines) {
  std::mt19937_64 random(7);
  std::vector<TimerEntry> entries(300);
  int64_t now = 5'000'000'000;
  TimerWheel wheel{Nanos(now)};
  for (int step = 0; step < 20'000; ++step) {
    TimerEntry& entry = entries[random() % entries.size()];
    if (random() % 4 == 0) {
      wheel.Remove(entry);
    } else {
      wheel.File(entry,
                 Nanos(now + static_cast<int64_t>(random() % (int64_t{1} << random() % 40))));
    }
    now += static_cast<int64_t>(random() % (int64_t{1} << random() % 32));
    while (TimerEntry* expired = wheel.PopExpired(Nanos(now))) EXPECT_FALSE(expired->filed());
    int64_t earliest = INT64_MAX;
    for (const TimerEntry& other : entries) {
      if (!other.filed()) continue;
      earliest = std::min(earliest, other.deadline.count());
      ASSERT_GT(other.deadline.count() + kSlotNs, now) << "overdue at step " << step;
    }
    if (earliest == INT64_MAX) continue;
    ASSERT_LE(wheel.NextDeadline().count(), earliest + kSlotNs);
  }
}

TEST(TimerWheelTest, PoppedEntriesWereNeverEarly) {
  std::mt19937_64 random(11);
  std::vector<TimerEntry> entries(100);
  std::vector<int64_t> deadlines(entries.size());
  int64_t now = 0;
  TimerWheel wheel{Nanos(0)};
  int fired = 0;
  for (int step = 0; step < 50'000; ++step) {
    const size_t i = random() % entries.size();
    if (!entries[i].filed()) {
      deadlines[i] = now + static_cast<int64_t>(random() % 1'000'000);
      wheel.File(entries[i], Nanos(deadlines[i]));
    }
    now += static_cast<int64_t>(random() % 3'000);
    while (TimerEntry* expired = wheel.PopExpired(Nanos(now))) {
      ASSERT_GE(now, deadlines[static_cast<size_t>(expired - entries.data())]);
      ++fired;
    }
  }
  EXPECT_GT(fired, 1000);
}

}  // namespace
}  // namespace uroce::datapath
