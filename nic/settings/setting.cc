// SPDX-License-Identifier: Apache-2.0
// A setting as it was written, and the parsers of single values: amounts, rates, and addresses to
// listen on. Pure.
#include "nic/settings/setting.h"

#include <arpa/inet.h>

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pipeline/os/amount.h"

namespace uroce::nic {

absl::StatusOr<Setting> SplitFields(std::string origin, std::string key, const std::string& value) {
  Setting setting{std::move(origin), std::move(key), value, {}};
  for (absl::string_view part : absl::StrSplit(value, ',', absl::SkipWhitespace())) {
    part = absl::StripAsciiWhitespace(part);
    std::pair<std::string, std::string> field = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (!absl::StrContains(part, '=')) {
      return Complain(setting, absl::StrCat("\"", part, "\" is not of the form key=value"));
    }
    setting.fields.push_back(std::move(field));
  }
  return setting;
}

absl::Status Complain(const Setting& setting, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(setting.origin, ": ", what));
}

absl::Status CheckKeysDiffer(const Setting& setting) {
  for (size_t i = 0; i < setting.fields.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (setting.fields[i].first != setting.fields[j].first) continue;
      return Complain(setting, absl::StrCat("\"", setting.fields[i].first, "\" is given twice"));
    }
  }
  return absl::OkStatus();
}

namespace {

constexpr uint64_t kMinRate = 1'000'000;
constexpr uint64_t kMaxRate = 400'000'000'000;

}  // namespace

absl::Status ParseRate(absl::string_view text, uint64_t& rate_bps) {
  const auto parsed = ParseAmount(text);
  if (!parsed || *parsed < kMinRate || *parsed > kMaxRate) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is not a rate in bits per second from 1M to 400G, such as 10G"));
  }
  rate_bps = *parsed;
  return absl::OkStatus();
}

namespace {

constexpr size_t kMaxPathBytes = 100;
constexpr uint32_t kMaxPort = 65535;

bool IsNumericHost(const std::string& host, bool is_bracketed) {
  in6_addr address{};
  return inet_pton(is_bracketed ? AF_INET6 : AF_INET, host.c_str(), &address) == 1;
}

}  // namespace

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text) {
  ListenAddress address;
  if (absl::StartsWith(text, "/")) {
    if (text.size() > kMaxPathBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\" is longer than ", kMaxPathBytes, " bytes"));
    }
    address.path = text;
    return address;
  }
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  const bool has_port = colon != std::string::npos &&
                        absl::SimpleAtoi(text.substr(colon + 1), &port) && port != 0 &&
                        port <= kMaxPort;
  std::string host = text.substr(0, colon);
  const bool is_bracketed = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  if (!has_port || !IsNumericHost(host, is_bracketed)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is none of 127.0.0.1:9464, [::1]:9464 and an absolute path"));
  }
  address.host = std::move(host);
  address.port = static_cast<uint16_t>(port);
  return address;
}

}  // namespace uroce::nic
