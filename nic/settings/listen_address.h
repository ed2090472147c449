// SPDX-License-Identifier: Apache-2.0
// Where the daemon listens for HTTP. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace uroce::nic {

struct ListenAddress {
  std::string path;  ///< Of a Unix socket; or "", and the next two are set.
  std::string host;  ///< A numeric IPv4 or IPv6 address.
  uint16_t port = 0;
};

/// Takes "127.0.0.1:9464", "[::1]:9464", or an absolute path of up to 100 bytes. Names of hosts are
/// refused: to look one up may take long. Errors: InvalidArgument, without the name of the setting.
absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text);

}  // namespace uroce::nic
