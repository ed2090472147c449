// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/event_records.h"

#include <algorithm>

namespace uroce::datapath {

void EventRecords::Raise(uint32_t event_type) {
  if (!async_.is_open() || pending_count_ == kMaxPending) return;
  pending_[pending_count_++] = event_type;
  Retry();
}

void EventRecords::Retry() {
  uint32_t written = 0;
  while (written < pending_count_ && async_.Write(element_, pending_[written])) {
    ++written;
  }
  std::shift_left(pending_.begin(), pending_.begin() + pending_count_, written);
  pending_count_ -= written;
  written_ += written;
}

}  // namespace uroce::datapath
