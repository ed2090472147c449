// SPDX-License-Identifier: Apache-2.0
// The kinds of objects that are counted per program and per user: their names, their limits, and
// where programs read the limits. One row per kind. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

enum class Kind : uint8_t { kSegment, kMr, kMrPart, kMw, kCq, kQp, kAh, kSrq, kXrcd };

/// The limits of a kind.
struct KindLimits {
  uint32_t of_program = 0;
  uint32_t of_user = 0;  ///< Of all programs of one user.
};

struct KindRow {
  Kind kind;
  const char* name;     ///< In messages.
  const char* setting;  ///< The limits are set by max_SETTING and max_SETTING_per_user.
  const char* plural;   ///< In the help of these settings.
  KindLimits limits;    ///< Defaults.
  KindLimits most;      ///< The highest limits that can be set.
  uint32_t uroce_device_info::*info = nullptr;  ///< The field of the program's limit, or null.
};

inline constexpr KindRow kKinds[] = {
    {Kind::kSegment,
     "segment",
     "segments",
     "swapped memory ranges",
     {1 << 14, 1 << 14},
     {1 << 20, 1 << 24}},
    {Kind::kMr,
     "mr",
     "mr",
     "memory regions",
     {1 << 16, 1 << 17},
     {1 << 20, 1 << 24},
     &uroce_device_info::max_mr},
    {Kind::kMrPart,
     "mr part",
     "mr_parts",
     "parts of all memory regions",
     {1 << 17, 1 << 18},
     {1 << 24, 1 << 24}},
    {Kind::kMw,
     "mw",
     "mw",
     "memory windows",
     {1 << 16, 1 << 17},
     {1 << 20, 1 << 24},
     &uroce_device_info::max_mw},
    {Kind::kCq,
     "cq",
     "cq",
     "completion queues",
     {1 << 14, 1 << 15},
     {1 << 20, 1 << 24},
     &uroce_device_info::max_cq},
    {Kind::kQp,
     "qp",
     "qp",
     "queue pairs",
     {1 << 14, 1 << 15},
     {1 << 20, 1 << 24},
     &uroce_device_info::max_qp},
    {Kind::kAh,
     "ah",
     "ah",
     "address handles",
     {32767, 1 << 17},
     {1 << 20, 1 << 24},
     &uroce_device_info::max_ah},
    {Kind::kSrq,
     "srq",
     "srq",
     "shared receive queues",
     {1 << 12, 1 << 14},
     {1 << 20, 1 << 24},
     &uroce_device_info::max_srq},
    {Kind::kXrcd, "xrcd", "xrcd", "XRC domains", {64, 512}, {1 << 16, 1 << 20}},
};
inline constexpr size_t kKindCount = std::size(kKinds);

constexpr const KindRow& RowOf(Kind kind) { return kKinds[static_cast<size_t>(kind)]; }

constexpr bool IsEachRowAtItsKind() {
  for (const KindRow& row : kKinds) {
    if (&RowOf(row.kind) != &row) return false;
  }
  return true;
}
static_assert(IsEachRowAtItsKind());

/// The limits of all kinds; initially the defaults of the table.
class LimitsOfKinds {
 public:
  constexpr LimitsOfKinds() {
    for (const KindRow& row : kKinds) of(row.kind) = row.limits;
  }
  constexpr KindLimits& of(Kind kind) { return limits_[static_cast<size_t>(kind)]; }
  constexpr const KindLimits& of(Kind kind) const { return limits_[static_cast<size_t>(kind)]; }

 private:
  std::array<KindLimits, kKindCount> limits_{};
};

}  // namespace uroce::nic
