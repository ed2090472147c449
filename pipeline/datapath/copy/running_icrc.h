// SPDX-License-Identifier: Apache-2.0
// The ICRC of a packet while its payload is copied into the frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "pipeline/wire/icrc.h"

namespace uroce::datapath {

/// The CRC register after the bytes that are in the frame. Where the ICRC is left out
/// (drivers/pending_icrc.h), bytes are copied only.
class RunningIcrc {
 public:
  RunningIcrc(uint32_t state, bool is_left_out) : state_(state), is_left_out_(is_left_out) {}

  void Copy(uint8_t* to, const uint8_t* from, size_t length_bytes) {
    if (is_left_out_) {
      std::memcpy(to, from, length_bytes);
    } else {
      state_ = wire::CopyCrc32(state_, to, from, length_bytes);
    }
  }
  /// For bytes that the frame has already.
  void Pass(std::span<const uint8_t> bytes) {
    if (!is_left_out_) state_ = wire::Crc32Update(state_, bytes);
  }

  /// Meaningless if the ICRC is left out.
  uint32_t state() const { return state_; }
  bool is_left_out() const { return is_left_out_; }

 private:
  uint32_t state_;
  bool is_left_out_;
};

}  // namespace uroce::datapath
