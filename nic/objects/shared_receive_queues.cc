// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/shared_receive_queues.h"

#include <infiniband/verbs.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nic/devices/verbs_attributes.h"
#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "nic/objects/queue_pair_object.h"
#include "nic/objects/resources.h"
#include "nic/objects/xrc.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {
namespace {

constexpr uint64_t kSlotsOffset = sizeof(uroce_srq_page);  // In the range of the queue.

absl::StatusOr<ArenaRange> TakeRange(Arena& arena, const ReceiveRingLayout& ring) {
  const uint64_t length_bytes = kSlotsOffset + ring.length_bytes;
  const absl::StatusOr<uint64_t> offset = arena.Take(length_bytes);
  if (!offset.ok()) return offset.status();
  return ArenaRange{*offset, length_bytes};
}

datapath::SharedReceiveQueueConfig QueueConfig(const Arena& arena, const ArenaRange& range,
                                               const ReceiveRingLayout& ring, uint32_t max_sge) {
  datapath::SharedReceiveQueueConfig config;
  config.page = arena.At<uroce_srq_page>(range.offset);
  config.layout = {.slots = arena.At<uint8_t>(range.offset + kSlotsOffset),
                   .depth = ring.depth,
                   .slot_bytes = ring.slot_bytes};
  config.max_sge = max_sge;
  return config;
}

uroce_srq_layout Describe(const ArenaRange& range,
                          const datapath::SharedReceiveQueueConfig& config) {
  return {.max_wr = config.layout.depth,
          .max_sge = config.max_sge,
          .depth = config.layout.depth,
          .slot_bytes = config.layout.slot_bytes,
          .page_offset = range.offset,
          .slots_offset = range.offset + kSlotsOffset};
}

}  // namespace

SharedReceiveQueues::SharedReceiveQueues(ProgramCore& core, const Contexts& contexts,
                                         CompletionQueues& cqs, const Xrc& xrc)
    : core_(core), contexts_(contexts), cqs_(cqs), xrc_(xrc), srqs_(core.LimitsOf(Kind::kSrq)) {}

absl::StatusOr<SharedReceiveQueues::Plan> SharedReceiveQueues::MakePlan(
    const uroce_create_srq& request) const {
  const absl::StatusOr<ProtectionDomain*> pd = contexts_.FindPd(request.pd);
  if (!pd.ok()) return pd.status();
  if (request.srq_type == IBV_SRQT_BASIC) return Plan{*pd, nullptr, nullptr};
  if (request.srq_type != IBV_SRQT_XRC) {
    return absl::UnimplementedError(
        absl::StrCat("srq: type ", request.srq_type, "; BASIC (0) and XRC (1) are served"));
  }
  const absl::StatusOr<XrcdObject*> xrcd = xrc_.FindDomain(request.xrcd);
  if (!xrcd.ok()) return xrcd.status();
  const absl::StatusOr<CompletionQueueObject*> cq = cqs_.Find(request.cq);
  if (!cq.ok()) return cq.status();
  if (absl::Status status =
          CheckContext("srq", *(*pd)->context, {(*xrcd)->context, (*cq)->context});
      !status.ok()) {
    return status;
  }
  return Plan{*pd, *xrcd, *cq};
}

absl::StatusOr<uroce_create_srq_reply> SharedReceiveQueues::Create(
    const uroce_create_srq& request) {
  const absl::StatusOr<Plan> plan = MakePlan(request);
  if (!plan.ok()) return plan.status();
  const absl::StatusOr<ReceiveRingLayout> ring =
      LayOutReceiveRing("srq", request.max_wr, request.max_sge, core_.limits());
  if (!ring.ok()) return ring.status();
  if (absl::Status status = srqs_.CheckRoom(); !status.ok()) return status;
  const absl::StatusOr<ArenaRange> range = TakeRange(core_.arena(), *ring);
  if (!range.ok()) return range.status();
  datapath::SharedReceiveQueueConfig config =
      QueueConfig(core_.arena(), *range, *ring, request.max_sge);
  config.pd = plan->pd->number();
  config.user_handle = request.user_handle;
  config.async = core_.RecordsOn(plan->pd->context->events);
  config.handle = srqs_.NextHandle();
  if (plan->xrcd != nullptr) {
    if (absl::Status status = JoinDomain(*plan, config); !status.ok()) {
      core_.arena().Give(range->offset, range->length_bytes);
      return status;
    }
  }
  return Add(*plan, config, *range, request.srq_limit);
}

absl::Status SharedReceiveQueues::JoinDomain(const Plan& plan,
                                             datapath::SharedReceiveQueueConfig& config) {
  XrcDomain& domain = *plan.xrcd->domain;
  const absl::StatusOr<datapath::CompletionRing*> ring =
      cqs_.RingOn(domain.worker_index(), *plan.cq);
  if (!ring.ok()) return ring.status();
  config.number = core_.nic().numbers().srqs.Take(Nic::Now());
  if (config.number == 0) return absl::ResourceExhaustedError("srq: no number is free");
  config.domain = &domain.queues();
  config.session = &core_.session();
  config.ring = *ring;
  return absl::OkStatus();
}

uroce_create_srq_reply SharedReceiveQueues::Add(const Plan& plan,
                                                const datapath::SharedReceiveQueueConfig& config,
                                                const ArenaRange& range, uint32_t limit) {
  const uint32_t index = plan.xrcd != nullptr
                             ? plan.xrcd->domain->worker_index()
                             : core_.nic().numbers().queue_pairs.WorkerFor(
                                   std::nullopt, PlaceOf(*plan.pd->context->device));
  std::unique_ptr<SharedReceiveObject> object(
      new SharedReceiveObject{Use(plan.pd),
                              Use(plan.xrcd),
                              Use(plan.cq),
                              index,
                              range,
                              datapath::SharedReceiveQueue(config),
                              {}});
  datapath::Worker& worker = core_.nic().workers().at(index);
  worker.Run([&] {
    worker.AddSharedReceiveQueue(&object->queue);
    worker.SetReceiveLimit(&object->queue, limit);
  });
  uroce_create_srq_reply reply{.handle = *srqs_.Add(std::move(object)),
                               .srqn = config.number,
                               .layout = Describe(range, config),
                               .ring = {}};
  if (plan.cq != nullptr) reply.ring = CompletionQueues::DescribeRing(index, *plan.cq);
  return reply;
}

// Entries that wait are copied to the start of a new ring here, while the worker goes on.
absl::StatusOr<uroce_srq_layout> SharedReceiveQueues::Resize(SharedReceiveObject& srq,
                                                             uint32_t max_wr) {
  const datapath::SharedReceiveQueueConfig& old = srq.queue.config();
  const absl::StatusOr<ReceiveRingLayout> ring =
      LayOutReceiveRing("srq", max_wr, old.max_sge, core_.limits());
  if (!ring.ok()) return ring.status();
  const absl::StatusOr<ArenaRange> range = TakeRange(core_.arena(), *ring);
  if (!range.ok()) return range.status();
  const datapath::SharedReceiveQueueConfig config =
      QueueConfig(core_.arena(), *range, *ring, old.max_sge);
  datapath::Worker& worker = core_.nic().workers().at(srq.worker);
  std::optional<datapath::SharedReceiveQueue::Waiting> waiting;
  worker.Run([&] { waiting = srq.queue.LookForWaiting(); });
  if (!waiting || waiting->count > config.layout.depth) {
    core_.arena().Give(range->offset, range->length_bytes);
    return absl::InvalidArgumentError(absl::StrCat("srq: more than ", max_wr, " entries wait"));
  }
  srq.queue.CopyTo(config.layout, *waiting);
  worker.Run([&] { srq.queue.MoveTo(config.page, config.layout, *waiting); });
  core_.arena().Give(srq.range.offset, srq.range.length_bytes);
  srq.range = *range;
  return Describe(*range, config);
}

absl::StatusOr<uroce_srq_layout> SharedReceiveQueues::Modify(const uroce_modify_srq& request) {
  const absl::StatusOr<SharedReceiveObject*> srq = srqs_.Find(request.handle);
  if (!srq.ok()) return srq.status();
  constexpr uint32_t kKnown = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
  if ((request.mask & ~kKnown) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("srq: mask 0x", absl::Hex(request.mask)));
  }
  uroce_srq_layout layout{};
  if ((request.mask & IBV_SRQ_MAX_WR) != 0) {
    const absl::StatusOr<uroce_srq_layout> resized = Resize(**srq, request.max_wr);
    if (!resized.ok()) return resized.status();
    layout = *resized;
  }
  if ((request.mask & IBV_SRQ_LIMIT) != 0) {
    if (request.srq_limit > (*srq)->queue.config().layout.depth) {
      return absl::InvalidArgumentError(
          absl::StrCat("srq: srq_limit ", request.srq_limit, " is above its max_wr"));
    }
    datapath::Worker& worker = core_.nic().workers().at((*srq)->worker);
    worker.Run([&] { worker.SetReceiveLimit(&(*srq)->queue, request.srq_limit); });
  }
  return layout;
}

absl::StatusOr<uroce_query_srq_reply> SharedReceiveQueues::Query(uint32_t handle) {
  const absl::StatusOr<SharedReceiveObject*> srq = srqs_.Find(handle);
  if (!srq.ok()) return srq.status();
  uroce_query_srq_reply reply{};
  core_.nic().workers().at((*srq)->worker).Run([&] { reply.srq_limit = (*srq)->queue.limit(); });
  reply.max_wr = (*srq)->queue.config().layout.depth;
  reply.max_sge = (*srq)->queue.config().max_sge;
  return reply;
}

absl::StatusOr<uroce_destroy_srq_reply> SharedReceiveQueues::Destroy(uint32_t handle) {
  const absl::StatusOr<SharedReceiveObject*> found = srqs_.Find(handle);
  if (!found.ok()) return found.status();
  SharedReceiveObject& srq = **found;
  if (absl::Status status = srq.users.CheckNone("srq"); !status.ok()) return status;
  datapath::Worker& worker = core_.nic().workers().at(srq.worker);
  datapath::SharedReceiveQueue* const leaving[] = {&srq.queue};
  worker.RemoveSharedReceiveQueues(leaving);
  const uroce_destroy_srq_reply reply{.async_events_reported = srq.queue.async_records(),
                                      .reserved = 0};
  if (srq.xrcd != nullptr) {
    core_.nic().numbers().srqs.Release(srq.queue.config().number, Nic::Now());
  }
  const ArenaRange range = srq.range;
  srqs_.Remove(handle);
  core_.arena().Give(range.offset, range.length_bytes);
  return reply;
}

bool SharedReceiveQueues::EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) {
  return srqs_.EndSome([&](const auto& object) { return object.pd->context == &context; }, is_over,
                       [this](uint32_t srq) { MustEnd(Destroy(srq).status()); });
}

bool SharedReceiveQueues::EndSome(absl::FunctionRef<bool()> is_over) {
  return srqs_.EndAll(is_over, [this](auto leaving) {
    std::map<uint32_t, std::vector<datapath::SharedReceiveQueue*>> of_worker;
    for (const auto& object : leaving) of_worker[object->worker].push_back(&object->queue);
    for (const auto& [worker, queues] : of_worker) {
      core_.nic().workers().at(worker).RemoveSharedReceiveQueues(queues);
    }
    for (const auto& object : leaving) {
      if (object->xrcd == nullptr) continue;
      core_.nic().numbers().srqs.Release(object->queue.config().number, Nic::Now());
    }
  });
}

}  // namespace uroce::nic
