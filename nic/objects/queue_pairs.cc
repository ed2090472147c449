// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/queue_pairs.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nic/devices/device_info.h"
#include "nic/devices/nic_device.h"
#include "nic/devices/verbs_attributes.h"
#include "nic/net/address.h"
#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "nic/objects/queue_pair_object.h"
#include "nic/objects/resources.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/capture/packet_records.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {
namespace {

std::optional<wire::Service> ServiceOfType(uint32_t qp_type) {
  switch (qp_type) {
    case IBV_QPT_RC:
      return wire::Service::kRc;
    case IBV_QPT_UC:
      return wire::Service::kUc;
    case IBV_QPT_UD:
      return wire::Service::kUd;
    case IBV_QPT_XRC_SEND:
      return wire::Service::kXrc;
    default:
      return std::nullopt;
  }
}

/// Removes the receive side, which an XRC initiator does not have.
void LeaveOutReceives(uroce_create_qp& request) {
  request.recv_cq = request.send_cq;
  request.with_srq = 0;
  request.cap.max_recv_wr = request.cap.max_recv_sge = 0;
}

// The most that a queue pair's works take: 128 of 512 bytes with what is kept for each.
constexpr uint64_t kHeldBytes = 80 << 10;

/// The newest packets of a queue pair.
uint64_t HistoryBytes(const Config& config) {
  if (config.history_dir.empty()) return 0;
  return config.history_packets * sizeof(datapath::HistoryPacket);
}

}  // namespace

QueuePairs::QueuePairs(ProgramCore& core, const Contexts& contexts, CompletionQueues& cqs,
                       const SharedReceiveQueues& srqs, Xrc& xrc)
    : core_(core),
      contexts_(contexts),
      cqs_(cqs),
      srqs_(srqs),
      xrc_(xrc),
      qps_(core.LimitsOf(Kind::kQp)),
      attachments_(&core.user().attachments) {}

absl::Status QueuePairs::CheckCreate(const uroce_create_qp& request) const {
  const absl::StatusOr<ProtectionDomain*> pd = contexts_.FindPd(request.pd);
  if (!pd.ok()) return pd.status();
  const absl::StatusOr<CompletionQueueObject*> send_cq = cqs_.Find(request.send_cq);
  if (!send_cq.ok()) return send_cq.status();
  const absl::StatusOr<CompletionQueueObject*> receive_cq = cqs_.Find(request.recv_cq);
  if (!receive_cq.ok()) return receive_cq.status();
  const Context& context = *(*pd)->context;
  if (absl::Status status =
          CheckContext("qp", context, {(*send_cq)->context, (*receive_cq)->context});
      !status.ok()) {
    return status;
  }
  if (!ServiceOfType(request.qp_type)) {
    return absl::UnimplementedError(
        absl::StrCat("qp: type ", request.qp_type, "; RC (2), UC (3), UD (4) and XRC are served"));
  }
  if (request.with_srq == 0) return absl::OkStatus();
  const absl::StatusOr<SharedReceiveObject*> srq = srqs_.Find(request.srq);
  if (!srq.ok()) return srq.status();
  if (absl::Status status = CheckContext("qp", context, {(*srq)->pd->context}); !status.ok()) {
    return status;
  }
  if ((*srq)->xrcd != nullptr) {
    return absl::InvalidArgumentError("qp: its srq is of an xrc domain");
  }
  return absl::OkStatus();
}

absl::StatusOr<uroce_create_qp_reply> QueuePairs::Create(const uroce_create_qp& wanted) {
  uroce_create_qp request = wanted;
  if (request.qp_type == IBV_QPT_XRC_SEND) LeaveOutReceives(request);
  if (absl::Status status = CheckCreate(request); !status.ok()) return status;
  uroce_qp_cap cap = request.cap;
  if (request.with_srq != 0) cap.max_recv_wr = cap.max_recv_sge = 0;
  absl::StatusOr<QueuePairLayout> layout = LayOutQueuePair(cap, core_.limits());
  if (!layout.ok()) return layout.status();
  if (absl::Status status = qps_.CheckRoom(); !status.ok()) return status;
  const uint64_t most_bytes = kHeldBytes + HistoryBytes(core_.nic().config());
  if (absl::Status status = core_.user().own_bytes.Check("qp", most_bytes); !status.ok()) {
    return status;
  }
  absl::StatusOr<uint64_t> offset = core_.arena().Take(layout->length_bytes);
  if (!offset.ok()) return offset.status();
  absl::StatusOr<uroce_create_qp_reply> made = Make(request, *layout, *offset);
  if (!made.ok()) core_.arena().Give(*offset, layout->length_bytes);
  return made;
}

absl::StatusOr<uroce_create_qp_reply> QueuePairs::Make(const uroce_create_qp& request,
                                                       const QueuePairLayout& layout,
                                                       uint64_t offset) {
  ProtectionDomain* pd = *contexts_.FindPd(request.pd);
  CompletionQueueObject* send_cq = *cqs_.Find(request.send_cq);
  CompletionQueueObject* receive_cq = *cqs_.Find(request.recv_cq);
  SharedReceiveObject* srq = request.with_srq == 0 ? nullptr : *srqs_.Find(request.srq);
  const std::optional<uint32_t> bound = srq == nullptr ? std::nullopt : std::optional(srq->worker);
  const NicPlace place = PlaceOf(*pd->context->device);
  datapath::Worker& worker =
      core_.nic().workers().at(core_.nic().numbers().queue_pairs.WorkerFor(bound, place));
  const uint32_t index = worker.index();
  const absl::StatusOr<datapath::CompletionRing*> send_ring = cqs_.RingOn(index, *send_cq);
  if (!send_ring.ok()) return send_ring.status();
  const absl::StatusOr<datapath::CompletionRing*> receive_ring = cqs_.RingOn(index, *receive_cq);
  if (!receive_ring.ok()) return receive_ring.status();
  const Qpn qpn(core_.nic().numbers().queue_pairs.Take(index, Nic::Now(), place));
  if (qpn.value() == 0) return absl::ResourceExhaustedError("qp: no QPN is free");
  const uint32_t handle = qps_.NextHandle();
  const uint32_t doorbell_slot = handle % UROCE_DOORBELL_SLOTS;
  const uint32_t max_receive_sge =
      srq == nullptr ? layout.granted.max_recv_sge : srq->queue.config().max_sge;
  const datapath::QueuePairConfig config{
      .session = &core_.session(),
      .device = &pd->context->device->datapath(),
      .handle = handle,
      .qpn = qpn,
      .service = *ServiceOfType(request.qp_type),
      .pd = pd->number(),
      .send_ring = *send_ring,
      .receive_ring = *receive_ring,
      .user_handle = request.user_handle,
      .async = core_.RecordsOn(pd->context->events),
      .signal_all = request.sq_sig_all != 0,
      .selective_repeat = pd->context->device->config().selective_repeat,
      .congestion = &pd->context->device->datapath().CongestionOf(index, 0),
      .doorbell_slot = doorbell_slot,
      .page = core_.arena().At<uroce_qp_page>(offset),
      .sq = core_.arena().At<uint8_t>(offset + layout.sq_offset),
      .rq = core_.arena().At<uint8_t>(offset + layout.rq_offset),
      .sq_depth = layout.sq_depth,
      .rq_depth = layout.rq_depth,
      .sq_slot_bytes = layout.sq_slot_bytes,
      .rq_slot_bytes = layout.rq_slot_bytes,
      .max_send_sge = layout.granted.max_send_sge,
      .max_receive_sge = max_receive_sge,
      .max_inline_bytes = layout.granted.max_inline_data,
      .shared = srq == nullptr ? nullptr : &srq->queue};
  const uint64_t held_bytes =
      datapath::WorkQueues::HeldBytes(config) + HistoryBytes(core_.nic().config());
  std::unique_ptr<QueuePairObject> object(new QueuePairObject{pd->context->device.get(),
                                                              Use(pd),
                                                              Use(send_cq),
                                                              Use(receive_cq),
                                                              Use(srq),
                                                              request.qp_type,
                                                              {offset, layout.length_bytes},
                                                              {},
                                                              nullptr,
                                                              nullptr,
                                                              {},
                                                              datapath::QueuePair(config),
                                                              QuotaShare(&core_.user().own_bytes)});
  object->held_bytes.Take(held_bytes);
  object->attr.cap = layout.granted;
  worker.Run([&] { worker.AddQueuePair(&object->queue_pair); });
  static_cast<void>(qps_.Add(std::move(object)));
  qpns_.insert(qpn.value());
  if (core_.nic().workers().count() > 1) {
    const bool connects = request.qp_type == IBV_QPT_RC || request.qp_type == IBV_QPT_UC;
    core_.nic().numbers().connections.Add(qpn, connects && !bound);
  }
  return uroce_create_qp_reply{.handle = handle,
                               .qp_num = qpn.value(),
                               .cap = layout.granted,
                               .worker = index,
                               .doorbell_slot = doorbell_slot,
                               .sq_depth = layout.sq_depth,
                               .rq_depth = layout.rq_depth,
                               .sq_slot_bytes = layout.sq_slot_bytes,
                               .rq_slot_bytes = layout.rq_slot_bytes,
                               .reserved = 0,
                               .page_offset = offset,
                               .sq_offset = offset + layout.sq_offset,
                               .rq_offset = offset + layout.rq_offset,
                               .send_ring = CompletionQueues::DescribeRing(index, *send_cq),
                               .receive_ring = CompletionQueues::DescribeRing(index, *receive_cq)};
}

absl::StatusOr<uroce_destroy_qp_reply> QueuePairs::Destroy(uint32_t handle) {
  if (Xrc::IsTarget(handle)) return xrc_.CloseTarget(handle);
  absl::StatusOr<QueuePairObject*> found = qps_.Find(handle);
  if (!found.ok()) return found.status();
  QueuePairObject& qp = **found;
  if (!qp.groups.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("qp: it is attached to ", qp.groups.size(), " multicast groups"));
  }
  uroce_destroy_qp_reply reply{};
  datapath::Worker& worker = core_.nic().OwnerOf(qp.queue_pair);
  worker.Run([&] { worker.RemoveQueuePair(&qp.queue_pair); });
  reply.async_events_reported = qp.queue_pair.reports().async_records();
  AddCounters(qp.device->ended_counters(), qp.queue_pair.counters());
  ReleaseNumber(qp, worker.index());
  const ArenaRange range = qp.range;
  qps_.Remove(handle);
  core_.arena().Give(range.offset, range.length_bytes);
  return reply;
}

absl::StatusOr<QueuePairObject*> QueuePairs::Find(uint32_t handle) const {
  if (!Xrc::IsTarget(handle)) return qps_.Find(handle);
  const absl::StatusOr<OpenedTarget*> opened = xrc_.FindTarget(handle);
  if (!opened.ok()) return opened.status();
  return &(*opened)->target->object();
}

void QueuePairs::ForEach(absl::FunctionRef<void(const QueuePairObject& queue_pair)> visit) const {
  qps_.ForEach([&](uint32_t, const QueuePairObject& object) { visit(object); });
  xrc_.targets().ForEach(
      [&](uint32_t, const OpenedTarget& opened) { visit(opened.target->object()); });
}

QueuePairObject* QueuePairs::FindOwn(Qpn qpn) {
  QueuePairObject* found = nullptr;
  if (!qpns_.contains(qpn.value())) return found;
  ForEachOwn([&](QueuePairObject& object) {
    if (object.queue_pair.qpn() == qpn) found = &object;
  });
  return found;
}

void QueuePairs::ForEachOwn(absl::FunctionRef<void(QueuePairObject& queue_pair)> visit) {
  qps_.ForEach([&](uint32_t, QueuePairObject& object) { visit(object); });
}

void QueuePairs::Visit(absl::FunctionRef<bool(const QueuePairObject&)> is_meant,
                       absl::FunctionRef<void(datapath::Worker&, datapath::QueuePair&)> visit) {
  std::map<datapath::Worker*, std::vector<datapath::QueuePair*>> meant;
  qps_.ForEach([&](uint32_t, QueuePairObject& qp) {
    if (is_meant(qp)) meant[&core_.nic().OwnerOf(qp.queue_pair)].push_back(&qp.queue_pair);
  });
  for (auto& [worker, its] : meant) {
    std::ranges::reverse(its);
    worker->RunForEach(its, [&, owner = worker](datapath::QueuePair& qp) { visit(*owner, qp); });
  }
}

bool QueuePairs::HasUnsentDatagrams() {
  bool any = false;
  Visit([](const QueuePairObject& qp) { return qp.qp_type == IBV_QPT_UD; },
        [&](datapath::Worker& owner, datapath::QueuePair& qp) { any |= owner.LookForSends(&qp); });
  return any;
}

bool QueuePairs::ShrinksUnderSends(const uroce_resize_cq& request) {
  const absl::StatusOr<CompletionQueueObject*> cq = cqs_.Find(request.handle);
  if (!cq.ok() || request.cqe >= (*cq)->depth) return false;
  bool found = false;
  Visit(
      [its = *cq](const QueuePairObject& qp) { return qp.send_cq == its || qp.receive_cq == its; },
      [&](datapath::Worker&, datapath::QueuePair& qp) { found |= qp.HasUnsent(); });
  return found;
}

bool QueuePairs::EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) {
  return qps_.EndSome([&](const auto& object) { return object.pd->context == &context; }, is_over,
                      [this](uint32_t qp) {
                        DetachAll(**qps_.Find(qp));
                        MustEnd(Destroy(qp).status());
                      }) &&
         xrc_.CloseSomeTargetsOf(context, is_over);
}

bool QueuePairs::EndSome(absl::FunctionRef<bool()> is_over) {
  return qps_.EndAll(is_over, [this](auto leaving) { Leave(leaving); }) &&
         xrc_.CloseSomeTargets(is_over);
}

void QueuePairs::Leave(std::span<const std::unique_ptr<QueuePairObject>> leaving) {
  std::map<datapath::Worker*, std::vector<datapath::QueuePair*>> of_worker;
  for (const auto& object : leaving) {
    DetachAll(*object);
    of_worker[&core_.nic().OwnerOf(object->queue_pair)].push_back(&object->queue_pair);
  }
  for (const auto& [worker, its] : of_worker) {
    worker->RunForEach(its,
                       [owner = worker](datapath::QueuePair& qp) { owner->RemoveQueuePair(&qp); });
  }
  for (const auto& object : leaving) {
    AddCounters(object->device->ended_counters(), object->queue_pair.counters());
    ReleaseNumber(*object, core_.nic().OwnerOf(object->queue_pair).index());
  }
}

void QueuePairs::ReleaseNumber(const QueuePairObject& object, uint32_t worker) {
  const Qpn qpn = object.queue_pair.qpn();
  Numbers& numbers = core_.nic().numbers();
  numbers.connections.Remove(qpn);
  core_.nic().workers().owners().Forget(qpn);
  numbers.queue_pairs.Release(qpn, worker, Nic::Now(), PlaceOf(*object.device));
  qpns_.erase(qpn.value());
}

// ---- multicast groups: ibv_attach_mcast(3) ----

namespace {

Gid GroupOf(const uroce_mcast& request) {
  Gid group;
  std::copy(std::begin(request.gid), std::end(request.gid), group.bytes.begin());
  return group;
}

datapath::Device& DeviceOf(const QueuePairObject& qp) { return qp.pd->context->device->datapath(); }

// Call it while all workers stand still.
void Remove(const QueuePairObject& qp, const Gid& group) {
  auto& groups = DeviceOf(qp).groups;
  const auto found = groups.find(group);
  std::erase_if(found->second,
                [&qp](const auto& member) { return member.queue_pair == &qp.queue_pair; });
  if (found->second.empty()) groups.erase(found);
}

}  // namespace

absl::Status QueuePairs::Attach(const uroce_mcast& request) {
  const absl::StatusOr<QueuePairObject*> found = qps_.Find(request.qp);
  if (!found.ok()) return found.status();
  QueuePairObject& qp = **found;
  const Gid group = GroupOf(request);
  if (qp.qp_type != IBV_QPT_UD) return absl::InvalidArgumentError("mcast: the qp is not UD");
  if (qp.groups.contains(group)) return absl::OkStatus();
  if (absl::Status status = attachments_.Check("mcast", 1); !status.ok()) return status;
  auto& groups = DeviceOf(qp).groups;
  const auto members = groups.find(group);
  if (members != groups.end() && members->second.size() == kMaxGroupMembers) {
    return absl::ResourceExhaustedError(
        absl::StrCat("mcast: ", FormatAddress(group), " has all ", kMaxGroupMembers, " members"));
  }
  if (absl::Status status = qp.pd->context->device->groups().Join(group); !status.ok())
    return status;
  const uint32_t worker = core_.nic().OwnerOf(qp.queue_pair).index();
  core_.nic().workers().RunTogether([&] { groups[group].push_back({&qp.queue_pair, worker}); });
  qp.groups.insert(group);
  attachments_.Take(1);
  return absl::OkStatus();
}

absl::Status QueuePairs::Detach(const uroce_mcast& request) {
  const absl::StatusOr<QueuePairObject*> found = qps_.Find(request.qp);
  if (!found.ok()) return found.status();
  QueuePairObject& qp = **found;
  const Gid group = GroupOf(request);
  if (!qp.groups.contains(group)) {
    return absl::InvalidArgumentError(
        absl::StrCat("mcast: the qp is not attached to ", FormatAddress(group)));
  }
  core_.nic().workers().RunTogether([&] { Remove(qp, group); });
  qp.groups.erase(group);
  qp.pd->context->device->groups().Leave(group);
  attachments_.Give(1);
  return absl::OkStatus();
}

void QueuePairs::DetachAll(QueuePairObject& qp) {
  if (qp.groups.empty()) return;
  core_.nic().workers().RunTogether([&] {
    for (const Gid& group : qp.groups) Remove(qp, group);
  });
  for (const Gid& group : qp.groups) qp.pd->context->device->groups().Leave(group);
  attachments_.Give(qp.groups.size());
  qp.groups.clear();
}

}  // namespace uroce::nic
