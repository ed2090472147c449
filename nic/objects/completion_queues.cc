// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/completion_queues.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/devices/verbs_attributes.h"
#include "nic/objects/contexts.h"
#include "nic/objects/nic.h"
#include "nic/objects/resources.h"
#include "nic/objects/worker_inboxes.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {

bool CqeMoves::MoveSome(uint32_t most) {
  while (!rings_.empty()) {
    Ring& ring = rings_.back();
    const uint32_t waiting = ring.moved.waiting;
    const uint32_t end = ring.done + std::min(most, waiting - ring.done);
    rings::CopyWaiting(ring.moved.from, ring.moved.produced - waiting, ring.done, end, ring.to);
    most -= end - ring.done;
    ring.done = end;
    if (ring.done < waiting) return false;
    rings_.pop_back();
  }
  return true;
}

namespace {

using datapath::CompletionRing;

rings::CqeRingLayout LayoutAt(const Arena& arena, const ArenaRange& range, uint32_t depth) {
  return {.page = arena.At<uroce_cq_ring_page>(range.offset),
          .entries = arena.At<uroce_cqe>(range.offset + LayOutCompletionRing(depth).entries_offset),
          .depth = depth};
}

/// Moves every ring of `queue` to its place in `layouts`, while no worker runs. Nothing moves and
/// the result is empty when more than `limit` CQEs wait, or an index of the program is impossible.
std::vector<CompletionRing::Moved> MoveRings(
    const datapath::CompletionQueue& queue, const std::map<uint32_t, rings::CqeRingLayout>& layouts,
    uint32_t limit) {
  uint64_t total = 0;
  std::map<uint32_t, uint32_t> waiting;  // The program can change these: read once.
  queue.ForEachRing([&](const CompletionRing& ring) {
    const uint32_t count = ring.waiting();
    waiting[ring.worker()] = count;
    total += count > ring.layout().depth ? uint64_t{limit} + 1 : count;
  });
  std::vector<CompletionRing::Moved> moved;
  if (total > limit) return moved;
  queue.ForEachRing([&](CompletionRing& ring) {
    moved.push_back(ring.MoveTo(layouts.at(ring.worker()), waiting[ring.worker()]));
  });
  return moved;
}

/// Runs `work` while no worker runs. A single worker runs it itself, without waiting until this
/// thread gets a CPU: programs may resize often.
void RunBetweenTurns(datapath::Workers& workers, absl::FunctionRef<void()> work) {
  if (workers.count() == 1) return workers.at(0).Run(work);
  workers.RunTogether(work);
}

}  // namespace

CompletionQueues::CompletionQueues(ProgramCore& core, const Contexts& contexts)
    : core_(core),
      contexts_(contexts),
      channels_("channel", core.limits().channels, &core.user().contexts),
      cqs_(core.LimitsOf(Kind::kCq)) {}

absl::StatusOr<uint32_t> CompletionQueues::CreateChannel(uint32_t context_handle, Fd& records) {
  absl::StatusOr<Context*> context = contexts_.Find(context_handle);
  if (!context.ok()) return context.status();
  if (absl::Status status = channels_.CheckRoom(); !status.ok()) return status;
  absl::StatusOr<UserSocket> socket = core_.MakeRecords("channel", records);
  if (!socket.ok()) return socket.status();
  return channels_.Add(
      std::unique_ptr<Channel>(new Channel{Use(*context), *std::move(socket), {}}));
}

absl::Status CompletionQueues::DestroyChannel(uint32_t handle) {
  absl::StatusOr<Channel*> channel = channels_.Find(handle);
  if (!channel.ok()) return channel.status();
  if (absl::Status status = (*channel)->users.CheckNone("channel"); !status.ok()) return status;
  channels_.Remove(handle);
  return absl::OkStatus();
}

absl::StatusOr<uroce_create_cq_reply> CompletionQueues::Create(const uroce_create_cq& request) {
  absl::StatusOr<Context*> context = contexts_.Find(request.context);
  if (!context.ok()) return context.status();
  Channel* channel = nullptr;
  if (request.channel != UROCE_NONE) {
    absl::StatusOr<Channel*> found = channels_.Find(request.channel);
    if (!found.ok()) return found.status();
    channel = *found;
    if (absl::Status status = CheckContext("cq", **context, {channel->context}); !status.ok()) {
      return status;
    }
  }
  const absl::StatusOr<uint32_t> depth = CompletionQueueDepth(request.cqe, core_.limits());
  if (!depth.ok()) return depth.status();
  if (absl::Status status = cqs_.CheckRoom(); !status.ok()) return status;
  const absl::StatusOr<uint64_t> offset = core_.arena().Take(sizeof(uroce_cq_page));
  if (!offset.ok()) return offset.status();
  const datapath::CompletionQueueConfig config{
      .page = core_.arena().At<uroce_cq_page>(*offset),
      .user_handle = request.user_handle,
      .channel = channel == nullptr ? datapath::RecordSocket{} : core_.RecordsOn(channel->records),
      .async = core_.RecordsOn((*context)->events),
      .pollers = core_.PollersOf(cqs_.NextHandle()),
      .has_times = request.has_times != 0};
  std::unique_ptr<CompletionQueueObject> object(
      new CompletionQueueObject{Use(*context),
                                Use(channel),
                                {*offset, sizeof(uroce_cq_page)},
                                request.user_handle,
                                *depth,
                                {},
                                datapath::CompletionQueue(config),
                                cqs_.NextHandle(),
                                {}});
  return uroce_create_cq_reply{
      .handle = *cqs_.Add(std::move(object)), .cqe = *depth, .page_offset = *offset};
}

absl::StatusOr<ArenaRange> CompletionQueues::TakeRing(uint32_t depth) {
  const uint64_t length_bytes = LayOutCompletionRing(depth).length_bytes;
  const absl::StatusOr<uint64_t> offset = core_.arena().Take(length_bytes);
  if (!offset.ok()) return offset.status();
  return ArenaRange{*offset, length_bytes};
}

void CompletionQueues::ShowRings(const CompletionQueueObject& cq) {
  auto& page = *core_.arena().At<uroce_cq_page>(cq.page.offset);
  rings::StoreRelaxed(page.depth.value, cq.depth);
  for (const auto& [worker, range] : cq.rings) {
    rings::StoreRelaxed(page.ring_offsets[worker], range.offset);
  }
  rings::StoreRelease(page.rings.value, static_cast<uint32_t>(cq.rings.size()));
}

absl::StatusOr<CompletionRing*> CompletionQueues::RingOn(uint32_t worker,
                                                         CompletionQueueObject& cq) {
  if (CompletionRing* ring = cq.queue.ring(worker)) return ring;
  const absl::StatusOr<ArenaRange> range = TakeRing(cq.depth);
  if (!range.ok()) return range.status();
  cq.rings[worker] = *range;
  ShowRings(cq);
  return &cq.queue.AddRing(worker, LayoutAt(core_.arena(), *range, cq.depth));
}

uroce_cq_ring CompletionQueues::DescribeRing(uint32_t worker, const CompletionQueueObject& cq) {
  const uint64_t offset = cq.rings.at(worker).offset;
  return {.worker = worker,
          .depth = cq.depth,
          .page_offset = offset,
          .cqe_offset = offset + LayOutCompletionRing(cq.depth).entries_offset};
}

absl::StatusOr<ResizedQueue> CompletionQueues::Resize(const uroce_resize_cq& request) {
  const absl::StatusOr<CompletionQueueObject*> found = cqs_.Find(request.handle);
  if (!found.ok()) return found.status();
  CompletionQueueObject& cq = **found;
  const absl::StatusOr<uint32_t> depth = CompletionQueueDepth(request.cqe, core_.limits());
  if (!depth.ok()) return depth.status();
  std::map<uint32_t, ArenaRange> fresh;
  if (absl::Status status = TakeRings(cq, *depth, fresh); !status.ok()) return status;
  std::map<uint32_t, rings::CqeRingLayout> layouts;
  for (const auto& [worker, range] : fresh)
    layouts[worker] = LayoutAt(core_.arena(), range, *depth);

  std::vector<CompletionRing::Moved> moved;
  RunBetweenTurns(core_.nic().workers(),
                  [&] { moved = MoveRings(cq.queue, layouts, request.cqe); });
  if (moved.size() != fresh.size()) {
    GiveRings(fresh);
    return absl::InvalidArgumentError(
        absl::StrCat("cq: more than ", request.cqe, " completions have not been polled"));
  }
  std::swap(cq.rings, fresh);
  cq.depth = *depth;
  ShowRings(cq);
  ResizedQueue resized{.cq = &cq, .old_rings = std::move(fresh), .moves = {}};
  auto to = layouts.begin();
  for (const CompletionRing::Moved& ring : moved) resized.moves.Add(ring, (to++)->second);
  return resized;
}

std::vector<uroce_cq_ring> CompletionQueues::EndResize(const ResizedQueue& resized) {
  GiveRings(resized.old_rings);
  std::vector<uroce_cq_ring> rings;
  for (const auto& [worker, range] : resized.cq->rings) {
    rings.push_back(DescribeRing(worker, *resized.cq));
  }
  return rings;
}

absl::Status CompletionQueues::Modify(const uroce_modify_cq& request) {
  const absl::StatusOr<CompletionQueueObject*> cq = cqs_.Find(request.handle);
  if (!cq.ok()) return cq.status();
  (*cq)->queue.set_moderation({.count = request.count, .period_us = request.period_us});
  return absl::OkStatus();
}

absl::Status CompletionQueues::TakeRings(const CompletionQueueObject& cq, uint32_t depth,
                                         std::map<uint32_t, ArenaRange>& taken) {
  for (const auto& [worker, old] : cq.rings) {
    const absl::StatusOr<ArenaRange> range = TakeRing(depth);
    if (!range.ok()) {
      GiveRings(taken);
      return range.status();
    }
    taken[worker] = *range;
  }
  return absl::OkStatus();
}

void CompletionQueues::GiveRings(const std::map<uint32_t, ArenaRange>& rings) {
  for (const auto& [worker, range] : rings) core_.arena().Give(range.offset, range.length_bytes);
}

absl::StatusOr<uroce_destroy_cq_reply> CompletionQueues::Destroy(uint32_t handle) {
  absl::StatusOr<CompletionQueueObject*> found = cqs_.Find(handle);
  if (!found.ok()) return found.status();
  CompletionQueueObject& cq = **found;
  if (absl::Status status = cq.users.CheckNone("cq"); !status.ok()) return status;
  uroce_destroy_cq_reply reply{};
  cq.queue.ForEachRing([&](CompletionRing& ring) {
    datapath::Worker& worker = core_.nic().workers().at(ring.worker());
    worker.Run([&] { worker.RemoveCompletionRing(&ring); });
    reply.comp_events_reported += ring.channel_records();
    reply.async_events_reported += ring.async_records();
  });
  core_.nic().overflows().Forget(cq.queue);
  const std::unique_ptr<CompletionQueueObject> gone = cqs_.Remove(handle);
  GiveRings(gone->rings);
  core_.arena().Give(gone->page.offset, gone->page.length_bytes);
  return reply;
}

bool CompletionQueues::EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) {
  const auto is_its = [&](const auto& object) { return object.context == &context; };
  return cqs_.EndSome(is_its, is_over, [this](uint32_t cq) { MustEnd(Destroy(cq).status()); }) &&
         channels_.EndSome(is_its, is_over,
                           [this](uint32_t channel) { MustEnd(DestroyChannel(channel)); });
}

bool CompletionQueues::EndSome(absl::FunctionRef<bool()> is_over) {
  return cqs_.EndAll(is_over, [this](auto leaving) { Leave(leaving); }) &&
         channels_.EndAll(is_over);
}

void CompletionQueues::Leave(std::span<const std::unique_ptr<CompletionQueueObject>> leaving) {
  std::map<uint32_t, std::vector<CompletionRing*>> of_worker;
  for (const auto& object : leaving) {
    object->queue.ForEachRing(
        [&](CompletionRing& ring) { of_worker[ring.worker()].push_back(&ring); });
  }
  for (const auto& [index, rings] : of_worker) {
    datapath::Worker& worker = core_.nic().workers().at(index);
    worker.RunInPieces(rings.size(),
                       [&, &its = rings](size_t ring) { worker.RemoveCompletionRing(its[ring]); });
  }
  for (const auto& object : leaving) core_.nic().overflows().Forget(object->queue);
}

}  // namespace uroce::nic
