// SPDX-License-Identifier: Apache-2.0
// How a thread waits that finds nothing to do: when it polls on, yields or sleeps. Freestanding:
// liburoce.so uses it.
#pragma once

#include <cstdint>

#include "pipeline/base/cpu.h"

namespace uroce {

enum class IdleStep : uint8_t { kPoll, kYield, kSleep };

/// An idle thread polls, then yields, then sleeps. That costs others on the same core least, and a
/// waiting program next to nothing (measured: 80 ns one way against 4 ms without the yield).
/// Where other threads want the core (cpu::Contention), it polls and then sleeps at once. Measured
/// with 16 ready threads on two processors: a WRITE took 9 ms with yields, and 30 us without.
/// Times are in ns of any clock. Pure. One thread.
class SpinPolicy {
 public:
  static constexpr uint32_t kPollsBeforeYield = 16;

  /// The thread has done something, until `now_ns`.
  void BeginWait(int64_t now_ns) {
    empty_looks_ = 0;
    idle_since_ns_ = now_ns;
  }

  /// What to do after a look at `now_ns`, which has `found` something to do or not. A thread that
  /// has found nothing for `spin_ns` is to sleep: again at once, if it is woken for nothing.
  IdleStep AfterLook(bool found, int64_t now_ns, int64_t spin_ns) {
    if (has_yielded_) contention_.OnYield(now_ns - yielded_at_ns_, now_ns);
    has_yielded_ = false;
    if (found) {
      BeginWait(now_ns);
      return IdleStep::kPoll;
    }
    if (now_ns - idle_since_ns_ > spin_ns) return IdleStep::kSleep;
    if (++empty_looks_ <= kPollsBeforeYield) return IdleStep::kPoll;
    if (!contention_.MayYield(now_ns)) return IdleStep::kSleep;
    has_yielded_ = true;
    yielded_at_ns_ = now_ns;
    return IdleStep::kYield;
  }

  int64_t idle_since_ns() const { return idle_since_ns_; }

 private:
  int64_t idle_since_ns_ = 0;
  int64_t yielded_at_ns_ = 0;  ///< The look before the last yield.
  bool has_yielded_ = false;
  uint32_t empty_looks_ = 0;
  cpu::Contention contention_;
};

}  // namespace uroce
