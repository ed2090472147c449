// SPDX-License-Identifier: Apache-2.0
#include "tests/datapath/step_watch.h"

#include <x86intrin.h>

#include <csignal>
#include <cstring>
#include <random>

namespace uroce::datapath {
namespace {

constexpr unsigned long long kTrapFlag = 0x100;

StepWatch* running = nullptr;

/// Runs `copy` with the trap flag set, and SIGTRAP for `handler`.
void RunByStep(void (*handler)(int), const StepWatch::Copy& copy, uint8_t* to, const uint8_t* from,
               size_t length_bytes) {
  struct sigaction action {};
  struct sigaction former {};
  action.sa_handler = handler;
  sigaction(SIGTRAP, &action, &former);
  __writeeflags(__readeflags() | kTrapFlag);
  copy(to, from, length_bytes);
  __writeeflags(__readeflags() & ~kTrapFlag);
  sigaction(SIGTRAP, &former, nullptr);
}

}  // namespace

StepWatch::StepWatch(size_t to_offset, size_t from_offset, size_t length_bytes)
    : length_(length_bytes),
      begin_(kMargin + to_offset),
      memory_(begin_ + length_bytes + 2 * kMargin),
      old_(begin_ + length_bytes + kMargin),
      new_(old_.size()),
      source_(from_offset + length_bytes),
      from_offset_(from_offset) {
  std::minstd_rand random(static_cast<unsigned>(length_bytes));
  for (size_t i = 0; i < old_.size(); ++i) {
    old_[i] = static_cast<uint8_t>(random() >> 8);
    new_[i] = static_cast<uint8_t>(~old_[i]);
  }
  if (length_bytes != 0) memcpy(source_.data() + from_offset, &new_[begin_], length_bytes);
  base_ = memory_.data() + (-reinterpret_cast<uintptr_t>(memory_.data())) % kMargin;
}

StepWatch::Fault StepWatch::Run(const Copy& copy) {
  memcpy(base_, old_.data(), old_.size());
  seen_ = 0;
  fault_ = Fault::kNone;
  running = this;
  RunByStep(OnTrap, copy, to(), source_.data() + from_offset_, length_);
  running = nullptr;
  if (fault_ == Fault::kNone && seen_ != length_) fault_ = Fault::kUnequal;
  return fault_;
}

void StepWatch::OnTrap(int) {
  if (running->fault_ == Fault::kNone) running->Look();
}

void StepWatch::Look() {
  while (seen_ < length_ && base_[begin_ + seen_] == new_[begin_ + seen_]) ++seen_;
  const size_t end = begin_ + seen_;
  if (memcmp(base_, old_.data(), begin_) != 0 ||
      memcmp(base_ + begin_, &new_[begin_], seen_) != 0 ||
      memcmp(base_ + end, &old_[end], old_.size() - end) != 0) {
    fault_ = Fault::kOrder;
  } else if (IsTorn()) {
    fault_ = Fault::kTorn;
  }
}

/// Whether the last new byte and the first old one are in one aligned piece that is all copied.
bool StepWatch::IsTorn() const {
  const size_t piece = (begin_ + seen_) & ~size_t{7};
  return piece != begin_ + seen_ && piece >= begin_ && piece + 8 <= begin_ + length_;
}

}  // namespace uroce::datapath
