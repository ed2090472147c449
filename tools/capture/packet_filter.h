// SPDX-License-Identifier: Apache-2.0
// A libpcap filter expression on Ethernet frames.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

struct bpf_program;

namespace uroce::tools {

/// A compiled filter. An empty expression lets every frame pass.
class PacketFilter {
 public:
  /// Errors: kInvalidArgument with libpcap's reason.
  static absl::StatusOr<PacketFilter> Compile(const std::string& expression);

  bool Matches(std::span<const uint8_t> frame, uint32_t wire_length_bytes) const;

 private:
  struct Free {
    void operator()(bpf_program* program) const;
  };
  std::unique_ptr<bpf_program, Free> program_;
};

}  // namespace uroce::tools
