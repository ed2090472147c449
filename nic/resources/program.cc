// SPDX-License-Identifier: Apache-2.0
// Birth and death of a program's resources.
#include "nic/resources/program.h"

#include <sys/eventfd.h>

#include <cerrno>

#include "nic/resources/rc_counter_table.h"
#include "nic/resources/shared_memory.h"

namespace uroce::nic {

absl::StatusOr<std::unique_ptr<Program>> Program::Make(Nic& nic, uint32_t id, uint32_t uid) {
  absl::StatusOr<Arena> arena = Arena::Make(nic.config().workers, &nic.user(uid).queue_bytes);
  if (!arena.ok()) return arena.status();
  Fd wake_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_fd) return SystemError("eventfd", errno);
  return std::unique_ptr<Program>(new Program(nic, id, uid, *std::move(arena), std::move(wake_fd)));
}

Program::Program(Nic& nic, uint32_t id, uint32_t uid, Arena arena, Fd wake_fd)
    : nic_(nic),
      uid_(uid),
      arena_(std::move(arena)),
      wake_fd_(std::move(wake_fd)),
      session_(id, arena_.doorbells(0), wake_fd_.get()),
      contexts_("context", nic.config().limits.contexts, &nic.user(uid).pipes),
      pds_("pd", nic.config().limits.pds),
      segments_("segment", nic.config().limits.segments, &nic.user(uid).segments),
      mrs_("mr", nic.config().limits.mrs, &nic.user(uid).mrs),
      channels_("channel", nic.config().limits.channels, &nic.user(uid).pipes),
      cqs_("cq", nic.config().limits.cqs, &nic.user(uid).cqs),
      qps_("qp", nic.config().limits.qps, &nic.user(uid).qps),
      ahs_("ah", nic.config().limits.ahs) {
  nic_.worker().Run([this] { nic_.worker().AddSession(&session_); });
}

// Queue pairs first: to its peers a program that ended is silent, and their retries run out. Keys
// that go before would have it refuse what they ask. The second Run is the grace period of the
// regions.
Program::~Program() {
  nic_.worker().Run([this] {
    qps_.ForEach([this](uint32_t, QueuePairObject& object) {
      nic_.worker().RemoveQueuePair(&object.queue_pair);
    });
    cqs_.ForEach([this](uint32_t, CompletionQueueObject& object) {
      object.queue.ForEachRing(
          [this](datapath::CompletionRing& ring) { nic_.worker().RemoveCompletionRing(&ring); });
    });
    nic_.worker().RemoveSession(&session_);
  });
  mrs_.ForEach([this](uint32_t, MemoryObject& memory) { nic_.keys().Unpublish(&memory.region); });
  nic_.worker().Run([] {});
  cqs_.ForEach(
      [this](uint32_t, CompletionQueueObject& object) { nic_.overflows().Forget(object.queue); });
  qps_.ForEach([this](uint32_t, QueuePairObject& object) {
    AddCounters(object.pd->context->device->ended_counters(), object.queue_pair.counters());
    nic_.qpns().Release(object.queue_pair.qpn().value(), Nic::Now());
  });
  mrs_.ForEach([this](uint32_t, MemoryObject& memory) {
    nic_.key_numbers().Release(memory.region.key, Nic::Now());
  });
}

}  // namespace uroce::nic
