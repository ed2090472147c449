// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/listen_address.h"

#include <arpa/inet.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace uroce::nic {
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
