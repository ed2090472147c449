// SPDX-License-Identifier: Apache-2.0
// Birth and death of a program's objects.
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
    : core_(std::move(core)),
      contexts_(*core_),
      remapped_(*core_),
      segments_(*core_, remapped_, std::move(files_thread)),
      regions_(*core_, contexts_, segments_, remapped_),
      windows_(*core_, contexts_),
      completion_queues_(*core_, contexts_),
      xrc_(*core_, contexts_),
      shared_receive_queues_(*core_, contexts_, completion_queues_, xrc_),
      queue_pairs_(*core_, contexts_, completion_queues_, shared_receive_queues_, xrc_),
      address_handles_(*core_, contexts_) {
  core_->nic().programs().emplace(core_->id(), this);
  core_->Join();
}

// Queue pairs first: to its peers a program that ended is silent, and their retries run out. Keys
// that go before would have it refuse what they ask.
Program::~Program() {
  Nic& nic = core_->nic();
  nic.programs().erase(core_->id());
  queue_pairs_.LeaveWorkers();
  nic.workers().RunOnEach([this](datapath::Worker& worker) {
    shared_receive_queues_.LeaveWorker(worker);
    completion_queues_.LeaveWorker(worker);
    worker.RemoveSession(&core_->session());
  });
  xrc_.CloseAllTargets();
  regions_.UnpublishAll();
  windows_.UnpublishAll();
  core_->AwaitGrace();
  address_handles_.ForgetPaths();
  completion_queues_.ForgetOverflows();
  queue_pairs_.ReleaseNumbers();
  shared_receive_queues_.ReleaseNumbers();
  regions_.ReleaseKeys();
  windows_.ReleaseKeys();
}

// In the order in which they need each other; none of these can fail.
absl::StatusOr<std::vector<std::unique_ptr<MemoryObject>>> Program::CloseContext(uint32_t handle) {
  absl::StatusOr<Context*> found = contexts_.Find(handle);
  if (!found.ok()) return found.status();
  const Context& context = **found;
  queue_pairs_.DestroyAllOf(context);
  xrc_.CloseTargetsOf(context);
  address_handles_.DestroyAllOf(context);
  shared_receive_queues_.DestroyAllOf(context);
  windows_.DeallocAllOf(context);
  std::vector<std::unique_ptr<MemoryObject>> memory = regions_.TakeAllOf(context);
  contexts_.DeallocPdsOf(context);
  completion_queues_.DestroyAllOf(context);
  xrc_.CloseDomainsOf(context);
  completion_queues_.DestroyChannelsOf(context);
  contexts_.Remove(handle);
  return memory;
}

}  // namespace uroce::nic
