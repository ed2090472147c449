// SPDX-License-Identifier: Apache-2.0
// The notes on captured frames: the kinds of frames that a capture filter can select, and text for
// people.
#include "pipeline/capture/note.h"

#include <array>
#include <cstddef>
#include <cstdio>
#include <string_view>

#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"

namespace uroce::capture {
namespace {

constexpr std::array<std::string_view, wire::kDecodeResultCount> kDecodeTexts = {
    "addressed to another MAC",
    "no IP packet",
    "no UDP datagram",
    "not to UDP port 4791",
    "the frame ends before its headers or its IP length say",
    "the IP version is not that of the ethertype",
    "IPv4 options",
    "an IPv4 fragment",
    "an IPv4-mapped address in an IPv6 header",
    "the IPv4 header checksum is wrong",
    "the UDP length does not fit",
    "the BTH has another version",
    "the pad count does not fit",
    "the payload length does not fit the opcode",
    "the opcode is in no table",
};

constexpr std::array<std::string_view, UROCE_REFUSAL_INVALIDATE + 1> kRefusalTexts = {
    "refused",
    "its opcode does not continue the message",
    "its payload length fits neither path MTU nor message",
    "the message is longer than 2^31 bytes",
    "the queue pair does not allow the operation",
    "more READs and atomics than max_dest_rd_atomic",
    "the message is longer than the receive posted for it",
    "the receive posted for it is malformed",
    "the address of the atomic is no multiple of 8",
    "the key does not grant the range",
    "the lkey of the receive does not grant its range",
    "the key to invalidate may not be",
};

constexpr std::array<std::string_view, UROCE_RESEND_TAIL_LOSS_PROBE + 1> kResendTexts = {
    "gone back",
    "ACK timeout",
    "NAK sequence error",
    "RNR NAK, its timer has run out",
    "implied NAK, a response was passed over",
    "selective ACK, it is missing",
    "tail loss probe, nothing came for some round trips",
};

constexpr std::array<std::string_view, 7> kStateNames = {"RESET", "INIT", "RTR", "RTS",
                                                         "SQD",   "SQE",  "ERR"};

constexpr std::array<std::string_view, 22> kStatusNames = {
    "SUCCESS",          "LOC_LEN_ERR",       "LOC_QP_OP_ERR",     "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",     "WR_FLUSH_ERR",      "MW_BIND_ERR",       "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",   "REM_INV_REQ_ERR",   "REM_ACCESS_ERR",    "REM_OP_ERR",
    "RETRY_EXC_ERR",    "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",  "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",    "INV_EECN_ERR",      "INV_EEC_STATE_ERR", "FATAL_ERR",
    "RESP_TIMEOUT_ERR", "GENERAL_ERR"};

template <size_t N>
std::string Lookup(const std::array<std::string_view, N>& texts, uint8_t code) {
  return code < N ? std::string(texts[code]) : "code " + std::to_string(code);
}

std::string Qp(const uroce_capture_note& note) {
  char text[16];
  std::snprintf(text, sizeof(text), "qp 0x%06x", note.qpn & 0xffffff);
  return text;
}

std::string Psn(uint32_t psn) { return std::to_string(psn); }

/// Follows a text.
std::string RateText(const uroce_capture_note& note) {
  if (note.rate_mbps == 0) return "";
  char text[32];
  if (note.rate_mbps < 1000) {
    std::snprintf(text, sizeof(text), ", rate %u Mb/s", note.rate_mbps);
  } else {
    std::snprintf(text, sizeof(text), ", rate %.1f Gb/s", note.rate_mbps / 1e3);
  }
  return text;
}

std::string DuplicateText(const uroce_capture_note& note) {
  const std::string text = "duplicate: " + Qp(note) + " expects psn " + Psn(note.expected_psn);
  return text + (note.detail != 0 ? ", answered again" : ", not answered");
}

std::string GapText(const uroce_capture_note& note) {
  return "dropped: psn " + Psn(note.psn) + " is out of sequence, " + Qp(note) + " expects " +
         Psn(note.expected_psn) + (note.detail != 0 ? ", NAK sent" : ", NAK was sent before");
}

std::string ResendText(const uroce_capture_note& note) {
  std::string text = "retransmission ";
  if (note.limit == UROCE_NO_LIMIT) {
    text += "without limit ";
  } else if (note.number != 0) {  // 0: the resend costs no retry.
    text += std::to_string(note.number) + " of " + std::to_string(note.limit) + " ";
  }
  return text + "of " + Qp(note) + ": " + Lookup(kResendTexts, note.detail);
}

std::string NakText(const uroce_capture_note& note) {
  if ((note.number & wire::kSyndromeKindMask) == wire::kSyndromeRnrNak) {
    return "RNR NAK of " + Qp(note) + ": no receive is posted, timer code " +
           std::to_string(note.number & wire::kSyndromeValueMask);
  }
  const std::string text = "NAK of " + Qp(note) + ": " + NakName(note.number);
  return note.number == wire::kNakSequence ? text + ", psn " + Psn(note.psn) + " is expected"
                                           : text;
}

std::string ReasonText(const uroce_capture_note& note) {
  switch (note.reason) {
    case UROCE_REASON_NONE:
      return "";
    case UROCE_REASON_NOT_ROCE:
      return "not RoCEv2 for this device: " + Lookup(kDecodeTexts, note.detail);
    case UROCE_REASON_MALFORMED:
      if (note.detail == 0) return "dropped: " + Qp(note) + " can make nothing of this response";
      return "dropped: malformed, " + Lookup(kDecodeTexts, note.detail);
    case UROCE_REASON_BAD_OPCODE:
      return "dropped: the opcode is unknown, or not of the queue pair's service";
    case UROCE_REASON_BAD_ICRC:
      return "dropped: the ICRC is wrong, for " + Qp(note);
    case UROCE_REASON_BAD_PKEY:
      return "dropped: the P_Key is not in the table, for " + Qp(note);
    case UROCE_REASON_UNKNOWN_QPN:
      return "dropped: there is no " + Qp(note) + " here";
    case UROCE_REASON_BAD_ADDRESS:
      return "dropped: not from the peer of " + Qp(note) + ", or not to an address of this device";
    case UROCE_REASON_BAD_STATE:
      return "dropped: " + Qp(note) + " is in state " + Lookup(kStateNames, note.detail);
    case UROCE_REASON_CNP_IGNORED:
      return "congestion notification, ignored";
    case UROCE_REASON_CNP_HANDLED:
      return "congestion notification: " + Qp(note) + " sends less" + RateText(note);
    case UROCE_REASON_PARKED_FULL:
      return "dropped: too many wait behind " + Qp(note) + ", which waits for memory";
    case UROCE_REASON_ABANDONED:
      return "dropped: " + Qp(note) + " ended while this waited for memory";
    case UROCE_REASON_CROSS_WORKER_FULL:
      return "dropped: the worker of " + Qp(note) + " is behind";
    case UROCE_REASON_GHOST:
      return "dropped: nothing in " + Qp(note) + " waits for this response";
    case UROCE_REASON_RESPONSE_GAP:
      return "dropped: a response to " + Qp(note) + " before psn " + Psn(note.psn) + " was lost";
    case UROCE_REASON_DUPLICATE:
      return DuplicateText(note);
    case UROCE_REASON_OUT_OF_SEQUENCE:
      return GapText(note);
    case UROCE_REASON_NOT_READY:
      return "dropped: no receive is posted to " + Qp(note) + ", RNR NAK sent, timer code " +
             std::to_string(note.number);
    case UROCE_REASON_REFUSED:
      return "refused by " + Qp(note) + ": " + Lookup(kRefusalTexts, note.detail) + ", NAK " +
             NakName(note.number) + " sent";
    case UROCE_REASON_MESSAGE_CUT:
      return "dropped: before psn " + Psn(note.psn) + " a packet to " + Qp(note) + " was lost";
    case UROCE_REASON_NO_RECEIVE:
      return "dropped: no receive is posted to " + Qp(note);
    case UROCE_REASON_TOO_LONG:
      return "dropped: longer than what is posted to " + Qp(note);
    case UROCE_REASON_MESSAGE_REFUSED:
      return "dropped: a length or a right is wrong, for " + Qp(note);
    case UROCE_REASON_BAD_QKEY:
      return "dropped: the Q_Key is not that of " + Qp(note);
    case UROCE_REASON_BAD_RECEIVE:
      return "dropped: the receive that is posted to " + Qp(note) + " is malformed";
    case UROCE_REASON_RETRANSMITTED:
      return ResendText(note);
    case UROCE_REASON_ANSWERED_AGAIN:
      return "response given again by " + Qp(note) + ": duplicate request";
    case UROCE_REASON_NAK:
      return NakText(note);
    case UROCE_REASON_SELECTIVE_ACK:
      return "selective ACK of " + Qp(note) + ": psn " + Psn(note.psn) + " is expected";
    case UROCE_REASON_KEPT:
      return "kept: psn " + Psn(note.psn) + " is ahead, " + Qp(note) + " expects psn " +
             Psn(note.expected_psn);
    case UROCE_REASON_CNP_SENT:
      return "CNP sent by " + Qp(note) + " for psn " + Psn(note.psn) + RateText(note);
    default:
      return "reason " + std::to_string(note.reason) + " of " + Qp(note);
  }
}

std::string FailureText(const uroce_capture_note& note) {
  const std::string text = Qp(note) + " goes to error";
  return note.status == 0 ? text : text + ": " + StatusName(note.status);
}

void Append(std::string& text, const std::string& more) {
  if (more.empty()) return;
  if (!text.empty()) text += "; ";
  text += more;
}

}  // namespace

std::string NoteText(const uroce_capture_note& note) {
  std::string text = ReasonText(note);
  if ((note.flags & UROCE_NOTE_MARKED) != 0) Append(text, "arrived with congestion experienced");
  if ((note.flags & UROCE_NOTE_FAILED) != 0) Append(text, FailureText(note));
  return text;
}

std::string StatusName(uint8_t status) { return Lookup(kStatusNames, status); }

std::string NakName(uint8_t syndrome) {
  switch (syndrome) {
    case wire::kNakSequence:
      return "sequence error";
    case wire::kNakInvalidRequest:
      return "invalid request";
    case wire::kNakRemoteAccess:
      return "remote access error";
    case wire::kNakRemoteOperation:
      return "remote operational error";
    default:
      return "syndrome " + std::to_string(syndrome);
  }
}

}  // namespace uroce::capture
