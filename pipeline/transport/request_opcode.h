// SPDX-License-Identifier: Apache-2.0
// The opcodes of send works: the BTH opcode of each packet, and the opcode of the completion.
#pragma once

#include "pipeline/transport/work.h"
#include "pipeline/wire/opcode.h"

namespace uroce::transport {

constexpr bool IsWrite(WorkOpcode opcode) {
  return opcode == WorkOpcode::kWrite || opcode == WorkOpcode::kWriteWithImm;
}

/// The opcode in the completion of a send work.
constexpr WcOpcode CompletionOpcode(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::kWrite:
    case WorkOpcode::kWriteWithImm:
      return WcOpcode::kWrite;
    case WorkOpcode::kSend:
    case WorkOpcode::kSendWithImm:
    case WorkOpcode::kSendWithInvalidate:
      return WcOpcode::kSend;
    case WorkOpcode::kRead:
      return WcOpcode::kRead;
    case WorkOpcode::kCompareSwap:
      return WcOpcode::kCompareSwap;
    case WorkOpcode::kFetchAdd:
      return WcOpcode::kFetchAdd;
    case WorkOpcode::kLocalInvalidate:
      return WcOpcode::kLocalInvalidate;
    case WorkOpcode::kBindWindow:
      return WcOpcode::kBindWindow;
    case WorkOpcode::kAtomicWrite:
      return WcOpcode::kAtomicWrite;
  }
  return WcOpcode::kSend;  // A value outside the enum came from a hostile ring.
}

/// The BTH opcode of a packet of a SEND or WRITE. `first`, `last`: it opens or ends the message
/// (docs/protocol/wire-format.md, section 5).
constexpr wire::Opcode MessageOpcode(WorkOpcode work, bool first, bool last) {
  using wire::Opcode;
  if (!last) {
    if (IsWrite(work)) return first ? Opcode::kWriteFirst : Opcode::kWriteMiddle;
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
    case WorkOpcode::kAtomicWrite:
      break;
  }
  return first ? Opcode::kSendOnly : Opcode::kSendLast;
}

}  // namespace uroce::transport
