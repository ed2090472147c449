// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/xrc.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/objects/queue_pair_object.h"

namespace uroce::nic {
namespace {

// Handles of opened targets are handles of their own table with this bit set.
constexpr uint32_t kTargetBit = 1u << 31;

}  // namespace

Xrc::Xrc(ProgramCore& core, const Contexts& contexts)
    : core_(core),
      contexts_(contexts),
      files_("xrc file", core.limits().kinds.of(Kind::kXrcd).of_program, &core.user().xrc_files),
      xrcds_(Kind::kXrcd, core.limits(), core.user()),
      targets_(Kind::kQp, core.limits(), core.user()) {}

absl::StatusOr<uint32_t> Xrc::AddFile(XrcFile file) {
  return files_.Add(std::make_unique<XrcFile>(std::move(file)));
}

absl::StatusOr<uint32_t> Xrc::OpenDomain(const uroce_open_xrcd& request) {
  std::unique_ptr<XrcFile> file;
  if (request.file != UROCE_NONE) {
    const absl::StatusOr<XrcFile*> found = files_.Find(request.file);
    if (!found.ok()) return found.status();
    file = files_.Remove(request.file);
  }
  const absl::StatusOr<Context*> context = contexts_.Find(request.context);
  if (!context.ok()) return context.status();
  if (absl::Status status = xrcds_.CheckRoom(); !status.ok()) return status;
  NicDevice& device = *(*context)->device;
  absl::StatusOr<std::shared_ptr<XrcDomain>> domain =
      file == nullptr ? XrcDomain::Make(core_.nic(), device, std::nullopt, core_.uid())
                      : core_.nic().xrc_domains().Open(core_.nic(), device, std::move(*file),
                                                       request.oflags, core_.uid());
  if (!domain.ok()) return domain.status();
  ++(*context)->users;
  return xrcds_.Add(std::make_unique<XrcdObject>(XrcdObject{*context, *std::move(domain)}));
}

absl::Status Xrc::CloseDomain(uint32_t handle) {
  const absl::StatusOr<XrcdObject*> xrcd = xrcds_.Find(handle);
  if (!xrcd.ok()) return xrcd.status();
  if ((*xrcd)->users != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("xrcd: ", (*xrcd)->users, " objects of the program still belong to it"));
  }
  --(*xrcd)->context->users;
  xrcds_.Remove(handle);
  return absl::OkStatus();
}

absl::StatusOr<XrcdObject*> Xrc::FindDomain(uint32_t handle) const {
  absl::StatusOr<XrcdObject*> xrcd = xrcds_.Find(handle);
  if (!xrcd.ok()) return xrcd;
  if (absl::Status status = (*xrcd)->context->device->CheckThere(); !status.ok()) return status;
  return xrcd;
}

absl::StatusOr<uroce_target_reply> Xrc::CreateTarget(const uroce_create_target& request) {
  const absl::StatusOr<XrcdObject*> xrcd = FindDomain(request.xrcd);
  if (!xrcd.ok()) return xrcd.status();
  if (absl::Status status = targets_.CheckRoom(); !status.ok()) return status;
  absl::StatusOr<std::shared_ptr<XrcTarget>> target = XrcDomain::MakeTarget((*xrcd)->domain);
  if (!target.ok()) return target.status();
  return AddTarget(**xrcd, *std::move(target), request.user_handle);
}

absl::StatusOr<uroce_target_reply> Xrc::OpenTarget(const uroce_open_target& request) {
  const absl::StatusOr<XrcdObject*> xrcd = FindDomain(request.xrcd);
  if (!xrcd.ok()) return xrcd.status();
  if (absl::Status status = targets_.CheckRoom(); !status.ok()) return status;
  absl::StatusOr<std::shared_ptr<XrcTarget>> target = (*xrcd)->domain->FindTarget(request.qp_num);
  if (!target.ok()) return target.status();
  return AddTarget(**xrcd, *std::move(target), request.user_handle);
}

uroce_target_reply Xrc::AddTarget(XrcdObject& xrcd, std::shared_ptr<XrcTarget> target,
                                  uint64_t user_handle) {
  ++xrcd.users;
  XrcTarget& its = *target;
  auto opened = std::make_unique<OpenedTarget>(OpenedTarget{
      &xrcd, std::move(target),
      datapath::EventRecords(core_.RecordsOn(xrcd.context->events), user_handle), user_handle});
  its.AddOpener(&opened->events);
  ++open_counts_[its.qpn().value()];
  const QueuePairLive live = LiveState(core_.nic(), its.object());
  return {.handle = *targets_.Add(std::move(opened)) | kTargetBit,
          .qp_num = its.qpn().value(),
          .qp_state = static_cast<uint32_t>(live.state),
          .reserved = 0};
}

bool Xrc::IsTarget(uint32_t handle) { return (handle & kTargetBit) != 0; }

absl::StatusOr<OpenedTarget*> Xrc::FindTarget(uint32_t handle) const {
  return targets_.Find(handle & ~kTargetBit);
}

absl::StatusOr<uroce_destroy_qp_reply> Xrc::CloseTarget(uint32_t handle) {
  const absl::StatusOr<OpenedTarget*> found = FindTarget(handle);
  if (!found.ok()) return found.status();
  OpenedTarget& opened = **found;
  opened.target->RemoveOpener(&opened.events);
  const uroce_destroy_qp_reply reply{.async_events_reported = opened.events.written(),
                                     .reserved = 0};
  --opened.xrcd->users;
  const auto count = open_counts_.find(opened.target->qpn().value());
  if (--count->second == 0) open_counts_.erase(count);
  targets_.Remove(handle & ~kTargetBit);
  return reply;
}

void Xrc::CloseTargetsOf(const Context& context) {
  for (const uint32_t target : targets_.Handles(
           [&](const OpenedTarget& opened) { return opened.xrcd->context == &context; })) {
    static_cast<void>(CloseTarget(target));
  }
}

void Xrc::CloseAllTargets() {
  for (const uint32_t target : targets_.Handles([](const OpenedTarget&) { return true; })) {
    static_cast<void>(CloseTarget(target));
  }
}

void Xrc::EndAllOf(const Context& context) {
  for (const uint32_t xrcd :
       xrcds_.Handles([&](const XrcdObject& object) { return object.context == &context; })) {
    static_cast<void>(CloseDomain(xrcd));
  }
}

}  // namespace uroce::nic
