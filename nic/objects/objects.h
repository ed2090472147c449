// SPDX-License-Identifier: Apache-2.0
// Contexts and protection domains, to which the objects of all kinds belong. Each object counts the
// objects that use it; a program cannot destroy one that is in use. Control thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "nic/base/fd.h"
#include "nic/devices/nic_device.h"
#include "nic/objects/domain.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// Another program's object, which may be gone.
struct ForeignObject {
  uint32_t program = 0;  ///< Its number; none is given out again.
  uint32_t handle = 0;
};

struct Context {
  NicDevice* device = nullptr;
  Fd events;  ///< Where its asynchronous events are sent.
  uint32_t users = 0;
  uroce_context_name name{};            ///< Who knows it may import the context.
  std::optional<ForeignObject> origin;  ///< Of an imported context.
};

struct ProtectionDomain {
  Context* context = nullptr;
  std::shared_ptr<Domain> domain;
  Domain::Use share;  ///< Of one that another program made.
  uint32_t users = 0;
  uint32_t number() const { return domain->number(); }
};

/// A range of the program's arena.
struct ArenaRange {
  uint64_t offset = 0;
  uint64_t length_bytes = 0;
};

}  // namespace uroce::nic
