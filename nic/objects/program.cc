// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "pipeline/datapath/worker/worker.h"

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

Program::~Program() {
  while (!EndSome([] { return false; })) continue;
  Nic& nic = core_->nic();
  nic.programs().erase(core_->id());
  nic.workers().RunOnEach(
      [this](datapath::Worker& worker) { worker.RemoveSession(&core_->session()); });
}

// Queue pairs end first, so that an ended program is silent to its peers, and their retries run
// out. If keys ended first, queue pairs would refuse the peers' requests.
bool Program::EndSome(absl::FunctionRef<bool()> is_over) {
  const auto end_all = [is_over](auto&... part) { return (part.EndSome(is_over) && ...); };
  return std::apply(end_all, parts()) && segments_.EndSome(is_over) &&
         contexts_.EndSomeContexts(is_over);
}

absl::StatusOr<bool> Program::CloseSome(uint32_t handle, absl::FunctionRef<bool()> is_over) {
  const absl::StatusOr<Context*> found = contexts_.FindAny(handle);
  if (!found.ok()) return found.status();
  const auto end_all = [&context = **found, is_over](auto&... part) {
    return (part.EndSomeOf(context, is_over) && ...);
  };
  if (!std::apply(end_all, parts())) return false;
  contexts_.Remove(handle);
  return true;
}

// ---- what programs share: ibv_import_device(3) ----

// An imported
// object refers to the maker's object, and is useless once that is gone.

namespace {

absl::Status NotImported(const char* kind) {
  return absl::InvalidArgumentError(absl::StrCat(kind, ": it is not of an imported context"));
}

/// The maker of an imported context's original. `kind` is the kind of object to import from it.
absl::StatusOr<Program*> MakerOf(Nic& nic, const Context& context, const char* kind) {
  if (!context.origin) return NotImported(kind);
  const auto found = nic.programs().find(context.origin->program);
  if (found != nic.programs().end()) return found->second;
  return absl::InvalidArgumentError("the program that made it is gone");
}

}  // namespace

absl::StatusOr<uroce_import_context_reply> Program::ImportContext(const uroce_context_name& name,
                                                                  Fd& events) {
  Nic& nic = core_->nic();
  for (const auto& [id, maker] : nic.programs()) {
    const Context* const made = maker->contexts_.Named(name);
    if (made == nullptr) continue;
    NicDevice& device = *made->device;
    if (absl::Status status = device.CheckThere(); !status.ok()) return status;
    const absl::StatusOr<uint32_t> own = contexts_.Import(device, ContextOrigin{id, name}, events);
    if (!own.ok()) return own.status();
    return uroce_import_context_reply{*own, device.index()};
  }
  return absl::InvalidArgumentError("there is no context of this name");
}

absl::StatusOr<uint32_t> Program::ImportPd(const uroce_import& request) {
  const absl::StatusOr<Context*> context = contexts_.Find(request.owner);
  if (!context.ok()) return context.status();
  const absl::StatusOr<Program*> maker = MakerOf(core_->nic(), **context, "context");
  if (!maker.ok()) return maker.status();
  const absl::StatusOr<ProtectionDomain*> made = (*maker)->contexts_.FindPd(request.handle);
  if (!made.ok()) return made.status();
  const Context* const origin = (*maker)->contexts_.Named((*context)->origin->name);
  if (origin == nullptr || (*made)->context != origin) return NotImported("pd");
  const std::shared_ptr<Domain>& domain = (*made)->domain;
  Domain::Use share = *maker == this ? nullptr : domain->Share();
  if (*maker != this && share == nullptr) {
    return absl::UnimplementedError("pd: it has copied memory, which cannot be shared");
  }
  return contexts_.AddPd(**context, domain, std::move(share));
}

absl::StatusOr<uroce_import_mr_reply> Program::ImportMr(const uroce_import& request) {
  const absl::StatusOr<ProtectionDomain*> pd = contexts_.FindPd(request.owner);
  if (!pd.ok()) return pd.status();
  const absl::StatusOr<Program*> maker = MakerOf(core_->nic(), *(*pd)->context, "pd");
  if (!maker.ok()) return maker.status();
  const absl::StatusOr<MemoryObject*> made = (*maker)->regions_.Find(request.handle);
  if (!made.ok()) return made.status();
  const datapath::MemoryRegion& region = (*made)->region;
  if (region.pd != (*pd)->number()) return NotImported("mr");
  return uroce_import_mr_reply{region.length_bytes, region.key, region.key};
}

}  // namespace uroce::nic
