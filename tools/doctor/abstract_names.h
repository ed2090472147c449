// SPDX-License-Identifier: Apache-2.0
// The names of Unix sockets that are no files, as the kernel's socket monitor lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace uroce::tools {

struct NamedSocket {
  std::string name;  ///< Any bytes: those behind the 0 that such a name begins with.
  std::string inode;
};

/// The sockets of this network namespace that have such names. /proc/net/unix has them too, but a
/// program may put an end of a line and further lines into the name of its socket, and so say
/// anything of the sockets of others. nullopt: the kernel does not list them (module unix_diag).
std::optional<std::vector<NamedSocket>> ReadAbstractNames();

}  // namespace uroce::tools
