// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/script/value_text.h"

#include <cinttypes>

namespace uroce::transport {
namespace {

std::string StatusName(WcStatus status) {
  switch (status) {
    case WcStatus::kSuccess:
      return "SUCCESS";
    case WcStatus::kLocLenErr:
      return "LOC_LEN_ERR";
    case WcStatus::kLocQpOpErr:
      return "LOC_QP_OP_ERR";
    case WcStatus::kLocProtErr:
      return "LOC_PROT_ERR";
    case WcStatus::kWrFlushErr:
      return "WR_FLUSH_ERR";
    case WcStatus::kMwBindErr:
      return "MW_BIND_ERR";
    case WcStatus::kBadRespErr:
      return "BAD_RESP_ERR";
    case WcStatus::kLocAccessErr:
      return "LOC_ACCESS_ERR";
    case WcStatus::kRemInvReqErr:
      return "REM_INV_REQ_ERR";
    case WcStatus::kRemAccessErr:
      return "REM_ACCESS_ERR";
    case WcStatus::kRemOpErr:
      return "REM_OP_ERR";
    case WcStatus::kRetryExcErr:
      return "RETRY_EXC_ERR";
    case WcStatus::kRnrRetryExcErr:
      return "RNR_RETRY_EXC_ERR";
    case WcStatus::kFatalErr:
      return "FATAL_ERR";
    case WcStatus::kGeneralErr:
      return "GENERAL_ERR";
  }
  return "?";
}

std::string OpcodeText(WcOpcode opcode) {
  switch (opcode) {
    case WcOpcode::kSend:
      return "SEND";
    case WcOpcode::kWrite:
      return "WRITE";
    case WcOpcode::kRead:
      return "READ";
    case WcOpcode::kCompareSwap:
      return "COMPARE_SWAP";
    case WcOpcode::kFetchAdd:
      return "FETCH_ADD";
    case WcOpcode::kBindWindow:
      return "BIND_WINDOW";
    case WcOpcode::kLocalInvalidate:
      return "LOCAL_INVALIDATE";
    case WcOpcode::kAtomicWrite:
      return "ATOMIC_WRITE";
    case WcOpcode::kReceive:
      return "RECEIVE";
    case WcOpcode::kReceiveWriteWithImm:
      return "RECEIVE_WRITE";
  }
  return "?";
}

}  // namespace

std::string TextOf(const Completion& completion) {
  std::string text = Format("%u ", completion.slot) + OpcodeText(completion.opcode) + " " +
                     StatusName(completion.status);
  if (completion.status != WcStatus::kSuccess || !completion.is_receive) return text;
  text += Format(" len=%u", completion.length_bytes);
  const uint32_t immediate = __builtin_bswap32(completion.immediate_or_rkey);
  if (completion.has_immediate) text += Format(" imm=%08x", immediate);
  if (completion.has_invalidate) text += Format(" inv=%08x", completion.immediate_or_rkey);
  if (completion.has_grh) {
    text += Format(" from=%06x %s", completion.source_qpn.value(),
                   completion.is_ipv6 ? "ipv6" : "ipv4");
  }
  if (completion.solicited) text += " se";
  return text;
}

std::string TextOf(const Effect& effect) {
  const LocalRange& local = effect.local;
  const RemoteRange& remote = effect.remote;
  const std::string local_text =
      Format(" slot=%u at=%u len=%u", local.slot, local.offset_bytes, local.length_bytes);
  std::string remote_text =
      Format(" rkey=%x va=%" PRIx64 " len=%u", remote.rkey.value(), remote.va, remote.length_bytes);
  if (remote.xrc_srqn != 0) remote_text += Format(" srq=%06x", remote.xrc_srqn);
  const std::string invalidate_text = Format(" inv=%08x", effect.invalidate_rkey.value());
  switch (effect.kind) {
    case Effect::Kind::kNone:
      return "";
    case Effect::Kind::kPlaceReceive:
      return "place_receive" + local_text + (effect.invalidate ? invalidate_text : "") +
             (effect.grh_area ? " grh" : "");
    case Effect::Kind::kPlaceSend:
      return "place_send" + local_text;
    case Effect::Kind::kPlaceRemote:
      return "place_remote" + remote_text + Format(" check=%u", effect.check_length_bytes);
    case Effect::Kind::kCheckRemote:
      return "check_remote" + remote_text;
    case Effect::Kind::kAtomic:
      return (effect.compare_swap ? "compare_swap" : "fetch_add") + remote_text +
             Format(" swap_add=%" PRIx64, effect.swap_add);
    case Effect::Kind::kPlaceOriginal:
      return "place_original" + local_text + Format(" value=%" PRIx64, effect.value);
    case Effect::Kind::kInvalidate:
      return "invalidate" + invalidate_text;
    case Effect::Kind::kKeep:
      return "keep";
  }
  return "?";
}

}  // namespace uroce::transport
