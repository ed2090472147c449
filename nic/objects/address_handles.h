// SPDX-License-Identifier: Apache-2.0
// Address handles of a program, and the paths of packets that address vectors name.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nic/net/followed_paths.h"
#include "nic/objects/contexts.h"
#include "nic/objects/lifetimes.h"
#include "nic/objects/program_core.h"
#include "nic/objects/resources.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

/// The path from an address of the device to a destination. Error messages begin with `what`.
/// Errors: InvalidArgument: the source index is empty, there is no destination, or the two are of
/// different families.
absl::StatusOr<PathKey> PathKeyOf(absl::string_view what, const NicDevice& device,
                                  const uroce_ah_attr& attr);

/// The path with the next hop's MAC `destination`; the other fields come from `attr`. The caller
/// adds the queue pair and the UDP source port.
datapath::Path MakePath(const PathKey& key, const Mac& destination, const uroce_ah_attr& attr);

struct AddressHandle {
  Use<ProtectionDomain> pd;
  FollowedPaths::Holder followed;
  datapath::AddressVector vector;
};

/// An address handle that passed its checks and waits for the MAC of its next hop.
struct AddressPlan {
  uroce_create_ah request{};
  PathKey path;
};

/// The address handles of one program. Control thread.
class AddressHandles : public ProgramPart {
 public:
  AddressHandles(ProgramCore& core, const Contexts& contexts);

  /// Checks all that can be checked now, and names the path whose next hop's MAC is needed.
  absl::StatusOr<AddressPlan> Plan(const uroce_create_ah& request) const;
  /// `destination` is that MAC. `followed` keeps it up to date, or is null if nothing does.
  absl::StatusOr<uint32_t> Create(const AddressPlan& plan, const Mac& destination,
                                  FollowedPaths::Holder followed);
  /// Checks that the address handle exists, before workers are asked about it.
  absl::Status Check(uint32_t handle) const { return ahs_.Find(handle).status(); }
  absl::Status Destroy(uint32_t handle);

  bool EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) override;
  /// Stops following their paths.
  bool EndSome(absl::FunctionRef<bool()> is_over) override;

 private:
  /// Makes the table of the program's handles for workers, once. Errors: ResourceExhausted.
  absl::Status MakeTable();

  ProgramCore& core_;
  const Contexts& contexts_;
  HandleTable<AddressHandle> ahs_;
  bool has_table_ = false;
};

}  // namespace uroce::nic
