// SPDX-License-Identifier: Apache-2.0
// A setting as it was written, and the parsers of single values: amounts, rates, and addresses to
// listen on. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace uroce::nic {

/// A setting as it was written, in a flag or in the file. The keys port, wire and switch use
/// `fields` instead of `value`.
struct Setting {
  std::string origin;  ///< "--workers", "uroced.toml: workers": begins error messages.
  std::string key;
  std::string value;
  std::vector<std::pair<std::string, std::string>> fields;
  bool has_former_name = false;  ///< It was written under a name that `key` has replaced.
};

/// Splits "name=uroce0,ip=..." at ',', beside which blanks and line breaks are allowed, and each
/// part at its first '='.
absl::StatusOr<Setting> SplitFields(std::string origin, std::string key, const std::string& value);

/// An error of `setting`: its origin, then `what`.
absl::Status Complain(const Setting& setting, absl::string_view what);

/// Errors: two of the setting's fields have the same key.
absl::Status CheckKeysDiffer(const Setting& setting);

/// Parses a rate in bits per second, 1M to 400G. Errors: one line that says what would be right.
absl::Status ParseRate(absl::string_view text, uint64_t& rate_bps);

/// Where the daemon listens for HTTP.
struct ListenAddress {
  std::string path;  ///< Of a Unix socket; or "", and the next two are set.
  std::string host;  ///< A numeric IPv4 or IPv6 address.
  uint16_t port = 0;
};

/// Takes "127.0.0.1:9464", "[::1]:9464", or an absolute path of up to 100 bytes. Names of hosts are
/// refused: to look one up may take long. Errors: InvalidArgument, without the name of the setting.
absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text);

}  // namespace uroce::nic
