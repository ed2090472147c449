// SPDX-License-Identifier: Apache-2.0
// The worker's side of one queue pair: the state of the transport, the rings that feed it, and its
// place in the worker's lists.
#include "pipeline/datapath/queue/queue_pair.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <bit>

#include "pipeline/base/probes.h"
#include "pipeline/datapath/queue/shared_receive_queue.h"
#include "pipeline/datapath/queue/waiting_work.h"
#include "pipeline/datapath/queue/work_request.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::datapath {
namespace {

// The first bytes of the object, which packets and requests touch.
constexpr size_t kHotBytes = 19 * UROCE_LINE;
static_assert(kHotBytes <= sizeof(QueuePair));

uint32_t HeldSends(const QueuePairConfig& config) {
  return std::bit_ceil(std::clamp<uint32_t>(config.sq_depth, 1, QueuePair::kMaxHeldSends));
}

rings::WqeLimits SendLimits(const QueuePairConfig& config) {
  return {.max_sge = std::min(config.max_send_sge, UROCE_MAX_SGE),
          .max_inline_bytes = std::min(config.max_inline_bytes, UROCE_MAX_INLINE)};
}

uint32_t MaxReceiveSge(const QueuePairConfig& config) {
  return std::min(config.max_receive_sge, UROCE_MAX_SGE);
}

// With congestion control switches mark packets instead of dropping them: ECT(0). The program's
// DSCP stays.
uint8_t TrafficClassOf(const Path& path) {
  constexpr uint8_t kEcnMask = 3;
  constexpr uint8_t kEct0 = 2;
  const auto dscp = static_cast<uint8_t>(path.traffic_class & ~kEcnMask);
  return path.ecn_capable ? dscp | kEct0 : path.traffic_class;
}

}  // namespace

wire::HeaderTemplate MakeTemplate(const Path& path) {
  return wire::HeaderTemplate({.source_mac = path.source_mac,
                               .destination_mac = path.destination_mac,
                               .vlan_tci = path.vlan_tci,
                               .source = path.source,
                               .destination = path.destination,
                               .traffic_class = TrafficClassOf(path),
                               .hop_limit = path.hop_limit,
                               .flow_label = path.flow_label,
                               .udp_source_port = path.udp_source_port,
                               .dest_qpn = path.remote_qpn});
}

QueuePair::QueuePair(const QueuePairConfig& config)
    : sends_({.slots = config.sq, .depth = config.sq_depth, .slot_bytes = config.sq_slot_bytes},
             &config.page->sq_produced),
      receives_({.slots = config.rq, .depth = config.rq_depth, .slot_bytes = config.rq_slot_bytes},
                &config.page->rq_produced),
      send_lists_(HeldSends(config), SendLimits(config)),
      receive_list_(MaxReceiveSge(config)),
      waiting_(std::make_unique<WaitingWork>()),
      shared_(config.shared),
      receive_pd_(config.shared != nullptr ? config.shared->config().pd : config.pd),
      remote_pd_(config.pd),
      is_target_(config.domain != nullptr),
      config_(config),
      core_(config, HeldSends(config)),
      events_(config.async, config.user_handle) {
  links_.timer.queue_pair = this;
  links_.flow.queue_pair = this;
  reads_.queue_pair = this;
}

QueuePair::~QueuePair() = default;

transport::QpState QueuePair::state() const {
  // Only a waiting queue pair has a pending modification, which lies elsewhere in memory.
  if (is_waiting() && waiting_->modification) return waiting_->modification->state;
  return core_.state();
}

void QueuePair::Prefetch() const {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(this);
  for (size_t at = 0; at < kHotBytes; at += UROCE_LINE) rte_prefetch0(bytes + at);
}

void QueuePair::PrefetchPosted() const {
  rte_prefetch0(config_.page);
  rte_prefetch0(sends_.Slot());
}

void QueuePair::PrefetchReceive() const { rte_prefetch0(receives_.Slot()); }

void QueuePair::PrefetchSend() const {
  if (!core_.is_reliable()) return;
  core_.reliable().PrefetchNext();
  send_lists_.Prefetch(sends_.index() - core_.reliable().unsent());
}

void QueuePair::set_path(const Path& path) {
  path_ = path;
  header_template_ = MakeTemplate(path);
}

bool QueuePair::takes_sends() const {
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

bool QueuePair::HasPosted() const {
  if (!takes_sends()) return false;
  if (!has_corrupt_sends_ && sends_.HasPosted()) return true;
  return core_.state() == transport::QpState::kErr && flushes_receives() && receives_.HasPosted();
}

PullResult QueuePair::PullSends(uint32_t& left, Nanos now, SizeHistogram& sizes) {
  const PullResult pulled = has_corrupt_sends_ ? PullResult::kDrained : PostSends(left, now, sizes);
  if (pulled == PullResult::kDrained) may_have_sends_ = false;
  if (pulled == PullResult::kCorrupt) has_corrupt_sends_ = true;
  return pulled;
}

PullResult QueuePair::PostSends(uint32_t& left, Nanos now, SizeHistogram& sizes) {
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

bool QueuePair::SelectShared(uint32_t srqn) {
  if (shared_ != nullptr && shared_->config().number == srqn) return true;
  shared_ = config_.domain->Find(srqn);
  receive_pd_ = remote_pd_ = shared_ != nullptr ? shared_->config().pd : 0;
  return shared_ != nullptr;
}

PullResult QueuePair::PostSharedReceive() {
  SharedReceiveQueue::Entry entry;
  const PullResult taken = shared_->Take(entry);
  has_limit_event_ = shared_->has_pending_record();
  if (taken != PullResult::kMore) return taken;
  transport::ReceiveWork work = ToReceiveWork(entry.wqe, entry.read, entry.slot);
  work.queue = is_target_ ? shared_->config().number : kSharedQueue;
  receive_list_.Store(entry.slot, {entry.wqe.sges, work.malformed ? 0 : entry.wqe.header.num_sge});
  core_.PostReceive(work);
  return PullResult::kMore;
}

PullResult QueuePair::PullReceive() {
  if (has_corrupt_receives_) return PullResult::kDrained;
  const PullResult pulled = shared_ != nullptr ? PostSharedReceive() : PostOwnReceive();
  if (pulled == PullResult::kCorrupt) has_corrupt_receives_ = true;
  return pulled;
}

PullResult QueuePair::PostOwnReceive() {
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

void QueuePair::OfferCredits() {
  // The next pull reports an impossible index.
  if (receives_.seen() <= receives_.waited() / 2) static_cast<void>(receives_.LookAgain());
  core_.reliable().OfferCredits(receives_.seen());
}

PullResult QueuePair::FlushReceives(uint32_t& left) {
  if (!flushes_receives()) return PullResult::kDrained;
  for (; left != 0; --left) {
    const PullResult pulled = PullReceive();
    if (pulled != PullResult::kMore) return pulled;
  }
  return PullResult::kMore;
}

void QueuePair::DiscardPosted() {
  sends_.SkipAll();
  receives_.SkipAll();
  has_corrupt_sends_ = has_corrupt_receives_ = false;
}

bool QueuePair::PublishState(transport::QpState state) {
  if (state == published_state_) return false;
  published_state_ = state;
  rings::StoreRelease(config_.page->state.value, static_cast<uint32_t>(state));
  rings::FullFence();
  return true;
}

void QueuePair::RaiseEvent(uint32_t event_type) {
  events_.Raise(event_type);
  has_pending_records_ = events_.has_pending();
  for (EventRecords* listener : listeners_) {
    listener->Raise(event_type);
    has_pending_records_ |= listener->has_pending();
  }
}

void QueuePair::RetryRecords() {
  events_.Retry();
  has_pending_records_ = events_.has_pending();
  for (EventRecords* listener : listeners_) {
    listener->Retry();
    has_pending_records_ |= listener->has_pending();
  }
}

}  // namespace uroce::datapath
