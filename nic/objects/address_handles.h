// SPDX-License-Identifier: Apache-2.0
// Address handles of a program.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/net/followed_paths.h"
#include "nic/objects/contexts.h"
#include "nic/objects/handle_table.h"
#include "nic/objects/program_core.h"
#include "nic/objects/program_part.h"
#include "pipeline/datapath/queue/address_table.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::nic {

struct AddressHandle {
  ProtectionDomain* pd = nullptr;
  FollowedPaths::Holder followed;
  datapath::AddressVector vector;
};

/// An address handle that passed its checks and waits for the MAC of its next hop.
struct AddressPlan {
  uroce_create_ah request{};
  PathKey path;
};

/// Control thread.
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

  void EndAllOf(const Context& context) override;
  /// Stops following their paths.
  void Release() override;

 private:
  ProgramCore& core_;
  const Contexts& contexts_;
  HandleTable<AddressHandle> ahs_;
};

}  // namespace uroce::nic
