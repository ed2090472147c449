// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/xrc.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/devices/nic_device.h"
#include "nic/objects/completion_queues.h"
#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "nic/objects/queue_pair_object.h"
#include "nic/objects/resources.h"
#include "nic/objects/shared_receive_queues.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/os/shared_memory.h"

namespace uroce::nic {
namespace {

// Opened targets have their own table; their handles have this bit set.
constexpr uint32_t kTargetBit = 1u << 31;

datapath::QueuePairConfig TargetConfig(XrcDomain& domain, Qpn qpn, uroce_qp_page* page) {
  datapath::QueuePairConfig config;
  config.session = &domain.session();
  config.device = &domain.device().datapath();
  config.handle = UROCE_NONE;  // CQEs name the shared receive queue.
  config.qpn = qpn;
  config.service = wire::Service::kXrc;
  config.selective_repeat = domain.device().config().selective_repeat;
  config.congestion = &domain.device().datapath().CongestionOf(domain.worker_index(), 0);
  config.doorbell_slot = qpn.value() % UROCE_DOORBELL_SLOTS;
  config.page = page;
  config.sq = config.rq = reinterpret_cast<uint8_t*>(page + 1);  // It has no slots.
  config.max_receive_sge = UROCE_MAX_SGE;                        // Of any receive queue.
  config.domain = &domain.queues();
  return config;
}

}  // namespace

XrcTarget::XrcTarget(std::shared_ptr<XrcDomain> domain, Qpn qpn)
    : domain_(std::move(domain)),
      object_{&domain_->device(),
              {},
              {},
              {},
              {},
              IBV_QPT_XRC_RECV,
              {},
              {},
              nullptr,
              nullptr,
              {},
              datapath::QueuePair(TargetConfig(*domain_, qpn, page_.get()))} {
  datapath::Worker& worker = domain_->worker();
  worker.Run([&] { worker.AddQueuePair(&object_.queue_pair); });
}

XrcTarget::~XrcTarget() {
  datapath::Worker& worker = domain_->worker();
  worker.Run([&] { worker.RemoveQueuePair(&object_.queue_pair); });
  AddCounters(domain_->device().ended_counters(), object_.queue_pair.counters());
  domain_->ForgetTarget(qpn());
  domain_->nic().numbers().queue_pairs.Release(qpn(), domain_->worker_index(), Nic::Now());
}

void XrcTarget::AddOpener(datapath::EventRecords* events) {
  domain_->worker().Run([&] { object_.queue_pair.reports().AddListener(events); });
}

void XrcTarget::RemoveOpener(datapath::EventRecords* events) {
  domain_->worker().Run([&] { object_.queue_pair.reports().RemoveListener(events); });
}

absl::StatusOr<std::shared_ptr<XrcDomain>> XrcDomain::Make(Nic& nic, NicDevice& device,
                                                           std::optional<XrcFile> file,
                                                           uint32_t uid) {
  Fd wake_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_fd) return SystemError("eventfd", errno);
  return std::make_shared<XrcDomain>(nic, device, std::move(file), uid, std::move(wake_fd));
}

XrcDomain::XrcDomain(Nic& nic, NicDevice& device, std::optional<XrcFile> file, uint32_t uid,
                     Fd wake_fd)
    : nic_(nic),
      device_(device),
      file_(std::move(file)),
      worker_index_(nic.numbers().queue_pairs.WorkerFor(std::nullopt, PlaceOf(device))),
      wake_fd_(std::move(wake_fd)),
      session_(0, Links(), uid, nic.user(uid).rate.get()) {
  worker().Run([this] { worker().AddSession(&session_); });
}

XrcDomain::~XrcDomain() {
  worker().Run([this] { worker().RemoveSession(&session_); });
}

datapath::Worker& XrcDomain::worker() { return nic_.workers().at(worker_index_); }

// The domain shares nothing with other workers. No process writes to its eventfd: it exists so that
// the worker can park an idle domain.
std::vector<datapath::SessionLink> XrcDomain::Links() {
  std::vector<datapath::SessionLink> links(nic_.workers().count());
  links[worker_index_] = {.doorbells = doorbells_.get(), .wake_fd = wake_fd_.get()};
  return links;
}

absl::StatusOr<std::shared_ptr<XrcTarget>> XrcDomain::MakeTarget(
    const std::shared_ptr<XrcDomain>& domain) {
  const Qpn qpn(domain->nic_.numbers().queue_pairs.Take(domain->worker_index_, Nic::Now()));
  if (qpn.value() == 0) return absl::ResourceExhaustedError("qp: no QPN is free");
  auto target = std::make_shared<XrcTarget>(domain, qpn);
  domain->targets_[qpn.value()] = target;
  return target;
}

absl::StatusOr<std::shared_ptr<XrcTarget>> XrcDomain::FindTarget(uint32_t qpn) const {
  const auto found = targets_.find(qpn);
  std::shared_ptr<XrcTarget> target = found == targets_.end() ? nullptr : found->second.lock();
  if (target != nullptr) return target;
  return absl::InvalidArgumentError(
      absl::StrCat("qp: the xrc domain has no target queue pair ", qpn));
}

absl::StatusOr<std::shared_ptr<XrcDomain>> XrcDomains::Open(Nic& nic, NicDevice& device,
                                                            XrcFile file, uint32_t oflags,
                                                            uint32_t uid) {
  std::erase_if(domains_, [](const auto& entry) { return entry.second.expired(); });
  const Key key{&device, file.file_system, file.inode};
  const auto found = domains_.find(key);
  if (found != domains_.end()) {
    if ((oflags & O_EXCL) == 0) return found->second.lock();
    return absl::InvalidArgumentError("xrcd: its file has a domain, and O_EXCL is given");
  }
  if ((oflags & O_CREAT) == 0) {
    return absl::AbortedError("xrcd: its file has no domain, and O_CREAT is not given");
  }
  absl::StatusOr<std::shared_ptr<XrcDomain>> made =
      XrcDomain::Make(nic, device, std::move(file), uid);
  if (made.ok()) domains_[key] = *made;
  return made;
}

Xrc::Xrc(ProgramCore& core, const Contexts& contexts)
    : core_(core),
      contexts_(contexts),
      files_("xrc file", core.limits().kinds.of(Kind::kXrcd).of_program, &core.user().xrc_files),
      xrcds_(core.LimitsOf(Kind::kXrcd)),
      targets_(core.LimitsOf(Kind::kQp)) {}

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
  return xrcds_.Add(
      std::unique_ptr<XrcdObject>(new XrcdObject{Use(*context), *std::move(domain), {}}));
}

absl::Status Xrc::CloseDomain(uint32_t handle) {
  const absl::StatusOr<XrcdObject*> xrcd = xrcds_.Find(handle);
  if (!xrcd.ok()) return xrcd.status();
  if (absl::Status status = (*xrcd)->users.CheckNone("xrcd"); !status.ok()) return status;
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
  XrcTarget& its = *target;
  auto opened = std::make_unique<OpenedTarget>(OpenedTarget{
      Use(&xrcd), std::move(target),
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
  const auto count = open_counts_.find(opened.target->qpn().value());
  if (--count->second == 0) open_counts_.erase(count);
  targets_.Remove(handle & ~kTargetBit);
  return reply;
}

bool Xrc::CloseSomeTargetsOf(const Context& context, absl::FunctionRef<bool()> is_over) {
  return targets_.EndSome(
      [&](const OpenedTarget& opened) { return opened.xrcd->context == &context; }, is_over,
      [this](uint32_t target) { MustEnd(CloseTarget(target).status()); });
}

bool Xrc::CloseSomeTargets(absl::FunctionRef<bool()> is_over) {
  return targets_.EndSome([](const OpenedTarget&) { return true; }, is_over,
                          [this](uint32_t target) { MustEnd(CloseTarget(target).status()); });
}

bool Xrc::EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) {
  return xrcds_.EndSome([&](const XrcdObject& object) { return object.context == &context; },
                        is_over, [this](uint32_t xrcd) { MustEnd(CloseDomain(xrcd)); });
}

}  // namespace uroce::nic
