// SPDX-License-Identifier: Apache-2.0
// Memory regions and windows, the table of their keys, and the check of every access to memory by a
// key. Works that bind windows and take keys back change the table.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/datapath/memory/memory_rest.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::datapath {

// Memory windows: keys that grant a part of a region, bound and taken back by works of queue pairs.

/// The low bits of a key, which a program chooses. The other bits name the region or window.
inline constexpr uint32_t kKeyVariant = 0xff;

/// What a window grants while it is bound.
struct WindowBinding {
  uint64_t addr = 0;  ///< An address of the region.
  uint64_t length_bytes = 0;
  uint32_t region_key = 0;
  uint32_t access = 0;  ///< IBV_ACCESS_REMOTE_* and ZERO_BASED.
  uint32_t qpn = 0;     ///< Type 2: the one queue pair that may use it.
};

/// One memory window. It holds no pointer to the region: each access finds the region by its key,
/// under the grace periods of the key table. So a freed region leaves no dangling pointer here.
///
/// Any worker may write, by Change, and one at a time. The state is one word with a count of
/// changes. A writer takes the word to "changing" by compare and swap, which one of several wins,
/// writes the fields, and stores the new state. A reader reads the word, the fields and the word
/// again. If both words are equal, no writer came between, and the fields belong together. So
/// readers never wait, and an access during a change has either the old key or the new one, never a
/// mixture. The writer must await that no other worker uses the old key any more: see Worker (key
/// waits), which holds the completion back for a grace period.
class MemoryWindow {
 public:
  /// Values are those of ibv_mw_type.
  enum class Type : uint8_t { kType1 = 1, kType2 = 2 };

  /// `key` is the window's first key. Its other keys differ from it by their variant alone.
  MemoryWindow(Type type, uint32_t pd, uint32_t key);
  MemoryWindow(const MemoryWindow&) = delete;
  MemoryWindow& operator=(const MemoryWindow&) = delete;

  Type type() const { return type_; }
  uint32_t pd() const { return pd_; }
  /// The current key.
  uint32_t key() const { return group_ | (Load() & kKeyVariant); }

  /// What `key` grants now. Nothing when the window is not bound under this key, or is being
  /// changed. Any thread.
  std::optional<WindowBinding> Read(uint32_t key) const;
  /// What the window grants now, under whatever key it has.
  std::optional<WindowBinding> Read() const { return Read(key()); }

  enum class ChangeResult : uint8_t {
    kChanged,
    kRefused,  ///< The window's state forbids it, or another change is under way.
  };
  /// Binds the window under `variant`. Type 2 must be free. `former` gets the binding that ends.
  [[nodiscard]] ChangeResult Bind(const WindowBinding& binding, uint8_t variant,
                                  std::optional<WindowBinding>& former);
  /// Type 1 alone: ends the binding. The key gets `variant`.
  [[nodiscard]] ChangeResult Unbind(uint8_t variant, std::optional<WindowBinding>& former);
  /// Takes `key` back. Type 2 alone; the window must be bound under `key`.
  [[nodiscard]] ChangeResult Invalidate(uint32_t key, std::optional<WindowBinding>& former);

 private:
  enum class Status : uint8_t { kFree, kBound, kChanging };
  // The word: the variant in its low byte, the status above, and the count of changes on top.
  static constexpr uint32_t kStatusShift = 8;
  static constexpr uint64_t kOneChange = uint64_t{1} << 16;
  static Status StatusOf(uint64_t word) { return static_cast<Status>(word >> kStatusShift & 0xff); }
  static uint64_t Next(uint64_t word, Status status, uint8_t variant) {
    return (word & ~(kOneChange - 1)) + kOneChange +
           (uint64_t{static_cast<uint8_t>(status)} << kStatusShift) + variant;
  }

  uint64_t Load() const { return word_.load(std::memory_order_acquire); }
  /// Reads the fields. They belong together if the word has not changed since it was read.
  WindowBinding LoadBinding() const;
  void StoreBinding(const WindowBinding& binding);
  /// Changes the state from `seen` to another. One of several concurrent callers succeeds.
  [[nodiscard]] ChangeResult Change(uint64_t seen, Status status, uint8_t variant,
                                    const WindowBinding& binding,
                                    std::optional<WindowBinding>& former);

  const Type type_;
  const uint32_t pd_;
  const uint32_t group_;
  std::atomic<uint64_t> word_;
  std::atomic<uint64_t> addr_{0};
  std::atomic<uint64_t> length_bytes_{0};
  std::atomic<uint32_t> region_key_{0};
  std::atomic<uint32_t> access_{0};
  std::atomic<uint32_t> qpn_{0};
};

// A registered region as workers see it: a list of segments, each reached in its own way.

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
  bool may_wait = false;      ///< kCopied: a file or the program provides the pages: no worker
                              ///< accesses them.
  bool is_staged = false;     ///< kCopied: memory of a device, reached by the program's stage.
  bool is_own_file = false;   ///< kMapped: a file of the program's own.
  // The fields below are for nic.
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
  MemoryRest* rest = nullptr;        ///< Of the program's user; outlives the region. Null: none.
  bool has_helper = false;           ///< `session` has a copy helper.
  MemoryWindow* window = nullptr;    ///< For a window: what it grants. Else null.
  std::vector<MrSegment> segments;
  std::vector<uint32_t> segment_handles;  ///< For nic: what the mapped segments were made from.
  /// Count of bound windows, or null. nic does not end a bound region; accesses ignore the count.
  std::atomic<uint32_t>* bound_windows = nullptr;
};

// Maps keys to regions without a lock: the control thread writes, and any number of workers read.

/// Hash table of published regions. Readers load pointers with acquire order and hold none beyond
/// the turn in which they looked it up.
class KeyTable {
 public:
  /// Room for `capacity` regions.
  explicit KeyTable(uint32_t capacity);
  /// The region that `key` names, or null. Any worker.
  const MemoryRegion* Find(uint32_t key) const {
    for (uint64_t i = 0, at = Home(key); i <= mask_; ++i, at = (at + 1) & mask_) {
      const MemoryRegion* region = slots_[at].load(std::memory_order_acquire);
      if (region == nullptr) return nullptr;
      if (region->key == key && region != &kRemoved) return region;
    }
    return nullptr;
  }
  /// Makes `region` visible under region->key. False: the key is taken, or the table is full.
  /// Control thread.
  [[nodiscard]] bool Publish(const MemoryRegion* region);
  /// Puts `region` in the place of `old`, which is published under the same key. Free `old` only
  /// after every worker has passed a turn. Control thread.
  void Replace(const MemoryRegion* old, const MemoryRegion* region);
  /// Hides `region`. Free it only after every worker has passed a turn. Control thread.
  void Unpublish(const MemoryRegion* region);

 private:
  /// Marks the slot of a removed region, so that probes for other keys pass over it.
  static const MemoryRegion kRemoved;

  /// The slot that holds `region`; `mask_ + 1` when none does.
  uint64_t SlotOf(const MemoryRegion* region) const;
  /// First slot to probe. Keys carry a variant in their low byte, so all bits are mixed.
  uint64_t Home(uint32_t key) const { return (key * 0x9e3779b97f4a7c15u >> 32) & mask_; }

  const uint32_t capacity_;
  const uint64_t mask_;
  std::unique_ptr<std::atomic<const MemoryRegion*>[]> slots_;
  uint32_t count_ = 0;  // Control thread.
};

// Finds the bytes that the keys and addresses of work requests and packets name.

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
  bool may_wait = false;     ///< kCopied: see MrSegment.
  bool is_staged = false;    ///< kCopied: see MrSegment.
  bool is_own_file = false;  ///< kMapped: see MrSegment.
};

/// Has the helper copy a mapped piece of a user whose memory rests (memory_rest.h).
inline void LeaveToHelper(Piece& piece) {
  if (piece.mode != MrMode::kMapped) return;
  piece.mode = MrMode::kCopied;
  piece.mapped = nullptr;
  piece.may_wait = true;
}

/// Does the same as PieceAt, for a region with several segments.
Piece PieceOfMany(const MemoryRegion& region, uint64_t va, uint32_t length_bytes);

/// Returns the bytes [va, va + length) as far as they lie in `segment`, which holds va.
inline Piece PieceOfSegment(const MrSegment& segment, uint64_t va, uint32_t length_bytes) {
  const uint64_t offset = va - segment.iova;
  return {.mode = segment.mode,
          .mapped = segment.mode == MrMode::kMapped ? segment.mapped + offset : nullptr,
          .app_addr = segment.app_addr + offset,
          .length_bytes = static_cast<uint32_t>(
              std::min<uint64_t>(length_bytes, segment.length_bytes - offset)),
          .may_wait = segment.may_wait,
          .is_staged = segment.is_staged,
          .is_own_file = segment.is_own_file};
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
  /// That of the user whose region Look found last; null: none.
  MemoryRest* rest() const { return rest_; }
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
    rest_ = grant.region->rest;
    if (rest_ != nullptr && rest_->is_on()) [[unlikely]] {
      if (!grant.region->has_helper) return false;
      LeaveToHelper(piece);
    }
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
  MemoryRest* rest_ = nullptr;
};

// Works that bind a window or take its key back (docs/protocol/transport.md, sections 4.4 and 8).

/// The fields of a BIND_MW work.
struct BindRequest {
  uint64_t addr = 0;
  uint64_t length_bytes = 0;  ///< 0: a window of type 1 is unbound.
  uint32_t window_key = 0;    ///< Names the window; its variant is ignored.
  uint32_t new_key = 0;       ///< Only its variant is used.
  uint32_t region_key = 0;
  uint32_t access = 0;  ///< IBV_ACCESS_REMOTE_* and ZERO_BASED.
};

/// The queue pair whose work it is, and its domain.
struct WindowUser {
  uint32_t pd = 0;
  uint32_t qpn = 0;
};

struct WindowChange {
  bool done = false;        ///< False: the work fails.
  bool has_ended = false;   ///< A key that granted access until now grants none any more.
  uint32_t former_qpn = 0;  ///< The one queue pair that could use that key; 0: any of the domain.
};

/// Executes a BIND_MW work. Any worker, as for InvalidateWindow.
WindowChange BindWindow(const KeyTable& keys, const BindRequest& request, const WindowUser& user);
/// Executes a local or remote invalidation, for windows of type 2 alone. A region could be
/// invalidated only if a work had registered it, which programs cannot do.
WindowChange InvalidateWindow(const KeyTable& keys, uint32_t key, uint32_t pd);
/// Ends the binding of a window that is unpublished and whose grace period is over.
void ReleaseBinding(const KeyTable& keys, const MemoryWindow& window);

}  // namespace uroce::datapath
