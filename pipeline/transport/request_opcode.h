// SPDX-License-Identifier: Apache-2.0
// Which BTH opcode a packet of a SEND or WRITE carries by its place in the message.
#pragma once

#include "pipeline/transport/work.h"
#include "pipeline/wire/opcode.h"

namespace uroce::transport {

/// Opcode of a packet that opens and/or ends the message of a work (wire-format.md, section 5).
constexpr wire::Opcode MessageOpcode(WorkOpcode work, bool first, bool last) {
  using wire::Opcode;
  const bool write = work == WorkOpcode::kWrite || work == WorkOpcode::kWriteWithImm;
  if (!last) {
    if (write) return first ? Opcode::kWriteFirst : Opcode::kWriteMiddle;
    return first ? Opcode::kSendFirst : Opcode::kSendMiddle;
  }
  switch (work) {
    case WorkOpcode::kWrite:
      return first ? Opcode::kWriteOnly : Opcode::kWriteLast;
    case WorkOpcode::kWriteWithImm:
      return first ? Opcode::kWriteOnlyWithImm : Opcode::kWriteLastWithImm;
    case WorkOpcode::kSendWithImm:
      return first ? Opcode::kSendOnlyWithImm : Opcode::kSendLastWithImm;
    case WorkOpcode::kSendWithInvalidate:
      return first ? Opcode::kSendOnlyWithInvalidate : Opcode::kSendLastWithInvalidate;
    case WorkOpcode::kSend:
    case WorkOpcode::kRead:
    case WorkOpcode::kCompareSwap:
    case WorkOpcode::kFetchAdd:
    case WorkOpcode::kLocalInvalidate:
    case WorkOpcode::kBindWindow:
      break;
  }
  return first ? Opcode::kSendOnly : Opcode::kSendLast;
}

}  // namespace uroce::transport
