// SPDX-License-Identifier: Apache-2.0
// The rings of one queue pair: posted works go from there to the transport, with private copies of
// what they point to.
#include "pipeline/datapath/queue/work_queues.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <bit>

#include "pipeline/base/probes.h"

namespace uroce::datapath {
namespace {

rings::WqeLimits SendLimits(const QueuePairConfig& config) {
  return {.max_sge = std::min(config.max_send_sge, UROCE_MAX_SGE),
          .max_inline_bytes = std::min(config.max_inline_bytes, UROCE_MAX_INLINE)};
}

uint32_t MaxReceiveSge(const QueuePairConfig& config) {
  return std::min(config.max_receive_sge, UROCE_MAX_SGE);
}

}  // namespace

uint32_t WorkQueues::HeldSends(const QueuePairConfig& config) {
  return std::bit_ceil(std::clamp<uint32_t>(config.sq_depth, 1, kMaxHeldSends));
}

WorkQueues::WorkQueues(const QueuePairConfig& config, QueuePairCore& core, ReceiveSource& source)
    : sends_({.slots = config.sq, .depth = config.sq_depth, .slot_bytes = config.sq_slot_bytes},
             &config.page->sq_produced),
      receives_({.slots = config.rq, .depth = config.rq_depth, .slot_bytes = config.rq_slot_bytes},
                &config.page->rq_produced),
      send_lists_(HeldSends(config), SendLimits(config)),
      receive_list_(MaxReceiveSge(config)),
      config_(config),
      core_(core),
      source_(source) {}

bool ReceiveSource::Select(uint32_t srqn) {
  if (shared_ != nullptr && shared_->config().number == srqn) return true;
  shared_ = domain_->Find(srqn);
  pd_ = remote_pd_ = shared_ != nullptr ? shared_->config().pd : 0;
  return shared_ != nullptr;
}

bool WorkQueues::takes_sends() const {
  using transport::QpState;
  switch (core_.state()) {
    case QpState::kRts:
    case QpState::kSqd:
    case QpState::kSqe:
    case QpState::kErr:
      return true;
    case QpState::kReset:
    case QpState::kInit:
    case QpState::kRtr:
      return false;
  }
  return false;
}

bool WorkQueues::HasPosted() const {
  if (!takes_sends()) return false;
  if (!has_corrupt_sends_ && sends_.HasPosted()) return true;
  return core_.state() == transport::QpState::kErr && flushes_receives() && receives_.HasPosted();
}

PullResult WorkQueues::PullSends(uint32_t& left, Nanos now, SizeHistogram& sizes) {
  const PullResult pulled = has_corrupt_sends_ ? PullResult::kDrained : PostSends(left, now, sizes);
  if (pulled == PullResult::kDrained) may_have_sends_ = false;
  if (pulled == PullResult::kCorrupt) has_corrupt_sends_ = true;
  return pulled;
}

PullResult WorkQueues::PostSends(uint32_t& left, Nanos now, SizeHistogram& sizes) {
  rings::SendWqe wqe;
  while (core_.post_room() != 0) {
    const rings::QueueState state = sends_.Look();
    if (state != rings::QueueState::kReady) return NothingTaken(state);
    if (left == 0) return PullResult::kMore;
    --left;
    const uint32_t slot = sends_.index();
    const rings::WqeResult read = rings::ReadSendWqe(sends_.Slot(), SendLimits(config_), wqe);
    sends_.Advance();
    const transport::SendWork work = ToSendWork(wqe, read, slot, core_.service());
    probes::Post(config_.qpn.value(), work.wr_id, static_cast<uint32_t>(work.opcode),
                 work.length_bytes);
    if (work.malformed) {
      send_lists_.StoreNothing(slot);
    } else if (transport::IsLocal(work.opcode)) [[unlikely]] {
      has_local_works_ = true;
      send_lists_.StoreBind(slot, ToBindRequest(wqe.header));
    } else {
      send_lists_.Store(slot, wqe);
      sizes.Add(work.length_bytes);
    }
    send_lists_.SetTaken(slot, now);
    if (core_.Post(work) != transport::PostResult::kPosted) return PullResult::kNoRoom;
  }
  return PullResult::kNoRoom;
}

PullResult WorkQueues::PostSharedReceive() {
  SharedReceiveQueue& shared = *source_.shared();
  SharedReceiveQueue::Entry entry;
  const PullResult taken = shared.Take(entry);
  has_limit_event_ = shared.has_pending_record();
  if (taken != PullResult::kMore) return taken;
  transport::ReceiveWork work = ToReceiveWork(entry.wqe, entry.read, entry.slot);
  work.queue = source_.is_target() ? shared.config().number : kSharedQueue;
  receive_list_.Store(entry.slot, {entry.wqe.sges, work.malformed ? 0 : entry.wqe.header.num_sge});
  core_.PostReceive(work);
  return PullResult::kMore;
}

PullResult WorkQueues::PullReceive() {
  if (has_corrupt_receives_) return PullResult::kDrained;
  const PullResult pulled = source_.shared() != nullptr ? PostSharedReceive() : PostOwnReceive();
  if (pulled == PullResult::kCorrupt) has_corrupt_receives_ = true;
  return pulled;
}

PullResult WorkQueues::PostOwnReceive() {
  const rings::QueueState state = receives_.Look();
  if (state != rings::QueueState::kReady) return NothingTaken(state);
  rings::ReceiveWqe wqe;
  const uint32_t slot = receives_.index();
  const rings::WqeResult read =
      rings::ReadReceiveWqe(receives_.Slot(), MaxReceiveSge(config_), wqe);
  receives_.Advance();
  const transport::ReceiveWork work = ToReceiveWork(wqe, read, slot);
  receive_list_.Store(slot, {wqe.sges, work.malformed ? 0 : wqe.header.num_sge});
  core_.PostReceive(work);
  if (core_.is_reliable()) OfferCredits();
  return PullResult::kMore;
}

void WorkQueues::OfferCredits() {
  // The next pull reports an impossible index.
  if (receives_.seen() <= receives_.waited() / 2) static_cast<void>(receives_.LookAgain());
  core_.reliable().OfferCredits(receives_.seen());
}

PullResult WorkQueues::FlushReceives(uint32_t& left) {
  if (!flushes_receives()) return PullResult::kDrained;
  for (; left != 0; --left) {
    const PullResult pulled = PullReceive();
    if (pulled != PullResult::kMore) return pulled;
  }
  return PullResult::kMore;
}

void WorkQueues::DiscardPosted() {
  sends_.SkipAll();
  receives_.SkipAll();
  has_corrupt_sends_ = has_corrupt_receives_ = false;
}

void WorkQueues::PrefetchPosted() const {
  rte_prefetch0(config_.page);
  rte_prefetch0(sends_.Slot());
}

void WorkQueues::PrefetchReceive() const { rte_prefetch0(receives_.Slot()); }

void WorkQueues::PrefetchSend() const {
  if (!core_.is_reliable()) return;
  core_.reliable().PrefetchNext();
  send_lists_.Prefetch(sends_.index() - core_.reliable().unsent());
}

}  // namespace uroce::datapath
