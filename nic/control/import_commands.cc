// SPDX-License-Identifier: Apache-2.0
// Commands on what another program made, and let this one have.
#include "nic/control/command_body.h"
#include "nic/control/session.h"

namespace uroce::nic {

absl::StatusOr<Program*> Session::ProgramNumbered(uint32_t id) const {
  for (const Session* session : context_.sessions()) {
    if (session->id() == id && session->program() != nullptr) return session->program();
  }
  return absl::InvalidArgumentError("the program that made it is gone");
}

absl::Status Session::ImportContext(Body body, Reply& reply) {
  const auto name = Read<uroce_context_name>(body);
  for (const Session* session : context_.sessions()) {
    if (session->program() == nullptr) continue;
    const std::optional<uint32_t> handle = session->program()->ContextNamed(name);
    if (!handle) continue;
    Fd events;
    absl::Status status =
        AddResult(program_->ImportContext(*session->program(), *handle, events), reply);
    if (status.ok()) reply.Give(std::move(events));
    return status;
  }
  return absl::InvalidArgumentError("there is no context of this name");
}

absl::Status Session::ImportPd(Body body, Reply& reply) {
  const auto request = Read<uroce_import>(body);
  const absl::StatusOr<uint32_t> number = program_->MakerOfContext(request.owner);
  if (!number.ok()) return number.status();
  const absl::StatusOr<Program*> maker = ProgramNumbered(*number);
  return maker.ok() ? AddHandle(program_->ImportPd(**maker, request), reply) : maker.status();
}

absl::Status Session::ImportMr(Body body, Reply& reply) {
  const auto request = Read<uroce_import>(body);
  const absl::StatusOr<uint32_t> number = program_->MakerOfPd(request.owner);
  if (!number.ok()) return number.status();
  const absl::StatusOr<Program*> maker = ProgramNumbered(*number);
  return maker.ok() ? AddResult(program_->ImportMr(**maker, request), reply) : maker.status();
}

}  // namespace uroce::nic
