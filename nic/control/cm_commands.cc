// SPDX-License-Identifier: Apache-2.0
// Commands for librdmacm: its files, and what it writes to them.
#include "nic/control/command_body.h"
#include "nic/control/rdma_cm_host.h"
#include "nic/control/session.h"

namespace uroce::nic {

absl::Status Session::OpenCm(Body, Reply& reply) {
  if (cm_files_ == nullptr) {
    const rdma_cm::Owner owner{.session = id_, .uid = peer_.uid, .is_privileged = is_privileged()};
    const auto has_queue_pair = [this](Qpn qpn) { return program_->HasQueuePair(qpn); };
    cm_files_ = std::make_unique<CmFiles>(context_.loop, context_.nic, context_.rdma_cm.service(),
                                          owner, has_queue_pair);
  }
  Fd program_end;
  const absl::Status status = AddHandle(cm_files_->Open(program_end), reply);
  if (status.ok()) reply.Give(std::move(program_end));
  return status;
}

// What becomes of the command itself is in the reply: its errors are the kernel's, not ours.
absl::Status Session::WriteCm(Body body, Reply& reply) {
  if (cm_files_ == nullptr) return absl::InvalidArgumentError("cm: no file is open");
  const auto request = Read<uroce_write_cm>(body);
  cm_files_->Write(request, body.subspan(sizeof(request)), reply);
  return absl::OkStatus();
}

}  // namespace uroce::nic
