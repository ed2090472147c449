// SPDX-License-Identifier: Apache-2.0
// Completion channels, completion queues and queue pairs of a program.
#include <infiniband/verbs.h>

#include "absl/strings/str_cat.h"
#include "nic/resources/program.h"
#include "nic/resources/queue_layout.h"
#include "nic/resources/rc_counter_table.h"

namespace uroce::nic {
namespace {

absl::Status Busy(const char* kind, uint32_t users) {
  return absl::FailedPreconditionError(absl::StrCat(kind, ": ", users, " objects still use it"));
}

}  // namespace

absl::StatusOr<uint32_t> Program::CreateChannel(uint32_t context_handle, Fd& records) {
  absl::StatusOr<Context*> context = contexts_.Find(context_handle);
  if (!context.ok()) return context.status();
  if (absl::Status status = channels_.CheckRoom(); !status.ok()) return status;
  absl::StatusOr<EventPipe> pipe = EventPipe::Make(sizeof(uint64_t), records);
  if (!pipe.ok()) return pipe.status();
  ++(*context)->users;
  return channels_.Add(std::make_unique<Channel>(Channel{*context, *std::move(pipe)}));
}

absl::Status Program::DestroyChannel(uint32_t handle) {
  absl::StatusOr<Channel*> channel = channels_.Find(handle);
  if (!channel.ok()) return channel.status();
  if ((*channel)->users != 0) return Busy("channel", (*channel)->users);
  --(*channel)->context->users;
  channels_.Remove(handle);
  return absl::OkStatus();
}

absl::StatusOr<uroce_create_cq_reply> Program::CreateCq(const uroce_create_cq& request) {
  absl::StatusOr<Context*> context = contexts_.Find(request.context);
  if (!context.ok()) return context.status();
  Channel* channel = nullptr;
  if (request.channel != UROCE_NONE) {
    absl::StatusOr<Channel*> found = channels_.Find(request.channel);
    if (!found.ok()) return found.status();
    channel = *found;
  }
  absl::StatusOr<CompletionQueueLayout> layout =
      LayOutCompletionQueue(request.cqe, nic_.config().limits);
  if (!layout.ok()) return layout.status();
  if (absl::Status status = cqs_.CheckRoom(); !status.ok()) return status;
  absl::StatusOr<uint64_t> offset = arena_.Take(layout->length_bytes);
  if (!offset.ok()) return offset.status();
  const datapath::CompletionQueueConfig config{
      .page = arena_.At<uroce_cq_page>(*offset),
      .entries = arena_.At<uroce_cqe>(*offset + layout->entries_offset),
      .depth = layout->depth,
      .user_handle = request.user_handle,
      .channel_fd = channel == nullptr ? -1 : channel->records.write_fd(),
      .async_fd = (*context)->events.write_fd()};
  std::unique_ptr<CompletionQueueObject> object(
      new CompletionQueueObject{*context,
                                channel,
                                {*offset, layout->length_bytes},
                                request.user_handle,
                                datapath::CompletionQueue(config)});
  ++(*context)->users;
  if (channel != nullptr) ++channel->users;
  return uroce_create_cq_reply{.handle = *cqs_.Add(std::move(object)),
                               .depth = layout->depth,
                               .page_offset = *offset,
                               .cqe_offset = *offset + layout->entries_offset};
}

// Records are counted and taken off the pipes where the worker writes them, so that none is missed
// and none is moved behind a later one.
absl::StatusOr<uroce_destroy_cq_reply> Program::DestroyCq(uint32_t handle) {
  absl::StatusOr<CompletionQueueObject*> found = cqs_.Find(handle);
  if (!found.ok()) return found.status();
  CompletionQueueObject& cq = **found;
  if (cq.users != 0) return Busy("cq", cq.users);
  uroce_destroy_cq_reply reply{};
  nic_.worker().Run([&] {
    nic_.worker().RemoveCompletionQueue(&cq.queue);
    reply.comp_events_reported = cq.queue.channel_records();
    reply.async_events_reported = cq.queue.async_records();
    if (cq.channel != nullptr && reply.comp_events_reported != 0) {
      reply.comp_events_reported -= cq.channel->records.Remove(cq.user_handle);
    }
    if (reply.async_events_reported != 0) {
      reply.async_events_reported -= cq.context->events.Remove(cq.user_handle);
    }
  });
  if (cq.channel != nullptr) --cq.channel->users;
  --cq.context->users;
  const ArenaRange range = cq.range;
  cqs_.Remove(handle);
  arena_.Give(range.offset, range.length_bytes);
  return reply;
}

absl::StatusOr<uroce_create_qp_reply> Program::CreateQp(const uroce_create_qp& request) {
  absl::StatusOr<ProtectionDomain*> pd = pds_.Find(request.pd);
  if (!pd.ok()) return pd.status();
  absl::StatusOr<CompletionQueueObject*> send_cq = cqs_.Find(request.send_cq);
  if (!send_cq.ok()) return send_cq.status();
  absl::StatusOr<CompletionQueueObject*> receive_cq = cqs_.Find(request.recv_cq);
  if (!receive_cq.ok()) return receive_cq.status();
  Context* context = (*pd)->context;
  if ((*send_cq)->context != context || (*receive_cq)->context != context) {
    return absl::InvalidArgumentError("qp: its cq and its pd are of different contexts");
  }
  if (request.qp_type != IBV_QPT_RC) {
    return absl::UnimplementedError(
        absl::StrCat("qp: type ", request.qp_type, "; only RC (2) is served"));
  }
  absl::StatusOr<QueuePairLayout> layout = LayOutQueuePair(request.cap, nic_.config().limits);
  if (!layout.ok()) return layout.status();
  if (absl::Status status = qps_.CheckRoom(); !status.ok()) return status;
  absl::StatusOr<uint64_t> offset = arena_.Take(layout->length_bytes);
  if (!offset.ok()) return offset.status();
  const uint32_t qpn = nic_.qpns().Take(Nic::Now());
  if (qpn == 0) {
    arena_.Give(*offset, layout->length_bytes);
    return absl::ResourceExhaustedError("qp: no QPN is free");
  }
  return MakeQp(request, *layout, *offset, Qpn(qpn));
}

uroce_create_qp_reply Program::MakeQp(const uroce_create_qp& request, const QueuePairLayout& layout,
                                      uint64_t offset, Qpn qpn) {
  ProtectionDomain* pd = *pds_.Find(request.pd);
  CompletionQueueObject* send_cq = *cqs_.Find(request.send_cq);
  CompletionQueueObject* receive_cq = *cqs_.Find(request.recv_cq);
  const uint32_t handle = qps_.NextHandle();
  const uint32_t doorbell_slot = handle % UROCE_DOORBELL_SLOTS;
  const datapath::QueuePairConfig config{.session = &session_,
                                         .device = &pd->context->device->datapath(),
                                         .handle = handle,
                                         .qpn = qpn,
                                         .pd = pd->number,
                                         .send_cq = &send_cq->queue,
                                         .receive_cq = &receive_cq->queue,
                                         .user_handle = request.user_handle,
                                         .async_fd = pd->context->events.write_fd(),
                                         .signal_all = request.sq_sig_all != 0,
                                         .doorbell_slot = doorbell_slot,
                                         .page = arena_.At<uroce_qp_page>(offset),
                                         .sq = arena_.At<uint8_t>(offset + layout.sq_offset),
                                         .rq = arena_.At<uint8_t>(offset + layout.rq_offset),
                                         .sq_depth = layout.sq_depth,
                                         .rq_depth = layout.rq_depth,
                                         .sq_slot_bytes = layout.sq_slot_bytes,
                                         .rq_slot_bytes = layout.rq_slot_bytes,
                                         .max_send_sge = layout.granted.max_send_sge,
                                         .max_receive_sge = layout.granted.max_recv_sge,
                                         .max_inline_bytes = layout.granted.max_inline_data};
  std::unique_ptr<QueuePairObject> object(new QueuePairObject{pd,
                                                              send_cq,
                                                              receive_cq,
                                                              {offset, layout.length_bytes},
                                                              {},
                                                              nullptr,
                                                              datapath::QueuePair(config)});
  object->attr.cap = layout.granted;
  ++pd->users;
  ++send_cq->users;
  ++receive_cq->users;
  nic_.worker().Run([&] { nic_.worker().AddQueuePair(&object->queue_pair); });
  static_cast<void>(qps_.Add(std::move(object)));
  return {.handle = handle,
          .qp_num = qpn.value(),
          .cap = layout.granted,
          .worker = 0,
          .doorbell_slot = doorbell_slot,
          .sq_depth = layout.sq_depth,
          .rq_depth = layout.rq_depth,
          .sq_slot_bytes = layout.sq_slot_bytes,
          .rq_slot_bytes = layout.rq_slot_bytes,
          .reserved = 0,
          .page_offset = offset,
          .sq_offset = offset + layout.sq_offset,
          .rq_offset = offset + layout.rq_offset};
}

absl::StatusOr<uroce_destroy_qp_reply> Program::DestroyQp(uint32_t handle) {
  absl::StatusOr<QueuePairObject*> found = qps_.Find(handle);
  if (!found.ok()) return found.status();
  QueuePairObject& qp = **found;
  const datapath::QueuePairConfig& config = qp.queue_pair.config();
  uroce_destroy_qp_reply reply{};
  nic_.worker().Run([&] {
    nic_.worker().RemoveQueuePair(&qp.queue_pair);
    reply.async_events_reported = qp.queue_pair.async_records();
    if (reply.async_events_reported != 0) {
      reply.async_events_reported -= qp.pd->context->events.Remove(config.user_handle);
    }
  });
  AddCounters(qp.pd->context->device->ended_counters(), qp.queue_pair.counters());
  nic_.qpns().Release(config.qpn.value(), Nic::Now());
  --qp.pd->users;
  --qp.send_cq->users;
  --qp.receive_cq->users;
  const ArenaRange range = qp.range;
  qps_.Remove(handle);
  arena_.Give(range.offset, range.length_bytes);
  return reply;
}

}  // namespace uroce::nic
