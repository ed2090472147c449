// SPDX-License-Identifier: Apache-2.0
// The SEND or WRITE that is arriving: checks which packet may continue it, computes the memory that
// a packet fills, and makes the completion. Reliable and unreliable connections share it; each
// decides by itself what to do with a packet that does not fit.
#include "pipeline/transport/inbound_message.h"

#include <cassert>

namespace uroce::transport {

void InboundMessage::PostReceive(const ReceiveWork& work) {
  assert(!has_receive_);
  receive_ = work;
  has_receive_ = true;
}

Completion InboundMessage::End(WcStatus status, WcOpcode opcode, uint32_t length_bytes) {
  has_receive_ = false;
  const bool success = status == WcStatus::kSuccess;
  Completion completion{.wr_id = receive_.wr_id,
                        .slot = receive_.slot,
                        .is_receive = true,
                        .solicited = solicited_ || !success,
                        .status = status,
                        .opcode = opcode,
                        .queue = receive_.queue,
                        .length_bytes = length_bytes};
  if (!success) return completion;
  completion.has_immediate = shape_.immediate;
  completion.has_invalidate = shape_.invalidate;
  completion.immediate_or_rkey = immediate_or_rkey_;
  return completion;
}

Completion InboundMessage::Complete() {
  const bool is_write = shape_.kind == RequestShape::Kind::kWrite;
  return End(WcStatus::kSuccess, is_write ? WcOpcode::kReceiveWriteWithImm : WcOpcode::kReceive,
             received_bytes_);
}

void InboundMessage::Clear() {
  Abandon();
  has_receive_ = false;
}

}  // namespace uroce::transport
