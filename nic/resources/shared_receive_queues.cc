// SPDX-License-Identifier: Apache-2.0
// Shared receive queues of a program.
#include <infiniband/verbs.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "nic/resources/program.h"
#include "nic/resources/queue_layout.h"
#include "nic/resources/xrc_domain.h"

namespace uroce::nic {
namespace {

datapath::SharedReceiveQueueConfig QueueConfig(const Arena& arena, const ArenaRange& range,
                                               const SharedReceiveLayout& layout) {
  datapath::SharedReceiveQueueConfig config;
  config.page = arena.At<uroce_srq_page>(range.offset);
  config.layout = {.slots = arena.At<uint8_t>(range.offset + layout.slots_offset),
                   .depth = layout.depth,
                   .slot_bytes = layout.slot_bytes};
  config.max_sge = layout.max_sge;
  return config;
}

uroce_srq_layout Describe(const ArenaRange& range,
                          const datapath::SharedReceiveQueueConfig& config) {
  return {.max_wr = config.layout.depth,
          .max_sge = config.max_sge,
          .depth = config.layout.depth,
          .slot_bytes = config.layout.slot_bytes,
          .page_offset = range.offset,
          .slots_offset = range.offset + sizeof(uroce_srq_page)};
}

}  // namespace

absl::StatusOr<SrqPlan> Program::PlanSrq(const uroce_create_srq& request) const {
  const absl::StatusOr<ProtectionDomain*> pd = pds_.Find(request.pd);
  if (!pd.ok()) return pd.status();
  if (request.srq_type == IBV_SRQT_BASIC) return SrqPlan{*pd, nullptr, nullptr};
  if (request.srq_type != IBV_SRQT_XRC) {
    return absl::UnimplementedError(
        absl::StrCat("srq: type ", request.srq_type, "; BASIC (0) and XRC (1) are served"));
  }
  const absl::StatusOr<XrcdObject*> xrcd = xrcds_.Find(request.xrcd);
  if (!xrcd.ok()) return xrcd.status();
  const absl::StatusOr<CompletionQueueObject*> cq = cqs_.Find(request.cq);
  if (!cq.ok()) return cq.status();
  const Context* const context = (*pd)->context;
  if ((*xrcd)->context != context || (*cq)->context != context) {
    return absl::InvalidArgumentError("srq: its xrcd, its cq and its pd are of several contexts");
  }
  return SrqPlan{*pd, *xrcd, *cq};
}

absl::StatusOr<uroce_create_srq_reply> Program::CreateSrq(const uroce_create_srq& request) {
  const absl::StatusOr<SrqPlan> plan = PlanSrq(request);
  if (!plan.ok()) return plan.status();
  const absl::StatusOr<SharedReceiveLayout> layout =
      LayOutSharedReceiveQueue(request.max_wr, request.max_sge, nic_.config().limits);
  if (!layout.ok()) return layout.status();
  if (absl::Status status = srqs_.CheckRoom(); !status.ok()) return status;
  const absl::StatusOr<uint64_t> offset = arena_.Take(layout->length_bytes);
  if (!offset.ok()) return offset.status();
  const ArenaRange range{*offset, layout->length_bytes};
  datapath::SharedReceiveQueueConfig config = QueueConfig(arena_, range, *layout);
  config.pd = plan->pd->number();
  config.user_handle = request.user_handle;
  config.async = RecordsOn(plan->pd->context->events);
  config.handle = srqs_.NextHandle();
  if (plan->xrcd != nullptr) {
    if (absl::Status status = JoinDomain(*plan, config); !status.ok()) {
      arena_.Give(range.offset, range.length_bytes);
      return status;
    }
  }
  return AddSrq(*plan, config, range, request.srq_limit);
}

absl::Status Program::JoinDomain(const SrqPlan& plan, datapath::SharedReceiveQueueConfig& config) {
  XrcDomain& domain = *plan.xrcd->domain;
  const absl::StatusOr<datapath::CompletionRing*> ring = RingOn(domain.worker_index(), *plan.cq);
  if (!ring.ok()) return ring.status();
  config.number = nic_.srq_numbers().Take(Nic::Now());
  if (config.number == 0) return absl::ResourceExhaustedError("srq: no number is free");
  config.domain = &domain.queues();
  config.session = &session_;
  config.ring = *ring;
  return absl::OkStatus();
}

uroce_create_srq_reply Program::AddSrq(const SrqPlan& plan,
                                       const datapath::SharedReceiveQueueConfig& config,
                                       const ArenaRange& range, uint32_t limit) {
  const uint32_t index =
      plan.xrcd != nullptr ? plan.xrcd->domain->worker_index() : nic_.PlaceQueuePair(std::nullopt);
  std::unique_ptr<SharedReceiveObject> object(new SharedReceiveObject{
      plan.pd, plan.xrcd, plan.cq, index, range, 0, datapath::SharedReceiveQueue(config)});
  datapath::Worker& worker = nic_.workers().at(index);
  worker.Run([&] {
    worker.AddSharedReceiveQueue(&object->queue);
    worker.SetReceiveLimit(&object->queue, limit);
  });
  ++plan.pd->users;
  if (plan.xrcd != nullptr) {
    ++plan.xrcd->users;
    ++plan.cq->users;
  }
  uroce_create_srq_reply reply{.handle = *srqs_.Add(std::move(object)),
                               .srqn = config.number,
                               .layout = Describe(range, config),
                               .ring = {}};
  if (plan.cq != nullptr) reply.ring = DescribeRing(index, *plan.cq);
  return reply;
}

// What waits is copied to a fresh ring, where it comes first.
absl::StatusOr<uroce_srq_layout> Program::ResizeSrq(SharedReceiveObject& srq, uint32_t max_wr) {
  const datapath::SharedReceiveQueueConfig& old = srq.queue.config();
  const absl::StatusOr<SharedReceiveLayout> layout =
      LayOutSharedReceiveQueue(max_wr, old.max_sge, nic_.config().limits);
  if (!layout.ok()) return layout.status();
  const absl::StatusOr<uint64_t> offset = arena_.Take(layout->length_bytes);
  if (!offset.ok()) return offset.status();
  const ArenaRange range{*offset, layout->length_bytes};
  const datapath::SharedReceiveQueueConfig config = QueueConfig(arena_, range, *layout);
  bool moved = false;
  nic_.workers().at(srq.worker).Run([&] { moved = srq.queue.MoveTo(config.page, config.layout); });
  if (!moved) {
    arena_.Give(range.offset, range.length_bytes);
    return absl::InvalidArgumentError(absl::StrCat("srq: more than ", max_wr, " entries wait"));
  }
  arena_.Give(srq.range.offset, srq.range.length_bytes);
  srq.range = range;
  return Describe(range, config);
}

absl::StatusOr<uroce_srq_layout> Program::ModifySrq(const uroce_modify_srq& request) {
  const absl::StatusOr<SharedReceiveObject*> srq = srqs_.Find(request.handle);
  if (!srq.ok()) return srq.status();
  constexpr uint32_t kKnown = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
  if ((request.mask & ~kKnown) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("srq: mask 0x", absl::Hex(request.mask)));
  }
  uroce_srq_layout layout{};
  if ((request.mask & IBV_SRQ_MAX_WR) != 0) {
    const absl::StatusOr<uroce_srq_layout> resized = ResizeSrq(**srq, request.max_wr);
    if (!resized.ok()) return resized.status();
    layout = *resized;
  }
  if ((request.mask & IBV_SRQ_LIMIT) != 0) {
    if (request.srq_limit > (*srq)->queue.config().layout.depth) {
      return absl::InvalidArgumentError(
          absl::StrCat("srq: srq_limit ", request.srq_limit, " is above its max_wr"));
    }
    datapath::Worker& worker = nic_.workers().at((*srq)->worker);
    worker.Run([&] { worker.SetReceiveLimit(&(*srq)->queue, request.srq_limit); });
  }
  return layout;
}

absl::StatusOr<uroce_query_srq_reply> Program::QuerySrq(uint32_t handle) {
  const absl::StatusOr<SharedReceiveObject*> srq = srqs_.Find(handle);
  if (!srq.ok()) return srq.status();
  uroce_query_srq_reply reply{};
  nic_.workers().at((*srq)->worker).Run([&] { reply.srq_limit = (*srq)->queue.limit(); });
  reply.max_wr = (*srq)->queue.config().layout.depth;
  reply.max_sge = (*srq)->queue.config().max_sge;
  return reply;
}

absl::StatusOr<uroce_destroy_srq_reply> Program::DestroySrq(uint32_t handle) {
  const absl::StatusOr<SharedReceiveObject*> found = srqs_.Find(handle);
  if (!found.ok()) return found.status();
  SharedReceiveObject& srq = **found;
  if (srq.users != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("srq: ", srq.users, " queue pairs still take from it"));
  }
  datapath::Worker& worker = nic_.workers().at(srq.worker);
  worker.Run([&] { worker.RemoveSharedReceiveQueue(&srq.queue); });
  const uroce_destroy_srq_reply reply{.async_events_reported = srq.queue.async_records(),
                                      .reserved = 0};
  --srq.pd->users;
  if (srq.xrcd != nullptr) {
    --srq.xrcd->users;
    --srq.cq->users;
    nic_.srq_numbers().Release(srq.queue.config().number, Nic::Now());
  }
  const ArenaRange range = srq.range;
  srqs_.Remove(handle);
  arena_.Give(range.offset, range.length_bytes);
  return reply;
}

}  // namespace uroce::nic
