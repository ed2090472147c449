// SPDX-License-Identifier: Apache-2.0
#include "nic/control/segment_list.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace uroce::nic {
namespace {

absl::Status Refuse(uint64_t count, size_t bytes, size_t before) {
  return absl::InvalidArgumentError(
      absl::StrCat("mr: ", count, " segments in ", bytes, " bytes, behind ", before));
}

void Append(std::span<const uint8_t> bytes, std::vector<uroce_mr_segment>& segments) {
  const size_t before = segments.size();
  segments.resize(before + bytes.size() / sizeof(uroce_mr_segment));
  if (!bytes.empty()) std::memcpy(segments.data() + before, bytes.data(), bytes.size());
}

}  // namespace

absl::Status SegmentList::Add(uint32_t first, uint32_t count, std::span<const uint8_t> bytes) {
  if (first == 0) collected_.clear();
  const bool fits = collected_.size() + count <= UROCE_MAX_MR_PARTS;
  if (first != collected_.size() || !fits || bytes.size() != count * sizeof(uroce_mr_segment)) {
    return Refuse(count, bytes.size(), collected_.size());
  }
  Append(bytes, collected_);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uroce_mr_segment>> SegmentList::Take(uint32_t count,
                                                                std::span<const uint8_t> bytes) {
  const size_t here = bytes.size() / sizeof(uroce_mr_segment);
  const bool is_all = count == here;
  const size_t before = is_all ? 0 : collected_.size();
  if (bytes.size() % sizeof(uroce_mr_segment) != 0 || count != before + here ||
      count > UROCE_MAX_MR_PARTS) {
    return Refuse(count, bytes.size(), before);
  }
  std::vector<uroce_mr_segment> segments;
  if (!is_all) segments = std::exchange(collected_, {});
  Append(bytes, segments);
  return segments;
}

}  // namespace uroce::nic
