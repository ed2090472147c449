// SPDX-License-Identifier: Apache-2.0
#include "pipeline/wire/cm/to_string.h"

#include <cstdint>

namespace uroce::wire {
namespace {

std::string Hex(uint64_t value, int digits) {
  std::string text;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    text += "0123456789abcdef"[value >> shift & 15];
  }
  return text;
}
std::string Id(CommId id) { return " id=" + Hex(id.value(), 8); }
std::string Service(uint64_t id) { return " service=" + Hex(id, 16); }
std::string Number(Qpn qpn) { return " qpn=" + Hex(qpn.value(), 6); }

template <typename Message>
std::string Pair(const Message& message) {
  return Id(message.local_comm_id) + " remote=" + Hex(message.remote_comm_id.value(), 8);
}

std::string About(CmAbout about) {
  switch (about) {
    case CmAbout::kReq:
      return " about=REQ";
    case CmAbout::kRep:
      return " about=REP";
    case CmAbout::kOther:
    case CmAbout::kReserved:
      break;
  }
  return " about=other";
}

struct Values {
  std::string operator()(const CmReq& message) const {
    return Id(message.local_comm_id) + Service(message.service_id) + Number(message.local_qpn) +
           " psn=" + Hex(message.starting_psn.value(), 6);
  }
  std::string operator()(const CmMra& message) const {
    return Pair(message) + About(message.about) +
           " timeout=" + std::to_string(message.service_timeout);
  }
  std::string operator()(const CmRej& message) const {
    return Pair(message) + About(message.about) +
           " reason=" + std::to_string(static_cast<int>(message.reason));
  }
  std::string operator()(const CmRep& message) const {
    return Pair(message) + Number(message.local_qpn) +
           " psn=" + Hex(message.starting_psn.value(), 6);
  }
  std::string operator()(const CmRtu& message) const { return Pair(message); }
  std::string operator()(const CmDreq& message) const {
    return Pair(message) + Number(message.remote_qpn);
  }
  std::string operator()(const CmDrep& message) const { return Pair(message); }
  std::string operator()(const CmSidrReq& message) const {
    return Id(message.request_id) + Service(message.service_id);
  }
  std::string operator()(const CmSidrRep& message) const {
    return Id(message.request_id) + " status=" + std::to_string(static_cast<int>(message.status)) +
           Number(message.qpn) + " qkey=" + Hex(message.qkey, 8);
  }
  std::string operator()(const CmLap& message) const {
    return Pair(message) + Number(message.remote_qpn);
  }
  std::string operator()(const CmApr& message) const {
    return Pair(message) + " status=" + std::to_string(static_cast<int>(message.status));
  }
};

}  // namespace

std::string_view CmAttributeName(CmAttribute attribute) {
  constexpr std::string_view kNames[kCmAttributeCount] = {
      "REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};
  return kNames[IndexOf(attribute)];
}

std::string ToString(const CmMessage& message) {
  return std::string(CmAttributeName(message.attribute())) + std::visit(Values{}, message.body);
}

std::string_view ToString(CmDecodeResult result) {
  constexpr std::string_view kNames[kCmDecodeResultCount] = {
      "Ok",        "BadLength",        "BadBaseVersion", "NotCm",  "BadClassVersion",
      "BadMethod", "UnknownAttribute", "ZeroCommId",     "BadInfo"};
  return kNames[static_cast<int>(result)];
}

}  // namespace uroce::wire
