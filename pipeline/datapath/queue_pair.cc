// SPDX-License-Identifier: Apache-2.0
// From the program's rings to the transport, and the state word back.
#include "pipeline/datapath/queue_pair.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <bit>

#include "pipeline/datapath/parked_work.h"
#include "pipeline/datapath/record_pipe.h"
#include "pipeline/datapath/work_check.h"
#include "pipeline/rings/shared_word.h"

namespace uroce::datapath {
namespace {

// The part of the object that packets and requests touch.
constexpr size_t kHotBytes = 18 * UROCE_LINE;
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

}  // namespace

wire::HeaderTemplate MakeTemplate(const Path& path) {
  return wire::HeaderTemplate({.source_mac = path.source_mac,
                               .destination_mac = path.destination_mac,
                               .vlan_tci = path.vlan_tci,
                               .source = path.source,
                               .destination = path.destination,
                               .traffic_class = path.traffic_class,
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
      parked_(std::make_unique<ParkedWork>()),
      receive_pd_(config.shared != nullptr ? config.shared->config().pd : config.pd),
      config_(config),
      core_(config, HeldSends(config)) {
  links_.timer.queue_pair = this;
  links_.flow.queue_pair = this;
}

QueuePair::~QueuePair() = default;

transport::QpState QueuePair::state() const {
  // Only a parked one has a modification waiting; what is parked lies elsewhere in memory.
  if (is_parked() && parked_->modification) return parked_->modification->state;
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

PullResult QueuePair::PullSends(uint32_t limit) {
  if (links_.corrupt_send) return PullResult::kDrained;
  rings::SendWqe wqe;
  while (core_.post_room() != 0) {
    const rings::QueueState state = sends_.Look();
    if (state != rings::QueueState::kReady) return NothingTaken(state);
    if (limit-- == 0) return PullResult::kMore;
    const uint32_t slot = sends_.index();
    const rings::WqeResult read = rings::ReadSendWqe(sends_.Slot(), SendLimits(config_), wqe);
    sends_.Advance();
    const transport::SendWork work = ToSendWork(wqe, read, slot, core_.service());
    if (work.malformed) {
      send_lists_.StoreNothing(slot);
    } else if (transport::IsLocal(work.opcode)) [[unlikely]] {
      links_.has_locals = true;
      send_lists_.StoreBind(slot, ToBindRequest(wqe.header));
    } else {
      send_lists_.Store(slot, wqe);
    }
    if (core_.Post(work) != transport::PostResult::kPosted) return PullResult::kNoRoom;
  }
  return PullResult::kNoRoom;
}

PullResult QueuePair::PullShared() {
  SharedReceiveQueue::Entry entry;
  const PullResult taken = config_.shared->Take(entry);
  links_.limit_event_waits = config_.shared->has_pending_record();
  if (taken != PullResult::kMore) return taken;
  transport::ReceiveWork work = ToReceiveWork(entry.wqe, entry.read, entry.slot);
  work.queue = kSharedQueue;
  receive_list_.Store(entry.slot, {entry.wqe.sges, work.malformed ? 0 : entry.wqe.header.num_sge});
  core_.PostReceive(work);
  return PullResult::kMore;
}

PullResult QueuePair::PullReceive() {
  if (links_.corrupt_receive) return PullResult::kDrained;
  if (config_.shared != nullptr) return PullShared();
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
  // An impossible index is found by the next pull.
  if (receives_.seen() <= receives_.waited() / 2) static_cast<void>(receives_.LookAgain());
  core_.reliable().OfferCredits(receives_.seen());
}

PullResult QueuePair::FlushReceives(uint32_t limit) {
  if (config_.shared != nullptr) return PullResult::kDrained;
  for (; limit != 0; --limit) {
    const PullResult pulled = PullReceive();
    if (pulled != PullResult::kMore) return pulled;
  }
  return PullResult::kMore;
}

void QueuePair::DiscardPosted() {
  sends_.SkipAll();
  receives_.SkipAll();
  links_.corrupt_send = links_.corrupt_receive = false;
}

bool QueuePair::PublishState(transport::QpState state) {
  if (state == published_state_) return false;
  published_state_ = state;
  rings::StoreRelease(config_.page->state.value, static_cast<uint32_t>(state));
  rings::FullFence();
  return true;
}

void QueuePair::RaiseEvent(uint32_t event_type) {
  if (config_.async_fd < 0 || pending_event_count_ == kMaxPendingEvents) return;
  pending_events_[pending_event_count_++] = event_type;
  RetryRecords();
}

void QueuePair::RetryRecords() {
  uint32_t written = 0;
  while (written < pending_event_count_ &&
         WriteAsyncRecord(config_.async_fd, config_.user_handle, pending_events_[written])) {
    ++written;
  }
  std::shift_left(pending_events_.begin(), pending_events_.begin() + pending_event_count_, written);
  pending_event_count_ -= written;
  async_records_ += written;
}

}  // namespace uroce::datapath
