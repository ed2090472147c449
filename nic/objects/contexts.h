// SPDX-License-Identifier: Apache-2.0
// Contexts and protection domains of a program, to which its objects of all other kinds belong.
// Each object counts the objects that use it; a program cannot destroy one that is in use.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/objects/lifetimes.h"
#include "nic/objects/numbers.h"
#include "nic/objects/program_core.h"
#include "nic/objects/resources.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/os/fd.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

class NicDevice;

/// A context of another program, or of this one, which may no longer exist. A handle would not do:
/// the program's next context may have the same one.
struct ContextOrigin {
  uint32_t program = 0;  ///< Id of the program.
  uroce_context_name name{};
};

struct Context {
  std::shared_ptr<NicDevice> device;  ///< May have been removed.
  UserSocket events;                  ///< The socket for its asynchronous events.
  datapath::EventRecords port_events;
  uroce_context_name name{};            ///< A program that knows the name may import the context.
  std::optional<ContextOrigin> origin;  ///< Of an imported context.
  uint32_t handle = 0;
  Users users;
};

/// Checks that the objects which a new object of `context` would use are of this context. `used`
/// has their contexts, `kind` is the new object's: "cq", "qp". Errors: InvalidArgument.
absl::Status CheckContext(const char* kind, const Context& context,
                          std::initializer_list<const Context*> used);

struct ProtectionDomain {
  Use<Context> context;
  std::shared_ptr<Domain> domain;
  Domain::Use share;  ///< Set for a domain that another program made.
  Users users;
  uint32_t number() const { return domain->number(); }
};

/// The contexts and protection domains of one program. Control thread.
class Contexts : public ProgramPart {
 public:
  explicit Contexts(ProgramCore& core);

  /// `name` is a file that allows another program to import the context.
  absl::StatusOr<uint32_t> Open(const uroce_open_context& request, Fd& events, Fd& name);
  /// Makes a context for `origin`, which another program or this one has made.
  absl::StatusOr<uint32_t> Import(NicDevice& device, const ContextOrigin& origin, Fd& events);
  /// The context with this name, if this program made it and has not closed it; else null.
  Context* Named(const uroce_context_name& name) const;
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
  bool EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) override;
  /// Ends all protection domains; the contexts stay until EndSomeContexts.
  bool EndSome(absl::FunctionRef<bool()> is_over) override { return pds_.EndAll(is_over); }
  bool EndSomeContexts(absl::FunctionRef<bool()> is_over) { return contexts_.EndAll(is_over); }

  /// For dumps, as is the next.
  const HandleTable<Context>& table() const { return contexts_; }
  const HandleTable<ProtectionDomain>& pds() const { return pds_; }

 private:
  absl::StatusOr<uint32_t> Add(NicDevice& device, const uroce_context_name& name,
                               std::optional<ContextOrigin> origin, Fd& events);

  ProgramCore& core_;
  HandleTable<Context> contexts_;
  HandleTable<ProtectionDomain> pds_;
};

}  // namespace uroce::nic
