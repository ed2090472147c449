// SPDX-License-Identifier: Apache-2.0
// A registered region as workers see it: a list of segments, each reached in a way of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce::datapath {

class MemoryWindow;
class Session;

/// How the daemon reaches the bytes of a segment. A kNull segment has no bytes: it drops what is
/// written, and reads as zeros.
enum class MrMode : uint8_t { kMapped = 1, kCopied = 2, kNull = 3 };

/// The part [iova, iova + length) of a region. A region's segments are sorted and have no gaps.
struct MrSegment {
  uint64_t iova = 0;
  uint64_t length_bytes = 0;
  MrMode mode = MrMode::kMapped;
  uint8_t* mapped = nullptr;  ///< kMapped: where `iova` lies in the daemon.
  uint64_t app_addr = 0;      ///< Where `iova` lies in the application.
  // The fields below are for nic.
  bool is_own_file = false;      ///< kMapped: a file of the program's own.
  bool follows_address = false;  ///< Is or was copied: its bytes are those at app_addr.
  uint8_t reason = 0;            ///< kCopied: why (enum uroce_mr_reason).
};

/// Number of a protection domain that no queue pair is in.
inline constexpr uint32_t kNoPd = 0;

/// One memory region. Immutable once published in the KeyTable; unpublished, then freed after a
/// grace period (Worker::Run on each worker).
/// A memory window is a MemoryRegion of the table, too, under its key without the variant. It has
/// no domain, so it grants nothing by itself.
struct MemoryRegion {
  uint32_t key = 0;     ///< lkey and rkey.
  uint32_t pd = kNoPd;  ///< Daemon-wide number of the protection domain.
  uint32_t access = 0;  ///< IBV_ACCESS_* bits.
  uint64_t iova = 0;
  uint64_t length_bytes = 0;
  const Session* session = nullptr;  ///< The program that registered it, and that app_addr is of.
  MemoryWindow* window = nullptr;    ///< For a window: what it grants. Else null.
  std::vector<MrSegment> segments;
  std::vector<uint32_t> segment_handles;  ///< For nic: what the mapped segments were made from.
  /// Count of bound windows, or null. nic does not end a bound region; accesses ignore the count.
  std::atomic<uint32_t>* bound_windows = nullptr;
};

}  // namespace uroce::datapath
