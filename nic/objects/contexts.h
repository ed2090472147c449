// SPDX-License-Identifier: Apache-2.0
// Contexts and protection domains of a program, to which its objects of all other kinds belong.
// Each object counts the objects that use it; a program cannot destroy one that is in use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nic/objects/numbers.h"
#include "nic/objects/program_core.h"
#include "nic/objects/resources.h"
#include "pipeline/datapath/queue/notification.h"
#include "pipeline/os/fd.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

class NicDevice;

/// The refusal to destroy what other objects use. `kind` as programs know it: "cq", "pd".
inline absl::Status StillInUse(const char* kind, uint32_t users) {
  return absl::FailedPreconditionError(absl::StrCat(kind, ": ", users, " objects still use it"));
}

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

/// The contexts and protection domains of one program. Control thread.
class Contexts : public ProgramPart {
 public:
  explicit Contexts(ProgramCore& core);

  /// `name` is a file that allows another program to import the context.
  absl::StatusOr<uint32_t> Open(const uroce_open_context& request, Fd& events, Fd& name);
  /// Makes a context for `origin`, which another program or this one has made.
  absl::StatusOr<uint32_t> Import(NicDevice& device, const ForeignObject& origin, Fd& events);
  /// The handle of the context with this name, if this program made it.
  std::optional<uint32_t> Named(const uroce_context_name& name) const;
  /// Errors: InvalidArgument; Cancelled: its device was removed.
  absl::StatusOr<Context*> Find(uint32_t handle) const;
  /// The same for a context whose device may have been removed. Errors: InvalidArgument.
  absl::StatusOr<Context*> FindAny(uint32_t handle) const { return contexts_.Find(handle); }
  /// Removes a context that has no objects any more.
  void Remove(uint32_t handle) { contexts_.Remove(handle); }
  absl::StatusOr<uroce_port_info> QueryPort(uint32_t handle) const;
  absl::StatusOr<std::vector<uroce_gid_entry>> QueryGids(uint32_t handle) const;
  /// Sends a port event to every context of `device`. What cannot be sent now, since the socket is
  /// full or the user's wake-ups rest, is kept for RetryPortEvents.
  void RaisePortEvent(const NicDevice& device, uint32_t event_type) const;
  void RetryPortEvents() const;

  absl::StatusOr<uint32_t> AllocPd(uint32_t context);
  /// Adds a protection domain for a domain that another program shares.
  absl::StatusOr<uint32_t> AddPd(Context& context, std::shared_ptr<Domain> domain,
                                 Domain::Use share);
  /// Errors: as Find.
  absl::StatusOr<ProtectionDomain*> FindPd(uint32_t handle) const;
  absl::Status DeallocPd(uint32_t handle);
  /// Ends its protection domains; the context stays until Remove.
  void EndAllOf(const Context& context) override;

  /// For dumps, as is the next.
  const HandleTable<Context>& table() const { return contexts_; }
  const HandleTable<ProtectionDomain>& pds() const { return pds_; }

 private:
  absl::StatusOr<uint32_t> Add(NicDevice& device, const uroce_context_name& name,
                               std::optional<ForeignObject> origin, Fd& events);

  ProgramCore& core_;
  HandleTable<Context> contexts_;
  HandleTable<ProtectionDomain> pds_;
};

}  // namespace uroce::nic
