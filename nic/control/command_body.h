// SPDX-License-Identifier: Apache-2.0
// From the bytes of a command to its structure, and from results to the bytes of a reply.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/control/message.h"
#include "verbs-shim/abi/uroce_commands.h"

namespace uroce::nic {

/// The dispatcher has checked the size.
template <typename T>
T Read(std::span<const uint8_t> body) {
  T value;
  std::memcpy(&value, body.data(), sizeof(value));
  return value;
}

inline uint32_t HandleIn(std::span<const uint8_t> body) { return Read<uroce_handle>(body).handle; }

inline absl::Status AddHandle(const absl::StatusOr<uint32_t>& handle, Reply& reply) {
  if (handle.ok()) reply.Add(uroce_handle{*handle, 0});
  return handle.status();
}

template <typename T>
absl::Status AddResult(const absl::StatusOr<T>& result, Reply& reply) {
  if (result.ok()) reply.Add(*result);
  return result.status();
}

}  // namespace uroce::nic
