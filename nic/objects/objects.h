// SPDX-License-Identifier: Apache-2.0
// Contexts and protection domains, to which the objects of all kinds belong. Each object counts the
// objects that use it; a program cannot destroy one that is in use. Control thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "nic/devices/nic_device.h"
#include "nic/objects/numbers.h"
#include "pipeline/datapath/queue/notification.h"
#include "pipeline/os/fd.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// An object of another program, which may no longer exist.
struct ForeignObject {
  uint32_t program = 0;  ///< Id of the program; ids are not reused.
  uint32_t handle = 0;
};

struct Context {
  std::shared_ptr<NicDevice> device;  ///< May have been removed.
  Fd events;                          ///< The socket for its asynchronous events.
  datapath::EventRecords port_events;
  uint32_t users = 0;
  uroce_context_name name{};            ///< A program that knows the name may import the context.
  std::optional<ForeignObject> origin;  ///< Of an imported context.
  uint32_t handle = 0;
};

struct ProtectionDomain {
  Context* context = nullptr;
  std::shared_ptr<Domain> domain;
  Domain::Use share;  ///< Set for a domain that another program made.
  uint32_t users = 0;
  uint32_t number() const { return domain->number(); }
};

/// A range of the program's arena.
struct ArenaRange {
  uint64_t offset = 0;
  uint64_t length_bytes = 0;
};

}  // namespace uroce::nic
