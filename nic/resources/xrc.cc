// SPDX-License-Identifier: Apache-2.0
// A program's extended connection (XRC) domains, and the target queue pairs that it has opened.
#include "absl/strings/str_cat.h"
#include "nic/resources/program.h"
#include "nic/resources/xrc_domain.h"

namespace uroce::nic {
namespace {

// Handles of opened targets are those of their own table with this bit.
constexpr uint32_t kTargetBit = 1u << 31;

}  // namespace

absl::StatusOr<uint32_t> Program::AddXrcFile(XrcFile file) {
  return xrc_files_.Add(std::make_unique<XrcFile>(std::move(file)));
}

absl::StatusOr<uint32_t> Program::OpenXrcd(const uroce_open_xrcd& request) {
  std::unique_ptr<XrcFile> file;
  if (request.file != UROCE_NONE) {
    const absl::StatusOr<XrcFile*> found = xrc_files_.Find(request.file);
    if (!found.ok()) return found.status();
    file = xrc_files_.Remove(request.file);
  }
  const absl::StatusOr<Context*> context = contexts_.Find(request.context);
  if (!context.ok()) return context.status();
  if (absl::Status status = xrcds_.CheckRoom(); !status.ok()) return status;
  NicDevice& device = *(*context)->device;
  absl::StatusOr<std::shared_ptr<XrcDomain>> domain =
      file == nullptr
          ? XrcDomain::Make(nic_, device, std::nullopt, uid_)
          : nic_.xrc_domains().Open(nic_, device, std::move(*file), request.oflags, uid_);
  if (!domain.ok()) return domain.status();
  ++(*context)->users;
  return xrcds_.Add(std::make_unique<XrcdObject>(XrcdObject{*context, *std::move(domain)}));
}

absl::Status Program::CloseXrcd(uint32_t handle) {
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

absl::StatusOr<uroce_target_reply> Program::CreateTarget(const uroce_create_target& request) {
  const absl::StatusOr<XrcdObject*> xrcd = xrcds_.Find(request.xrcd);
  if (!xrcd.ok()) return xrcd.status();
  if (absl::Status status = targets_.CheckRoom(); !status.ok()) return status;
  absl::StatusOr<std::shared_ptr<XrcTarget>> target = XrcDomain::MakeTarget((*xrcd)->domain);
  if (!target.ok()) return target.status();
  return AddTarget(**xrcd, *std::move(target), request.user_handle);
}

absl::StatusOr<uroce_target_reply> Program::OpenTarget(const uroce_open_target& request) {
  const absl::StatusOr<XrcdObject*> xrcd = xrcds_.Find(request.xrcd);
  if (!xrcd.ok()) return xrcd.status();
  if (absl::Status status = targets_.CheckRoom(); !status.ok()) return status;
  absl::StatusOr<std::shared_ptr<XrcTarget>> target = (*xrcd)->domain->FindTarget(request.qp_num);
  if (!target.ok()) return target.status();
  return AddTarget(**xrcd, *std::move(target), request.user_handle);
}

uroce_target_reply Program::AddTarget(XrcdObject& xrcd, std::shared_ptr<XrcTarget> target,
                                      uint64_t user_handle) {
  ++xrcd.users;
  XrcTarget& its = *target;
  auto opened = std::make_unique<OpenedTarget>(OpenedTarget{
      &xrcd, std::move(target),
      datapath::EventRecords(RecordsOn(xrcd.context->events), user_handle), user_handle});
  its.AddOpener(&opened->events);
  ++qpns_[its.qpn().value()];
  const QueuePairLive live = LiveState(its.object());
  return {.handle = *targets_.Add(std::move(opened)) | kTargetBit,
          .qp_num = its.qpn().value(),
          .qp_state = static_cast<uint32_t>(live.state),
          .reserved = 0};
}

void Program::ForgetQpn(Qpn qpn) {
  const auto found = qpns_.find(qpn.value());
  if (--found->second == 0) qpns_.erase(found);
}

bool Program::IsTarget(uint32_t handle) { return (handle & kTargetBit) != 0; }

absl::StatusOr<OpenedTarget*> Program::FindTarget(uint32_t handle) const {
  return targets_.Find(handle & ~kTargetBit);
}

// It is there for as long as anybody has it open.
absl::StatusOr<uroce_destroy_qp_reply> Program::CloseTarget(uint32_t handle) {
  const absl::StatusOr<OpenedTarget*> found = FindTarget(handle);
  if (!found.ok()) return found.status();
  OpenedTarget& opened = **found;
  opened.target->RemoveOpener(&opened.events);
  const uroce_destroy_qp_reply reply{.async_events_reported = opened.events.written(),
                                     .reserved = 0};
  --opened.xrcd->users;
  ForgetQpn(opened.target->qpn());
  targets_.Remove(handle & ~kTargetBit);
  return reply;
}

absl::StatusOr<QueuePairObject*> Program::FindQueuePair(uint32_t handle) const {
  if (!IsTarget(handle)) return qps_.Find(handle);
  const absl::StatusOr<OpenedTarget*> opened = FindTarget(handle);
  if (!opened.ok()) return opened.status();
  return &(*opened)->target->object();
}

void Program::ForEachQueuePair(
    absl::FunctionRef<void(const QueuePairObject& queue_pair)> visit) const {
  qps_.ForEach([&](uint32_t, const QueuePairObject& object) { visit(object); });
  targets_.ForEach([&](uint32_t, const OpenedTarget& opened) { visit(opened.target->object()); });
}

}  // namespace uroce::nic
