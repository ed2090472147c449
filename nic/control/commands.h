// SPDX-License-Identifier: Apache-2.0
// The table of commands of the control socket.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "nic/base/message.h"
#include "nic/control/command_body.h"

namespace uroce::nic {

class ControlConnection;

/// One command, and the method that executes it.
struct Command {
  uint32_t number;
  size_t body_bytes;  ///< Exact size, or the minimum for a command that ends in a list.
  bool has_list;
  bool needs_program;  ///< The command requires an earlier HELLO.
  absl::Status (*run)(ControlConnection& connection, Body body, Reply& reply);
};

/// Null when there is no such command.
const Command* FindCommand(uint32_t number);

}  // namespace uroce::nic
