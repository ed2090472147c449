// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/story/message_order.h"

#include "absl/strings/str_cat.h"
#include "pipeline/wire/to_string.h"

namespace uroce::tools::analyze {
namespace {

using Info = wire::OpcodeInfo;

constexpr char kOrderRule[] = "docs/protocol/transport.md, section 4.1, step 3";
constexpr char kLengthRule[] = "docs/protocol/transport.md, section 4.1, step 6";
constexpr char kPayloadRule[] = "docs/protocol/wire-format.md, section 5";
constexpr uint32_t kMostMessageBytes = uint32_t{1} << 31;

}  // namespace

std::optional<Violation> MessageOrder::CheckOrder(const wire::TransportHeader& header) const {
  const Info& info = wire::InfoOf(header.opcode);
  const auto name = [&] { return wire::OpcodeName(header.opcode); };
  if (state_ == State::kUnknown) return std::nullopt;
  const bool is_inside = state_ != State::kBetween;
  if (info.Has(Info::kFirst) && is_inside) {
    return Violation{kOrderRule, absl::StrCat(name(), " begins a message within another one")};
  }
  if (!info.Has(Info::kFirst) && !is_inside) {
    return Violation{kOrderRule, absl::StrCat(name(), " continues a message that did not begin")};
  }
  const bool fits = info.Has(Info::kFirst) || info.Has(Info::kSend) == (state_ == State::kInSend);
  if (fits) return std::nullopt;
  return Violation{kOrderRule, absl::StrCat(name(), " continues a message of another operation")};
}

std::optional<Violation> MessageOrder::CheckLength(const wire::TransportHeader& header,
                                                   uint32_t payload_bytes,
                                                   uint32_t mtu_bytes) const {
  const Info& info = wire::InfoOf(header.opcode);
  const auto name = [&] { return wire::OpcodeName(header.opcode); };
  if (header.reth.length_bytes > kMostMessageBytes && info.Has(Info::kReth)) {
    return Violation{kLengthRule, absl::StrCat(name(), " asks for ", header.reth.length_bytes,
                                               " bytes, more than 2^31")};
  }
  if (!info.Has(Info::kPayload)) return std::nullopt;
  if (mtu_bytes != 0 && info.Has(Info::kFullPayload) && payload_bytes != mtu_bytes) {
    return Violation{kPayloadRule,
                     absl::StrCat(name(), " has ", payload_bytes,
                                  " bytes of payload, not the path MTU of ", mtu_bytes)};
  }
  if (mtu_bytes != 0 && payload_bytes > mtu_bytes) {
    return Violation{kPayloadRule, absl::StrCat(name(), " has ", payload_bytes,
                                                " bytes, more than the path MTU of ", mtu_bytes)};
  }
  if (!info.Has(Info::kFirst) && payload_bytes == 0) {
    return Violation{kPayloadRule, absl::StrCat(name(), " has no payload")};
  }
  return std::nullopt;
}

std::optional<Violation> MessageOrder::OnRequest(const wire::TransportHeader& header,
                                                 uint32_t payload_bytes, uint32_t mtu_bytes) {
  const Info& info = wire::InfoOf(header.opcode);
  std::optional<Violation> found = CheckOrder(header);
  if (!found) found = CheckLength(header, payload_bytes, mtu_bytes);
  if (info.Has(Info::kFirst)) sent_bytes_ = 0;
  if (info.Has(Info::kFirst)) promised_bytes_ = header.reth.length_bytes;
  sent_bytes_ += payload_bytes;
  const bool is_whole_write = info.Has(Info::kWrite) && info.Has(Info::kLast) &&
                              (info.Has(Info::kFirst) || state_ == State::kInWrite);
  if (!found && is_whole_write && sent_bytes_ != promised_bytes_) {
    found = Violation{kLengthRule, absl::StrCat("a WRITE of ", promised_bytes_, " bytes ends with ",
                                                sent_bytes_, " bytes")};
  }
  const State inside = info.Has(Info::kSend) ? State::kInSend : State::kInWrite;
  const bool knows = info.Has(Info::kFirst) || info.Has(Info::kLast) || state_ != State::kUnknown;
  state_ = info.Has(Info::kLast) ? State::kBetween : (knows ? inside : State::kUnknown);
  return found;
}

}  // namespace uroce::tools::analyze
