// SPDX-License-Identifier: Apache-2.0
#include "tools/capture_flags.h"

#include <map>
#include <string>

namespace uroce::tools {

void AddCaptureFlags(CLI::App& app, CaptureOptions& options) {
  app.add_option("-s,--snap-length", options.snap_length_bytes,
                 "Bytes kept of each frame (default 0: all)")
      ->check(CLI::Range(0, 65536));
  app.add_option("-Q,--direction", options.directions, "in, out or inout (default)")
      ->transform(CLI::Transformer(std::map<std::string, uint32_t>{
          {"in", UROCE_CAPTURE_INBOUND},
          {"out", UROCE_CAPTURE_OUTBOUND},
          {"inout", UROCE_CAPTURE_INBOUND | UROCE_CAPTURE_OUTBOUND}}))
      ->check(CLI::Range(1, 3).description("in, out or inout"));
}

}  // namespace uroce::tools
