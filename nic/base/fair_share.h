// SPDX-License-Identifier: Apache-2.0
// Divides a number of places among users, so that no user can take all of them. Pure.
#pragma once

#include <cstdint>
#include <map>

namespace uroce {

/// A holder gets another place while it has fewer than twice as many as are left. So a single
/// holder gets two thirds of all, several greedy holders get equal shares, and a later one finds
/// some left (Choudhury and Hahne's dynamic thresholds for packet buffers).
template <typename Holder>
class FairShare {
 public:
  explicit FairShare(uint32_t places) : left_(places) {}

  /// False: the holder has enough, or none is left.
  bool Take(const Holder& holder) {
    const uint32_t held = HeldBy(holder);
    if (held >= uint64_t{2} * left_) return false;
    held_[holder] = held + 1;
    --left_;
    return true;
  }
  /// Range: the holder has taken one.
  void Return(const Holder& holder) {
    const auto found = held_.find(holder);
    ++left_;
    if (--found->second == 0) held_.erase(found);
  }
  uint32_t HeldBy(const Holder& holder) const {
    const auto found = held_.find(holder);
    return found == held_.end() ? 0 : found->second;
  }

 private:
  uint32_t left_;
  std::map<Holder, uint32_t> held_;
};

}  // namespace uroce
