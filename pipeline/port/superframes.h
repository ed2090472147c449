// SPDX-License-Identifier: Apache-2.0
// Superframes on their way through the daemon (pipeline/wire/superframe.h): an mbuf that holds the
// frame of the first packet and, behind it, the UDP payloads of the others. Also the buffers that
// are long enough for them.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "pipeline/port/frames.h"
#include "pipeline/wire/superframe.h"

namespace uroce::drivers {

/// The most bytes of an mbuf, which a superframe in one has at most.
inline constexpr uint32_t kMaxFrameBytes = UINT16_MAX;

/// Marks the mbufs that hold a superframe. Lengths in its headers and their checksums are those of
/// the first packet, or of none.
class SuperframeMark {
 public:
  SuperframeMark() : flag_("uroce_superframe"), same_("uroce_same_identification") {}

  bool IsSet(const rte_mbuf& frame) const { return flag_.IsSet(frame); }
  /// `segment_bytes`: UDP payload of each packet but the last.
  void Set(rte_mbuf& frame, uint16_t segment_bytes,
           wire::Identifications identifications = wire::Identifications::kRising) const {
    flag_.Set(frame);
    if (identifications == wire::Identifications::kSame) same_.Set(frame);
    frame.tso_segsz = segment_bytes;
  }
  void Clear(rte_mbuf& frame) const { flag_.Clear(frame); }
  static uint16_t SegmentBytesOf(const rte_mbuf& frame) {
    return static_cast<uint16_t>(frame.tso_segsz);
  }
  wire::Identifications IdentificationsOf(const rte_mbuf& frame) const {
    return same_.IsSet(frame) ? wire::Identifications::kSame : wire::Identifications::kRising;
  }

 private:
  const FrameFlag flag_;
  const FrameFlag same_;
};

/// How many packets `frame` has: one, if it is no superframe.
uint32_t PacketsOf(const rte_mbuf& frame);
/// Makes frames in mbufs of `pool` of the packets of `superframe`, which is freed. Returns how many
/// packets are lost because the pool is empty or its mbufs are too small.
uint32_t CutSuperframe(rte_mbuf* superframe, rte_mempool* pool,
                       absl::FunctionRef<void(rte_mbuf*)> take);
/// Takes the first packet out of `superframe`. Range: it has more than one.
void DropFirstPacket(rte_mbuf& superframe);

/// A buffer for a superframe, also one that arrives with more bytes than an mbuf may have.
struct LongBuffer {
  static constexpr size_t kBytes = wire::kMaxUdpHeaderBytes + wire::kMaxSuperframeBytes;

  alignas(64) std::array<uint8_t, kBytes> bytes;

 private:
  friend class LongBuffers;
  rte_mbuf_ext_shared_info shared_{};
  std::shared_ptr<void> stock_;  ///< While an mbuf has it.
  std::atomic<bool> is_taken_{false};
};

/// Buffers that mbufs borrow: an mbuf gives its buffer back when it is freed, by any thread, also
/// after this object has ended. Otherwise one thread.
class LongBuffers {
 public:
  explicit LongBuffers(size_t count);

  /// Takes a buffer, to be lent or given back. Null: there is none.
  LongBuffer* Take();
  static void GiveBack(LongBuffer* buffer) {
    buffer->is_taken_.store(false, std::memory_order_release);
  }
  /// Gives `frame`, which is empty, `buffer` in place of the one that it has, from `offset` on and
  /// without headroom.
  void Lend(rte_mbuf& frame, LongBuffer* buffer, size_t offset = 0) const;
  /// Does both. False: there is none.
  [[nodiscard]] bool Lend(rte_mbuf& frame) {
    LongBuffer* const buffer = Take();
    if (buffer != nullptr) Lend(frame, buffer);
    return buffer != nullptr;
  }
  /// Whether `frame` has borrowed one.
  static bool IsLent(const rte_mbuf& frame) { return RTE_MBUF_HAS_EXTBUF(&frame); }

 private:
  using Stock = std::vector<std::unique_ptr<LongBuffer>>;

  std::shared_ptr<Stock> stock_;
};

}  // namespace uroce::drivers
