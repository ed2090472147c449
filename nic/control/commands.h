// SPDX-License-Identifier: Apache-2.0
// The commands of the control socket: from bytes to the objects of a program and back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "nic/base/message.h"
#include "nic/control/command_body.h"

namespace uroce::nic {

class ControlConnection;

/// One command, and the method that carries it out.
struct Command {
  uint32_t number;
  size_t body_bytes;  ///< Exactly, or at least for one that ends in a list.
  bool has_list;
  bool needs_program;  ///< HELLO was said.
  absl::Status (*run)(ControlConnection& connection, Body body, Reply& reply);
};

/// Null: there is no such command.
const Command* FindCommand(uint32_t number);

}  // namespace uroce::nic
