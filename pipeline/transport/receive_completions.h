// SPDX-License-Identifier: Apache-2.0
// Completions of the receive queue that wait for the shell's poll.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>

#include "pipeline/transport/work.h"

namespace uroce::transport {

/// The most receive completions that may wait. The shell polls after each burst; a message that
/// would need one more is refused as if there were no receive work.
inline constexpr uint32_t kMaxReceiveCompletions = 64;

/// First in, first out, of fixed size.
class ReceiveCompletions {
 public:
  uint32_t room() const { return kMaxReceiveCompletions - (tail_ - head_); }
  void Push(const Completion& completion) {
    assert(room() != 0);
    if (room() != 0) entries_[tail_++ % kMaxReceiveCompletions] = completion;
  }
  [[nodiscard]] bool Poll(Completion& completion) {
    if (head_ == tail_) return false;
    completion = entries_[head_++ % kMaxReceiveCompletions];
    return true;
  }
  void Clear() { head_ = tail_ = 0; }

 private:
  // In front of the entries, on a cache line that packets without a completion read anyway.
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  std::array<Completion, kMaxReceiveCompletions> entries_;
};

}  // namespace uroce::transport
