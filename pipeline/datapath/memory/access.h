// SPDX-License-Identifier: Apache-2.0
// Finds the bytes that the keys and addresses of work requests and packets name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "pipeline/datapath/memory/key_table.h"
#include "pipeline/datapath/memory/memory_region.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::datapath {

/// Rights of a region. Values are those of ibv_access_flags; local reading needs none.
inline constexpr uint32_t kLocalRead = 0;
inline constexpr uint32_t kLocalWrite = 1;
inline constexpr uint32_t kRemoteWrite = 2;
inline constexpr uint32_t kRemoteRead = 4;
inline constexpr uint32_t kRemoteAtomic = 8;
inline constexpr uint32_t kWindowBind = 16;
inline constexpr uint32_t kZeroBased = 32;

/// Who makes an access, and what it needs.
struct AccessRight {
  uint32_t pd = kNoPd;
  uint32_t rights = kLocalRead;
  uint32_t qpn = 0;  ///< For windows of one queue pair; local accesses ignore it.
  /// The session whose helper makes the copies. Copied memory of other sessions is out of reach.
  const Session* session = nullptr;
};

/// The region that an access reaches, and the address in that region. False: access is denied.
struct Grant {
  const MemoryRegion* region = nullptr;
  uint64_t va = 0;
  explicit operator bool() const { return region != nullptr; }
};

/// Whether [va, va + length) lies in `region`.
inline bool Contains(const MemoryRegion& region, uint64_t va, uint64_t length_bytes) {
  const uint64_t offset = va - region.iova;  // Huge when va lies in front of the region.
  return offset <= region.length_bytes && length_bytes <= region.length_bytes - offset;
}

/// Does the same as CheckAccess, for the key of a window.
Grant CheckWindowAccess(const KeyTable& keys, uint32_t key, uint64_t va, uint64_t length_bytes,
                        const AccessRight& right);

/// Returns the region of `key`, if [va, va + length) lies in it and `right` is granted. Pointers
/// are valid for this turn of the worker.
inline Grant CheckAccess(const KeyTable& keys, uint32_t key, uint64_t va, uint64_t length_bytes,
                         const AccessRight& right) {
  const MemoryRegion* region = keys.Find(key);
  if (region == nullptr || region->pd != right.pd) [[unlikely]] {
    return CheckWindowAccess(keys, key, va, length_bytes, right);
  }
  if ((region->access & right.rights) != right.rights) return {};
  if (!Contains(*region, va, length_bytes)) return {};
  return {region, va};
}

/// Contiguous bytes of one segment.
struct Piece {
  MrMode mode = MrMode::kMapped;
  uint8_t* mapped = nullptr;  ///< kMapped; else null.
  uint64_t app_addr = 0;      ///< kCopied.
  uint32_t length_bytes = 0;
};

/// Does the same as PieceAt, for a region with several segments.
Piece PieceOfMany(const MemoryRegion& region, uint64_t va, uint32_t length_bytes);

/// Returns the bytes [va, va + length) as far as they lie in `segment`, which holds va.
inline Piece PieceOfSegment(const MrSegment& segment, uint64_t va, uint32_t length_bytes) {
  const uint64_t offset = va - segment.iova;
  return {.mode = segment.mode,
          .mapped = segment.mode == MrMode::kMapped ? segment.mapped + offset : nullptr,
          .app_addr = segment.app_addr + offset,
          .length_bytes = static_cast<uint32_t>(
              std::min<uint64_t>(length_bytes, segment.length_bytes - offset))};
}

/// Returns the first contiguous bytes of [va, va + length). The range has passed CheckAccess.
inline Piece PieceAt(const MemoryRegion& region, uint64_t va, uint32_t length_bytes) {
  if (region.segments.size() != 1) return PieceOfMany(region, va, length_bytes);
  return PieceOfSegment(region.segments.front(), va, length_bytes);
}

/// Walks bytes [offset, offset + length) of a list of scatter/gather entries, piece by piece, in
/// list order. Holds keys and addresses, no pointers into memory, so it may be kept between turns.
/// The caller owns the list.
class PieceWalker {
 public:
  PieceWalker() = default;
  PieceWalker(std::span<const uroce_sge> list, uint32_t offset_bytes, uint32_t length_bytes,
              const AccessRight& right)
      : list_(list), offset_(offset_bytes), left_(length_bytes), right_(right) {}

  std::span<const uroce_sge> list() const { return list_; }
  /// Called when the list has moved and has the same entries.
  void set_list(std::span<const uroce_sge> list) { list_ = list; }
  bool at_end() const { return left_ == 0; }
  /// Finds the piece at the current position, which is not the end. False: the list, a key, a
  /// right, a range or the program does not allow the access.
  [[nodiscard]] bool Look(const KeyTable& keys, Piece& piece) {
    // Entries of length 0 contribute nothing and are not checked.
    while (index_ < list_.size() && offset_ >= list_[index_].length) {
      offset_ -= list_[index_++].length;
    }
    if (index_ == list_.size()) return false;
    const uroce_sge& entry = list_[index_];
    const uint32_t wanted = std::min(left_, entry.length - offset_);
    const uint64_t va = entry.addr + offset_;
    const Grant grant = CheckAccess(keys, entry.lkey, va, wanted, right_);
    if (!grant) return false;
    piece = PieceAt(*grant.region, grant.va, wanted);
    return piece.mode != MrMode::kCopied || grant.region->session == right_.session;
  }
  /// Moves past the piece that Look found.
  void Pass(const Piece& piece) {
    offset_ += piece.length_bytes;
    left_ -= piece.length_bytes;
  }

 private:
  std::span<const uroce_sge> list_;
  uint32_t index_ = 0;
  uint32_t offset_ = 0;  // From the start of entry `index_`.
  uint32_t left_ = 0;
  AccessRight right_;
};

}  // namespace uroce::datapath
