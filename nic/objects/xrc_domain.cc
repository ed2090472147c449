// SPDX-License-Identifier: Apache-2.0
// Extended connection (XRC) domains, which several programs share, the files that identify them,
// and their target queue pairs.
#include "nic/objects/xrc_domain.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/objects/nic.h"
#include "nic/objects/queue_pair_object.h"
#include "pipeline/os/shared_memory.h"

namespace uroce::nic {
namespace {

datapath::QueuePairConfig TargetConfig(XrcDomain& domain, Qpn qpn, uroce_qp_page* page) {
  datapath::QueuePairConfig config;
  config.session = &domain.session();
  config.device = &domain.device().datapath();
  config.handle = UROCE_NONE;  // CQEs name the shared receive queue.
  config.qpn = qpn;
  config.service = wire::Service::kXrc;
  config.selective_repeat = domain.device().config().selective_repeat;
  config.congestion = &domain.device().datapath().CongestionOf(qpn, 0);
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
              nullptr,
              nullptr,
              nullptr,
              nullptr,
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
  domain_->nic().numbers().queue_pairs.Release(qpn(), Nic::Now());
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
      worker_index_(nic.numbers().queue_pairs.WorkerFor(std::nullopt)),
      wake_fd_(std::move(wake_fd)),
      session_(0, Links(), uid, nic.user(uid).rate.get()) {
  worker().Run([this] { worker().AddSession(&session_); });
}

XrcDomain::~XrcDomain() {
  worker().Run([this] { worker().RemoveSession(&session_); });
}

datapath::Worker& XrcDomain::worker() { return nic_.workers().at(worker_index_); }

// The domain shares nothing with other workers. Nobody writes to its eventfd: it exists so that the
// worker can park an idle domain.
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

}  // namespace uroce::nic
