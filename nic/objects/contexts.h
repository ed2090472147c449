// SPDX-License-Identifier: Apache-2.0
// Contexts and protection domains of a program.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/objects/handle_table.h"
#include "nic/objects/objects.h"
#include "nic/objects/program_core.h"
#include "nic/objects/program_part.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// Control thread.
class Contexts : public ProgramPart {
 public:
  explicit Contexts(ProgramCore& core);

  /// `name` is the file by which another program may import it.
  absl::StatusOr<uint32_t> Open(const uroce_open_context& request, Fd& events, Fd& name);
  /// A context for `origin`, which another program has made, or this one.
  absl::StatusOr<uint32_t> Import(NicDevice& device, const ForeignObject& origin, Fd& events);
  /// The context of this name, if this program has made it.
  std::optional<uint32_t> Named(const uroce_context_name& name) const;
  /// Errors: InvalidArgument.
  absl::StatusOr<Context*> Find(uint32_t handle) const { return contexts_.Find(handle); }
  /// Nothing is in it any more.
  void Remove(uint32_t handle) { contexts_.Remove(handle); }
  absl::StatusOr<uroce_port_info> QueryPort(uint32_t handle) const;
  absl::StatusOr<std::vector<uroce_gid_entry>> QueryGids(uint32_t handle) const;
  /// Tells every context of `device` of a port event.
  void RaisePortEvent(const NicDevice& device, uint32_t event_type) const;

  absl::StatusOr<uint32_t> AllocPd(uint32_t context);
  /// A protection domain for one that a program shares.
  absl::StatusOr<uint32_t> AddPd(Context& context, std::shared_ptr<Domain> domain,
                                 Domain::Use share);
  absl::StatusOr<ProtectionDomain*> FindPd(uint32_t handle) const { return pds_.Find(handle); }
  absl::Status DeallocPd(uint32_t handle);
  /// Its protection domains; the context stays until Remove.
  void EndAllOf(const Context& context) override;

 private:
  absl::StatusOr<uint32_t> Add(NicDevice& device, const uroce_context_name& name,
                               std::optional<ForeignObject> origin, Fd& events);

  ProgramCore& core_;
  HandleTable<Context> contexts_;
  HandleTable<ProtectionDomain> pds_;
};

}  // namespace uroce::nic
