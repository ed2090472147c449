// SPDX-License-Identifier: Apache-2.0
// Construction of a program, and the order in which its objects are destroyed.
#include "nic/objects/program.h"

#include <utility>

namespace uroce::nic {

absl::StatusOr<std::unique_ptr<Program>> Program::Make(Nic& nic, uint32_t id, uint32_t uid,
                                                       std::shared_ptr<SideThread> files_thread) {
  absl::StatusOr<std::unique_ptr<ProgramCore>> core = ProgramCore::Make(nic, id, uid);
  if (!core.ok()) return core.status();
  return std::unique_ptr<Program>(new Program(*std::move(core), std::move(files_thread)));
}

Program::Program(std::unique_ptr<ProgramCore> core, std::shared_ptr<SideThread> files_thread)
    : core_(std::move(core)), segments_(*core_, remapped_, std::move(files_thread)) {
  core_->nic().programs().emplace(core_->id(), this);
  core_->Join();
}

// Queue pairs end first, so that an ended program is silent to its peers, and their retries run
// out. If keys ended first, queue pairs would refuse the peers' requests.
Program::~Program() {
  Nic& nic = core_->nic();
  nic.programs().erase(core_->id());
  ForEachPart([](ProgramPart& part) { part.LeaveWorkers(); });
  nic.workers().RunOnEach(
      [this](datapath::Worker& worker) { worker.RemoveSession(&core_->session()); });
  xrc_.CloseAllTargets();
  ForEachPart([](ProgramPart& part) { part.Unpublish(); });
  core_->AwaitGrace();
  ForEachPart([](ProgramPart& part) { part.Release(); });
}

// None of these can fail: no remaining object uses what ends.
absl::StatusOr<std::vector<std::unique_ptr<MemoryObject>>> Program::CloseContext(uint32_t handle) {
  const absl::StatusOr<Context*> found = contexts_.FindAny(handle);
  if (!found.ok()) return found.status();
  ForEachPart([&context = **found](ProgramPart& part) { part.EndAllOf(context); });
  contexts_.Remove(handle);
  return regions_.TakeEnded();
}

}  // namespace uroce::nic
