// SPDX-License-Identifier: Apache-2.0
#include "tools/capture/flags.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "tools/client/whole_number.h"

namespace uroce::tools {

namespace {

/// A check that names the words instead of the numbers that they stand for.
CLI::Validator OneOf(const std::map<std::string, uint32_t>& words, const std::string& named) {
  return CLI::Validator(
      [words, named](std::string& word) {
        const auto found = words.find(word);
        if (found == words.end()) return word + " is none of " + named;
        word = std::to_string(found->second);
        return std::string();
      },
      "{" + absl::StrReplaceAll(named, {{", ", ","}}) + "}");
}

}  // namespace

void AddCaptureFlags(CLI::App& app, CaptureOptions& options) {
  app.add_option("-s,--snap-length", options.snap_length_bytes,
                 "Bytes kept of each frame (default 0: all)")
      ->check(WholeNumber(0, 65536));
  app.add_option("-Q,--direction", options.directions, "in, out or inout (default)")
      ->transform(OneOf({{"in", UROCE_CAPTURE_INBOUND},
                         {"out", UROCE_CAPTURE_OUTBOUND},
                         {"inout", UROCE_CAPTURE_INBOUND | UROCE_CAPTURE_OUTBOUND}},
                        "in, out, inout"));
  const auto add_kinds = [&options](const std::vector<uint32_t>& kinds) {
    for (const uint32_t kind : kinds) options.only |= kind;
  };
  app.add_option_function<std::vector<uint32_t>>(
         "--only", add_kinds,
         "Only frames that were dropped, retransmitted or marked (several: joined by ',')")
      ->delimiter(',')
      ->allow_extra_args(false)  // The filter comes next.
      ->transform(OneOf({{"dropped", UROCE_CAPTURE_DROPPED},
                         {"retransmitted", UROCE_CAPTURE_RETRANSMITTED},
                         {"marked", UROCE_CAPTURE_MARKED}},
                        "dropped, retransmitted, marked"));
  app.add_option("--ring-bytes", options.ring_bytes,
                 "Memory in which packets wait for this program (default: 64 MiB)")
      ->check(WholeNumber(uint64_t{1} << 16, uint64_t{1} << 32));
}

}  // namespace uroce::tools
