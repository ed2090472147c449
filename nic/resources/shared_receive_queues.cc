// SPDX-License-Identifier: Apache-2.0
// Shared receive queues of a program.
#include <infiniband/verbs.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "nic/resources/program.h"
#include "nic/resources/queue_layout.h"

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

uroce_srq_layout Describe(const ArenaRange& range, const SharedReceiveLayout& layout) {
  return {.max_wr = layout.depth,
          .max_sge = layout.max_sge,
          .depth = layout.depth,
          .slot_bytes = layout.slot_bytes,
          .page_offset = range.offset,
          .slots_offset = range.offset + layout.slots_offset};
}

}  // namespace

absl::StatusOr<uroce_create_srq_reply> Program::CreateSrq(const uroce_create_srq& request) {
  absl::StatusOr<ProtectionDomain*> pd = pds_.Find(request.pd);
  if (!pd.ok()) return pd.status();
  const absl::StatusOr<SharedReceiveLayout> layout =
      LayOutSharedReceiveQueue(request.max_wr, request.max_sge, nic_.config().limits);
  if (!layout.ok()) return layout.status();
  if (absl::Status status = srqs_.CheckRoom(); !status.ok()) return status;
  const absl::StatusOr<uint64_t> offset = arena_.Take(layout->length_bytes);
  if (!offset.ok()) return offset.status();
  const ArenaRange range{*offset, layout->length_bytes};
  datapath::SharedReceiveQueueConfig config = QueueConfig(arena_, range, *layout);
  config.pd = (*pd)->number;
  config.user_handle = request.user_handle;
  config.async_fd = (*pd)->context->events.write_fd();
  const uint32_t index = nic_.PlaceQueuePair(std::nullopt);
  std::unique_ptr<SharedReceiveObject> object(
      new SharedReceiveObject{*pd, index, range, 0, datapath::SharedReceiveQueue(config)});
  datapath::Worker& worker = nic_.workers().at(index);
  worker.Run([&] {
    worker.AddSharedReceiveQueue(&object->queue);
    worker.SetReceiveLimit(&object->queue, request.srq_limit);
  });
  ++(*pd)->users;
  const absl::StatusOr<uint32_t> handle = srqs_.Add(std::move(object));
  return uroce_create_srq_reply{
      .handle = *handle, .reserved = 0, .layout = Describe(range, *layout)};
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
  return Describe(range, *layout);
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
  uroce_destroy_srq_reply reply{.async_events_reported = srq.queue.async_records(), .reserved = 0};
  if (reply.async_events_reported != 0) {
    const uint64_t element = srq.queue.config().user_handle;
    nic_.workers().RunTogether(
        [&] { reply.async_events_reported -= srq.pd->context->events.Remove(element); });
  }
  --srq.pd->users;
  const ArenaRange range = srq.range;
  srqs_.Remove(handle);
  arena_.Give(range.offset, range.length_bytes);
  return reply;
}

}  // namespace uroce::nic
