// SPDX-License-Identifier: Apache-2.0
// A command of rdma_cm's ABI, and its answer. Pure.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace uroce::nic::ucma {

/// All fields are untrusted input.
struct Command {
  uint32_t number = 0;              ///< RDMA_USER_CM_CMD_*
  std::span<const uint8_t> in;      ///< Its structure.
  std::span<const uint8_t> option;  ///< The bytes behind it: the value of an option.
  size_t out_bytes = 0;             ///< Room for its response.
};

/// Splits the written bytes. Returns 0, or EINVAL if the header claims more than there is.
int ParseCommand(std::span<const uint8_t> bytes, Command& command);

/// The result of a command.
struct Answer {
  int error = 0;  ///< 0 or a positive errno.
  /// How often the event queue of the file (for MIGRATE_ID: of the file that the id came from) has
  /// become empty since the last answer.
  uint32_t emptied = 0;
  uint32_t old_emptied = 0;
  std::vector<uint8_t> response;
};

/// Copies the command's structure. Older programs may write only its first `least_bytes` or more.
/// Returns 0, or EINVAL if it is shorter than that.
template <typename T>
int Read(const Command& command, T& value, size_t least_bytes = sizeof(T)) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (command.in.size() < least_bytes) return EINVAL;
  std::memcpy(&value, command.in.data(), std::min(command.in.size(), sizeof(T)));
  return 0;
}

/// Makes `value` the response, truncated to the room that the program gives. Returns 0, or ENOSPC
/// if that is less than `least_bytes`.
template <typename T>
int Respond(const Command& command, const T& value, Answer& answer,
            size_t least_bytes = sizeof(T)) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (command.out_bytes < least_bytes) return ENOSPC;
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  answer.response.assign(bytes, bytes + std::min(command.out_bytes, sizeof(T)));
  return 0;
}

}  // namespace uroce::nic::ucma
