// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/story/words.h"

#include <arpa/inet.h>

#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/wire/to_string.h"

namespace uroce::tools::analyze {
namespace {

/// The reasons of a REJ from 1 on (docs/protocol/cm.md, section 9).
constexpr std::array<absl::string_view, 36> kRejectReasons = {
    "",
    "no queue pair",
    "no EEC",
    "no resources",
    "timeout",
    "unsupported request",
    "invalid communication id",
    "invalid communication instance",
    "invalid service id: no program listens",
    "invalid transport type",
    "stale connection",
    "RDC does not exist",
    "invalid GID",
    "invalid LID",
    "invalid SL",
    "invalid traffic class",
    "invalid hop limit",
    "invalid packet rate",
    "invalid alternate GID",
    "invalid alternate LID",
    "invalid alternate SL",
    "invalid alternate traffic class",
    "invalid alternate hop limit",
    "invalid alternate packet rate",
    "redirected to another port and connection manager",
    "redirected to another port",
    "invalid path MTU",
    "insufficient responder resources",
    "rejected by the program",
    "invalid RNR retry count",
    "duplicate local communication id",
    "invalid class version",
    "invalid flow label",
    "invalid alternate flow label",
    "",
    "vendor option not supported",
};

absl::string_view NakMeaning(uint8_t syndrome) {
  switch (syndrome) {
    case wire::kNakInvalidRequest:
      return "invalid request (0x61): a wrong opcode or length, an operation that the queue pair "
             "does not allow, or too many READs";
    case wire::kNakRemoteAccess:
      return "remote access error (0x62): the R_Key does not grant this range or operation";
    case wire::kNakRemoteOperation:
      return "remote operational error (0x63): the responder could not use its own receive";
    case wire::kNakInvalidRdRequest:
      return "invalid RD request (0x64)";
    default:
      return "a reserved NAK code";
  }
}

}  // namespace

std::string TimeText(int64_t nanos) {
  const auto value = static_cast<double>(nanos);
  const double size = std::abs(value);
  if (size < 1e3) return absl::StrCat(nanos, " ns");
  if (size < 1e6) return absl::StrFormat("%.3g us", value / 1e3);
  if (size < 1e9) return absl::StrFormat("%.3g ms", value / 1e6);
  return absl::StrFormat("%.4g s", value / 1e9);
}

std::string RateText(double bits_per_second) {
  if (bits_per_second < 1e6) return absl::StrFormat("%.3g kb/s", bits_per_second / 1e3);
  if (bits_per_second < 1e9) return absl::StrFormat("%.3g Mb/s", bits_per_second / 1e6);
  return absl::StrFormat("%.3g Gb/s", bits_per_second / 1e9);
}

std::string BytesText(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value < 1e4) return absl::StrCat(bytes, " B");
  if (value < 1e6) return absl::StrFormat("%.3g kB", value / 1e3);
  if (value < 1e9) return absl::StrFormat("%.3g MB", value / 1e6);
  return absl::StrFormat("%.4g GB", value / 1e9);
}

std::string AddressText(const Gid& address) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool is_ipv4 = address.is_ipv4();
  inet_ntop(is_ipv4 ? AF_INET : AF_INET6, address.bytes.data() + (is_ipv4 ? 12 : 0), text,
            sizeof text);
  return text;
}

std::string PacketName(wire::Opcode opcode) {
  if (wire::OperationOf(opcode) == wire::Opcode::kAcknowledge) return "ACK";
  return wire::OpcodeName(opcode);
}

std::string PacketName(const wire::TransportHeader& header) {
  if (wire::OperationOf(header.opcode) != wire::Opcode::kAcknowledge) {
    return wire::OpcodeName(header.opcode);
  }
  return std::string(wire::SyndromeName(header.aeth.syndrome));
}

std::string RefusalText(uint8_t syndrome, wire::Psn psn, const PacketMark* request) {
  const std::string what = request == nullptr
                               ? absl::StrCat("psn ", psn.value())
                               : absl::StrCat(PacketName(request->opcode), " psn ", psn.value(),
                                              " (frame ", request->frame, ")");
  return absl::StrCat("the responder refused ", what, ": ", NakMeaning(syndrome),
                      "; both queue pairs go to ERR");
}

std::string RejectText(uint16_t reason) {
  if (reason < kRejectReasons.size() && !kRejectReasons[reason].empty()) {
    return absl::StrCat(kRejectReasons[reason], " (", reason, ")");
  }
  return absl::StrCat("reason ", reason);
}

}  // namespace uroce::tools::analyze
