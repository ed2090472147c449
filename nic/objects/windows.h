// SPDX-License-Identifier: Apache-2.0
// Memory windows of a program. Workers bind them (pipeline/datapath/memory/memory_keys.h).
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/objects/contexts.h"
#include "nic/objects/lifetimes.h"
#include "nic/objects/program_core.h"
#include "nic/objects/resources.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

struct WindowObject {
  WindowObject(ProtectionDomain* its_pd, datapath::MemoryWindow::Type type, uint32_t key);
  Use<ProtectionDomain> pd;
  datapath::MemoryWindow window;
  datapath::MemoryRegion entry;  ///< Its entry in the table of keys.
};

/// Control thread.
class Windows : public ProgramPart {
 public:
  Windows(ProgramCore& core, const Contexts& contexts);

  absl::StatusOr<uroce_alloc_mw_reply> Alloc(const uroce_alloc_mw& request);
  /// Frees the window, bound or not; it grants no access any more.
  absl::Status Dealloc(uint32_t handle);

  bool EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) override;
  bool EndSome(absl::FunctionRef<bool()> is_over) override;

  /// For dumps.
  const HandleTable<WindowObject>& table() const { return mws_; }

 private:
  /// Call it after the grace period.
  void End(const WindowObject& object);

  ProgramCore& core_;
  const Contexts& contexts_;
  HandleTable<WindowObject> mws_;
};

}  // namespace uroce::nic
