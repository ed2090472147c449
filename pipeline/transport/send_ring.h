// SPDX-License-Identifier: Apache-2.0
// The works a send queue holds, from Post until their completion was polled.
#pragma once

#include <cstdint>
#include <memory>

#include "pipeline/transport/work.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// A send work as the requester keeps it: one cache line, since an idle connection pays for a
/// whole ring of them.
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
  bool signaled : 1;
  bool solicited : 1;
  bool fence : 1;
  bool executable : 1;  ///< Well formed, and of an opcode that a reliable connection sends.
  uint32_t xrc_srqn;    ///< XRC: the SRQ at the target.

  bool is_read() const { return opcode == WorkOpcode::kRead; }
  bool is_atomic() const {
    return opcode == WorkOpcode::kCompareSwap || opcode == WorkOpcode::kFetchAdd;
  }
  bool is_atomic_write() const { return opcode == WorkOpcode::kAtomicWrite; }
  /// Whether the responder keeps a resource for it, and only its own response completes it.
  bool is_read_or_atomic() const { return is_read() || is_atomic() || is_atomic_write(); }
  /// Whether it is done on this side alone, without a packet.
  bool is_local() const {
    return opcode == WorkOpcode::kLocalInvalidate || opcode == WorkOpcode::kBindWindow;
  }
  /// Whether the responder needs a receive work for it.
  bool takes_receive() const {
    return opcode == WorkOpcode::kSend || opcode == WorkOpcode::kSendWithImm ||
           opcode == WorkOpcode::kSendWithInvalidate || opcode == WorkOpcode::kWriteWithImm;
  }
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
