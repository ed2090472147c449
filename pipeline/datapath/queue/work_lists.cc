// SPDX-License-Identifier: Apache-2.0
// Stores lists by slot.
#include "pipeline/datapath/queue/work_lists.h"

#include <algorithm>
#include <cstring>

namespace uroce::datapath {
namespace {

uint32_t Stride(const rings::WqeLimits& limits) {
  constexpr uint32_t kSgeBytes = sizeof(uroce_sge);
  constexpr uint32_t kBindBytes = sizeof(BindRequest);
  const uint32_t bytes =
      std::max({limits.max_sge * kSgeBytes, limits.max_inline_bytes, kBindBytes});
  return (bytes + kSgeBytes - 1) / kSgeBytes * kSgeBytes;  // This keeps every list aligned.
}

}  // namespace

SendLists::SendLists(uint32_t held_works, const rings::WqeLimits& limits)
    : mask_(held_works - 1),
      stride_(Stride(limits)),
      entries_(std::make_unique<Entry[]>(held_works)),
      bytes_(std::make_unique<uint8_t[]>(size_t{held_works} * stride_)) {}

void SendLists::Store(uint32_t slot, const rings::SendWqe& wqe) {
  Entry& entry = entries_[slot & mask_];
  if (wqe.is_inline()) {
    entry = {.num_sge = 0, .inline_length = static_cast<uint16_t>(wqe.header.inline_length)};
    memcpy(Place(slot), wqe.inline_data, wqe.header.inline_length);
    return;
  }
  entry = {.num_sge = wqe.header.num_sge, .inline_length = 0};
  memcpy(Place(slot), wqe.sges, wqe.header.num_sge * sizeof(uroce_sge));
}

std::span<const uroce_sge> SendLists::List(uint32_t slot) const {
  return {reinterpret_cast<const uroce_sge*>(Place(slot)), entries_[slot & mask_].num_sge};
}

std::span<const uint8_t> SendLists::InlineBytes(uint32_t slot) const {
  return {Place(slot), entries_[slot & mask_].inline_length};
}

void SendLists::StoreBind(uint32_t slot, const BindRequest& request) {
  StoreNothing(slot);
  memcpy(Place(slot), &request, sizeof(request));
}

BindRequest SendLists::Bind(uint32_t slot) const {
  BindRequest request;
  memcpy(&request, Place(slot), sizeof(request));
  return request;
}

void ReceiveList::Store(uint32_t slot, std::span<const uroce_sge> list) {
  slot_ = slot;
  count_ = static_cast<uint32_t>(list.size());
  std::ranges::copy(list, list_.get());
}

}  // namespace uroce::datapath
