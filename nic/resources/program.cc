// SPDX-License-Identifier: Apache-2.0
// Birth and death of a program's resources.
#include "nic/resources/program.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <vector>

#include "nic/resources/counter_table.h"
#include "nic/resources/shared_memory.h"

namespace uroce::nic {

namespace {

std::vector<datapath::SessionLink> Links(const Arena& arena, const std::vector<Fd>& wake_fds) {
  std::vector<datapath::SessionLink> links;
  for (uint32_t worker = 0; worker < wake_fds.size(); ++worker) {
    links.push_back({.doorbells = arena.doorbells(worker), .wake_fd = wake_fds[worker].get()});
  }
  return links;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Program>> Program::Make(Nic& nic, uint32_t id, uint32_t uid,
                                                       std::shared_ptr<SideThread> files_thread) {
  const uint32_t workers = nic.workers().count();
  absl::StatusOr<Arena> arena = Arena::Make(workers, &nic.user(uid).queue_bytes, nic.reaper());
  if (!arena.ok()) return arena.status();
  std::vector<Fd> wake_fds;
  for (uint32_t worker = 0; worker < workers; ++worker) {
    wake_fds.emplace_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_fds.back()) return SystemError("eventfd", errno);
  }
  return std::unique_ptr<Program>(
      new Program(nic, id, uid, std::move(files_thread), *std::move(arena), std::move(wake_fds)));
}

Program::Program(Nic& nic, uint32_t id, uint32_t uid, std::shared_ptr<SideThread> files_thread,
                 Arena arena, std::vector<Fd> wake_fds)
    : nic_(nic),
      uid_(uid),
      files_thread_(std::move(files_thread)),
      arena_(std::move(arena)),
      wake_fds_(std::move(wake_fds)),
      session_(id, Links(arena_, wake_fds_), uid),
      contexts_("context", nic.config().limits.contexts, &nic.user(uid).sockets),
      pds_("pd", nic.config().limits.pds),
      segments_("segment", nic.config().limits.segments, &nic.user(uid).segments),
      mr_parts_(
          std::make_shared<Quota>(Quota{uid, nic.config().limits.mr_parts, "--max-mr-parts"})),
      mrs_("mr", nic.config().limits.mrs, &nic.user(uid).mrs),
      mws_("mw", nic.config().limits.mws, &nic.user(uid).mws),
      channels_("channel", nic.config().limits.channels, &nic.user(uid).sockets),
      cqs_("cq", nic.config().limits.cqs, &nic.user(uid).cqs),
      xrc_files_("xrc file", nic.config().limits.xrcds, &nic.user(uid).xrc_files),
      xrcds_("xrcd", nic.config().limits.xrcds, &nic.user(uid).xrcds),
      targets_("qp", nic.config().limits.qps, &nic.user(uid).qps),
      srqs_("srq", nic.config().limits.srqs, &nic.user(uid).srqs),
      qps_("qp", nic.config().limits.qps, &nic.user(uid).qps),
      ahs_("ah", nic.config().limits.ahs, &nic.user(uid).ahs),
      attachments_(&nic.user(uid).attachments) {
  nic_.workers().RunOnEach([this](datapath::Worker& worker) { worker.AddSession(&session_); });
}

bool Program::is_privileged() const { return uid_ == 0 || uid_ == geteuid(); }

void Program::VisitQueuePairs(
    absl::FunctionRef<bool(const QueuePairObject&)> is_meant,
    absl::FunctionRef<void(datapath::Worker&, datapath::QueuePair&)> visit) {
  std::map<datapath::Worker*, std::vector<datapath::QueuePair*>> meant;
  qps_.ForEach([&](uint32_t, QueuePairObject& qp) {
    if (is_meant(qp)) meant[&nic_.OwnerOf(qp.queue_pair)].push_back(&qp.queue_pair);
  });
  for (auto& [worker, its] : meant) {
    std::ranges::reverse(its);
    worker->RunForEach(its, [&, owner = worker](datapath::QueuePair& qp) { visit(*owner, qp); });
  }
}

// Queue pairs first: to its peers a program that ended is silent, and their retries run out. Keys
// that go before would have it refuse what they ask.
Program::~Program() {
  qps_.ForEach([this](uint32_t, QueuePairObject& object) { DetachAll(object); });
  VisitQueuePairs(
      [](const QueuePairObject&) { return true; },
      [](datapath::Worker& owner, datapath::QueuePair& qp) { owner.RemoveQueuePair(&qp); });
  nic_.workers().RunOnEach([this](datapath::Worker& worker) {
    srqs_.ForEach([&](uint32_t, SharedReceiveObject& object) {
      if (object.worker == worker.index()) worker.RemoveSharedReceiveQueue(&object.queue);
    });
    cqs_.ForEach([&](uint32_t, CompletionQueueObject& object) {
      datapath::CompletionRing* const ring = object.queue.ring(worker.index());
      if (ring != nullptr) worker.RemoveCompletionRing(ring);
    });
    worker.RemoveSession(&session_);
  });
  for (const uint32_t handle : targets_.Handles([](const OpenedTarget&) { return true; })) {
    static_cast<void>(CloseTarget(handle));
  }
  mrs_.ForEach(
      [this](uint32_t, MemoryObject& memory) { nic_.keys().Unpublish(memory.published()); });
  mws_.ForEach([this](uint32_t, WindowObject& object) { nic_.keys().Unpublish(&object.entry); });
  nic_.workers().AwaitGrace();
  ahs_.ForEach([this](uint32_t, AddressHandle& ah) { nic_.address_handles().erase(&ah); });
  cqs_.ForEach(
      [this](uint32_t, CompletionQueueObject& object) { nic_.overflows().Forget(object.queue); });
  qps_.ForEach([this](uint32_t, QueuePairObject& object) {
    AddCounters(object.device->ended_counters(), object.queue_pair.counters());
    nic_.ReleaseQpn(object.queue_pair.qpn());
  });
  srqs_.ForEach([this](uint32_t, SharedReceiveObject& srq) {
    if (srq.xrcd != nullptr) nic_.srq_numbers().Release(srq.queue.config().number, Nic::Now());
  });
  mrs_.ForEach([this](uint32_t, MemoryObject& memory) {
    nic_.key_numbers().Release(memory.region.key, Nic::Now());
  });
  mws_.ForEach([this](uint32_t, WindowObject& object) { EndWindow(object); });
}

}  // namespace uroce::nic
