// SPDX-License-Identifier: Apache-2.0
// The works that a send queue holds, from Post until their completion is polled.
#pragma once

#include <cstdint>
#include <memory>

#include "pipeline/transport/work.h"
#include "pipeline/transport/work_traits.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// A send work as the requester keeps it. One cache line, because each connection allocates a
/// whole ring of them, even an idle one.
struct alignas(64) HeldWork {
  uint64_t wr_id;
  uint64_t remote_va;
  uint64_t compare_add;
  uint64_t swap;
  uint32_t slot;
  uint32_t length_bytes;
  uint32_t immediate_or_rkey;  ///< Immediate bytes, or the key to invalidate.
  Rkey rkey;
  wire::Psn first_psn;  ///< Of its first packet; meaningful once begun.
  uint32_t packets;     ///< PSNs that it takes; meaningful once begun.
  WorkOpcode opcode;
  uint8_t traits;  ///< Bits of WorkTraits.
  bool signaled;
  bool solicited;
  uint32_t xrc_srqn;  ///< XRC: the SRQ at the target.

  bool executable() const { return Has(WorkTraits::kExecutable); }
  bool fence() const { return Has(WorkTraits::kFence); }
  bool is_read() const { return Has(WorkTraits::kRead); }
  bool is_atomic() const { return Has(WorkTraits::kAtomic); }
  bool is_atomic_write() const { return Has(WorkTraits::kAtomicWrite); }
  /// Whether the responder keeps a resource for the work, and only its own response completes it.
  bool is_read_or_atomic() const {
    return Has(WorkTraits::kRead | WorkTraits::kAtomic | WorkTraits::kAtomicWrite);
  }
  bool is_local() const { return Has(WorkTraits::kLocal); }
  bool takes_receive() const { return Has(WorkTraits::kTakesReceive); }
  /// True when the work needs only room in the window: no fence, receive work or resource.
  bool is_plain() const { return traits == WorkTraits::kExecutable; }

 private:
  /// Whether the work has at least one of the traits `of`.
  bool Has(uint8_t of) const { return (traits & of) != 0; }
};
static_assert(sizeof(HeldWork) == 64);

/// Storage of works under free-running indices, which wrap at 2^32.
template <typename Work>
class SendRing {
 public:
  /// `capacity` is a power of two.
  explicit SendRing(uint32_t capacity)
      : works_(std::make_unique_for_overwrite<Work[]>(capacity)), mask_(capacity - 1) {}

  uint32_t capacity() const { return mask_ + 1; }
  Work& At(uint32_t index) { return works_[index & mask_]; }
  const Work& At(uint32_t index) const { return works_[index & mask_]; }

 private:
  std::unique_ptr<Work[]> works_;
  uint32_t mask_;
};

}  // namespace uroce::transport
