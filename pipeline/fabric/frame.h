// SPDX-License-Identifier: Apache-2.0
// Frames in a fabric: the header fields that a switch reads, the ECN mark that it writes, the slots
// that are allocated at the start, and the interface that the fabric's user implements.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pipeline/base/types.h"

namespace uroce::fabric {

/// A frame in the fabric, and the interface that the fabric's user implements.
/// An Ethernet frame without its FCS. The holder of the value owns the memory of the frame.
struct Frame {
  uint8_t* bytes = nullptr;
  uint32_t length_bytes = 0;
  void* owner =
      nullptr;  ///< The user's object that holds the bytes: an mbuf, or a buffer of a simulation.
  /// All bytes that the fabric looks at, and may mark. A simulation may hold no more of a frame.
  static constexpr uint32_t kMostHeaderBytes = 128;
  std::span<uint8_t> headers() const { return {bytes, std::min(length_bytes, kMostHeaderBytes)}; }
};

/// The fabric's user. The fabric calls it only while the user calls the fabric.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  /// `frame` has reached `host` at `arrival`. The callee owns it from now on, and does not call the
  /// fabric.
  virtual void Deliver(uint32_t host, const Frame& frame, Nanos arrival) = 0;
  /// `frame` will soon reach `host`: the callee may fetch into the cache what Deliver needs.
  virtual void Expect(uint32_t /*host*/, const Frame& /*frame*/) {}
  /// A frame of `host` has left its queue and occupies the line. The callee does not call the
  /// fabric.
  virtual void OnDeparture(uint32_t /*host*/) {}
  /// Returns a copy of a frame that goes to several hosts; nullopt when there is no memory.
  virtual std::optional<Frame> Copy(const Frame& frame) = 0;
  /// `frame` is dropped: the callee frees its memory.
  virtual void Free(const Frame& frame) = 0;
};

/// The fields of a frame of at least 14 bytes, with or without VLAN tag.
struct FrameHeaders {
  Mac destination{};
  uint32_t flow_hash = 0;       ///< Of IP addresses, protocol and ports; without IP, of the MACs.
  bool is_ecn_capable = false;  ///< ECT(0), ECT(1) or CE.
  /// Whether the priority is 6 or 7: DSCP >> 3, or the tag's priority in a frame without IP. Such
  /// frames, CNPs among them, go first, and are neither marked nor paused
  /// (docs/protocol/congestion.md, section 2).
  bool is_control = false;
};

/// Reads the fields. For frames shorter than 14 bytes all fields are 0.
FrameHeaders ReadHeaders(std::span<const uint8_t> frame);

/// Sets ECN to 3 in an IPv4 frame (and corrects its checksum) or IPv6 frame, tagged or not. Other
/// frames stay unchanged: false.
bool MarkCongestionExperienced(std::span<uint8_t> frame);

/// The frames in a fabric: slots that are allocated at the start, and lists of slots.
/// A frame in the fabric, or a PFC pause or resumption on a link. It fills a line of the cache:
/// large fabrics spend most of their time on waiting for memory.
struct alignas(64) Slot {
  enum class Kind : uint8_t { kFrame, kPause, kResume };
  static constexpr uint32_t kUnknown = UINT32_MAX - 1;

  uint8_t* bytes = nullptr;
  void* owner = nullptr;
  Nanos due;  ///< Its arrival at the end of the link that it is on.
  uint32_t length_bytes = 0;
  uint32_t flow_hash = 0;
  uint32_t source_host = 0;
  uint32_t target_host = 0;         ///< Unless goes_everywhere.
  uint32_t arrived_by = 0;          ///< The link whose share_bytes include it.
  uint32_t next_egress = kUnknown;  ///< Where the next switch forwards it, if that is known.
  uint32_t next = 0;
  Mac destination{};
  bool is_ecn_capable = false;
  bool is_control = false;
  bool goes_everywhere = false;  ///< The frame goes to all hosts but the sender.
  Kind kind = Kind::kFrame;

  Frame frame() const { return {.bytes = bytes, .length_bytes = length_bytes, .owner = owner}; }
};

/// A pool of slots, which only Grow enlarges.
class FrameStore {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit FrameStore(uint32_t slots) { Grow(slots); }
  void Grow(uint32_t slots) {
    const auto first = static_cast<uint32_t>(slots_.size());
    slots_.resize(size_t{first} + slots);
    for (uint32_t i = 0; i < slots; ++i) Give(first + i);
  }

  uint32_t size() const { return static_cast<uint32_t>(slots_.size()); }
  uint32_t free_slots() const { return free_slots_; }
  Slot& operator[](uint32_t index) { return slots_[index]; }
  const Slot& operator[](uint32_t index) const { return slots_[index]; }
  /// Range: free_slots() is not 0.
  uint32_t Take() {
    assert(free_slots_ != 0);
    --free_slots_;
    const uint32_t index = first_free_;
    first_free_ = slots_[index].next;
    return index;
  }
  void Give(uint32_t index) {
    slots_[index].next = first_free_;
    first_free_ = index;
    ++free_slots_;
  }

 private:
  std::vector<Slot> slots_;
  uint32_t first_free_ = kNone;
  uint32_t free_slots_ = 0;
};

/// A first-in-first-out list of slots, linked by Slot::next.
class FrameList {
 public:
  bool empty() const { return frames_ == 0; }
  uint32_t frames() const { return frames_; }
  uint64_t bytes() const { return bytes_; }
  /// Range: not empty.
  uint32_t front() const { return front_; }

  void Append(FrameStore& store, uint32_t index) {
    store[index].next = FrameStore::kNone;
    (frames_ == 0 ? front_ : store[back_].next) = index;
    back_ = index;
    ++frames_;
    bytes_ += store[index].length_bytes;
  }
  /// Range: not empty.
  uint32_t Pop(FrameStore& store) {
    const uint32_t index = front_;
    front_ = store[index].next;
    --frames_;
    bytes_ -= store[index].length_bytes;
    return index;
  }

 private:
  uint32_t front_ = FrameStore::kNone;
  uint32_t back_ = FrameStore::kNone;
  uint32_t frames_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace uroce::fabric
