// SPDX-License-Identifier: Apache-2.0
// Where copies of the payload of requests lie in a ring of bytes, and how long. Pure.
#pragma once

#include <stdint.h>

#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::shim {

/// Gives contiguous bytes of a ring to requests, which end in the order in which they come.
/// Requests have free-running numbers.
class CopyRing {
 public:
  /// The bytes of one request.
  struct Copy {
    uint32_t request;
    uint32_t begin;
    uint32_t end;
  };

  CopyRing() = default;
  /// `copies` has room for `most_requests`, a power of two, under way at a time.
  CopyRing(uint32_t bytes, Copy* copies, uint32_t most_requests)
      : bytes_(bytes), mask_(most_requests - 1), copies_(copies) {}

  /// Sets where the `bytes` bytes of `request` lie, which stay until the request is forgotten.
  /// False: they have no room.
  bool Add(uint32_t request, uint32_t bytes, uint32_t* begin);
  /// Forgets the requests before `request`.
  void Forget(uint32_t request);
  /// Forgets the newest requests, from `request` on.
  void TakeBack(uint32_t request);

  uint32_t bytes() const { return bytes_; }
  Copy* copies() const { return copies_; }

 private:
  bool FindRoom(uint32_t bytes, uint32_t* begin);
  bool empty() const { return first_ == next_; }

  uint32_t bytes_ = 0;
  /// The part, from the begin on, that is used until all of it is in use: few requests under way
  /// use few pages.
  uint32_t used_bytes_ = 64 << 10;
  uint32_t mask_ = 0;
  Copy* copies_ = nullptr;
  uint32_t first_ = 0;  ///< Free-running indices of `copies_`.
  uint32_t next_ = 0;
};

inline void CopyRing::Forget(uint32_t request) {
  while (!empty()) {
    const uint32_t behind = request - copies_[first_ & mask_].request;
    if (behind == 0 || behind > UINT32_MAX / 2) return;
    ++first_;
  }
}

inline void CopyRing::TakeBack(uint32_t request) {
  while (!empty() && copies_[(next_ - 1) & mask_].request - request <= UINT32_MAX / 2) --next_;
}

inline bool CopyRing::FindRoom(uint32_t bytes, uint32_t* begin) {
  const uint32_t from = empty() ? 0 : copies_[first_ & mask_].begin;
  const uint32_t to = empty() ? 0 : copies_[(next_ - 1) & mask_].end;
  *begin = to;
  if (!empty() && to <= from) {  // What is in use goes round the end.
    if (bytes <= from - to) return true;
    if (used_bytes_ < bytes_) used_bytes_ *= 2;
    return false;
  }
  if (bytes <= used_bytes_ - to) return true;
  if (bytes <= from) {
    *begin = 0;
    return true;
  }
  if (bytes > bytes_ - to) return false;
  while (used_bytes_ - to < bytes) used_bytes_ *= 2;
  return true;
}

inline bool CopyRing::Add(uint32_t request, uint32_t bytes, uint32_t* begin) {
  constexpr uint32_t kLine = UROCE_LINE;
  const uint32_t whole = (bytes + kLine - 1) / kLine * kLine;
  if (next_ - first_ > mask_ || !FindRoom(whole, begin)) return false;
  copies_[next_++ & mask_] = {request, *begin, *begin + whole};
  return true;
}

}  // namespace uroce::shim
