// SPDX-License-Identifier: Apache-2.0
// Completions that go from one thread to another, each after the one before it was polled: if a
// wake-up is lost, both wait without end.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

#include "pipeline/shm/rings/completion_queue.h"

namespace uroce::rings {

/// The worker calls `on_pushed()` after each CQE. The program calls `announce()` before each,
/// polls, and waits by `await(what announce returned)` when there is none.
template <typename OnPushed, typename Announce, typename Await>
void PassOneByOne(OnPushed on_pushed, Announce announce, Await await) {
  constexpr uint64_t kRounds = 5'000;
  uroce_cqe entries[4] = {};
  uroce_cq_ring_page ring_page{};
  const CqeRingLayout layout{&ring_page, entries, 4};
  uint64_t polled = 0;
  std::thread worker([&] {
    CqeProducer producer(layout);
    for (uint64_t i = 0; i < kRounds; ++i) {
      while (LoadAcquire(polled) != i) std::this_thread::yield();
      ASSERT_EQ(producer.Push(uroce_cqe{.wr_id = i}), PushResult::kOk);
      on_pushed();
    }
  });
  CqeConsumer consumer(layout);
  for (uint64_t i = 0; i < kRounds; ++i) {
    const uint32_t before = announce();
    while (consumer.Peek() == nullptr) await(before);
    consumer.Advance();
    consumer.Publish();
    StoreRelease(polled, i + 1);
  }
  worker.join();
  SUCCEED();
}

}  // namespace uroce::rings
