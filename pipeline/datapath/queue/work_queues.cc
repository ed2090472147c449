// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/work_queues.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "pipeline/base/observation.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/shm/rings/shared_word.h"
#include "pipeline/transport/work.h"

namespace uroce::datapath {

SharedReceiveQueue::SharedReceiveQueue(const SharedReceiveQueueConfig& config)
    : config_(config), entries_(config.layout, &config.page->produced) {}

PullResult SharedReceiveQueue::Take(Entry& entry) {
  const rings::QueueState state = entries_.Look();
  if (state != rings::QueueState::kReady) return NothingTaken(state);
  entry.slot = entries_.index();
  entry.read = rings::ReadReceiveWqe(entries_.Slot(), config_.max_sge, entry.wqe);
  entries_.Advance();
  rings::StoreRelease(config_.page->consumed.value, entries_.index());
  if (limit_ != 0) CheckLimit();
  return PullResult::kMore;
}

std::optional<SharedReceiveQueue::Waiting> SharedReceiveQueue::LookForWaiting() {
  if (entries_.LookAgain() == rings::QueueState::kCorrupt) return std::nullopt;
  return Waiting{.first = entries_.index(), .count = entries_.seen()};
}

void SharedReceiveQueue::CopyTo(const rings::WorkQueueLayout& layout,
                                const Waiting& waiting) const {
  const uint32_t slot_bytes = std::min(layout.slot_bytes, config_.layout.slot_bytes);
  for (uint32_t i = 0; i < waiting.count; ++i) {
    memcpy(layout.slots + size_t{i} * layout.slot_bytes, entries_.Slot(waiting.first + i),
           slot_bytes);
  }
}

void SharedReceiveQueue::MoveTo(uroce_srq_page* page, const rings::WorkQueueLayout& layout,
                                const Waiting& waiting) {
  const uint32_t taken = std::min(entries_.index() - waiting.first, waiting.count);
  rings::StoreRelease(page->produced.value, waiting.count);
  rings::StoreRelease(page->consumed.value, taken);
  config_.page = page;
  config_.layout = layout;
  entries_ = rings::WorkQueueConsumer(layout, &page->produced, taken);
}

uint32_t SharedReceiveQueue::waiting() const {
  const uint32_t count = rings::LoadAcquire(config_.page->produced.value) - entries_.index();
  return count <= config_.layout.depth ? count : 0;
}

void SharedReceiveQueue::SetLimit(uint32_t limit) {
  limit_ = limit;
  if (limit_ != 0) CheckLimit();
}

// Take reports an impossible index.
void SharedReceiveQueue::CheckLimit() {
  if (entries_.LookAgain() == rings::QueueState::kCorrupt || entries_.seen() >= limit_) return;
  limit_ = 0;
  pending_record_ = config_.async.is_open();
  RetryRecord();
}

void SharedReceiveQueue::RetryRecord() {
  if (!pending_record_) return;
  if (!config_.async.Write(config_.user_handle, kEventSrqLimitReached)) return;
  pending_record_ = false;
  ++async_records_;
}

namespace {

uint32_t Stride(const rings::WqeLimits& limits) {
  constexpr uint32_t kSgeBytes = sizeof(uroce_sge);
  constexpr uint32_t kBindBytes = sizeof(BindRequest);
  const uint32_t bytes =
      std::max({limits.max_sge * kSgeBytes, limits.max_inline_bytes, kBindBytes});
  return (bytes + kSgeBytes - 1) / kSgeBytes * kSgeBytes;  // This keeps every list aligned.
}

}  // namespace

SendLists::SendLists(uint32_t held_works, const rings::WqeLimits& limits)
    : mask_(held_works - 1),
      stride_(Stride(limits)),
      entries_(std::make_unique<Entry[]>(held_works)),
      bytes_(std::make_unique<uint8_t[]>(size_t{held_works} * stride_)) {}

void SendLists::Store(uint32_t slot, const rings::SendWqe& wqe) {
  Entry& entry = entries_[slot & mask_];
  if (wqe.is_inline()) {
    entry = {.num_sge = 0, .inline_length = wqe.header.inline_length};
    memcpy(Place(slot), wqe.inline_data, wqe.header.inline_length);
    return;
  }
  entry = {.num_sge = wqe.header.num_sge, .inline_length = 0};
  memcpy(Place(slot), wqe.sges, wqe.header.num_sge * sizeof(uroce_sge));
}

std::span<const uroce_sge> SendLists::List(uint32_t slot) const {
  return {reinterpret_cast<const uroce_sge*>(Place(slot)), entries_[slot & mask_].num_sge};
}

std::span<const uint8_t> SendLists::InlineBytes(uint32_t slot) const {
  return {Place(slot), entries_[slot & mask_].inline_length};
}

void SendLists::StoreBind(uint32_t slot, const BindRequest& request) {
  StoreNothing(slot);
  memcpy(Place(slot), &request, sizeof(request));
}

BindRequest SendLists::Bind(uint32_t slot) const {
  BindRequest request;
  memcpy(&request, Place(slot), sizeof(request));
  return request;
}

void ReceiveList::Store(uint32_t slot, std::span<const uroce_sge> list) {
  slot_ = slot;
  count_ = static_cast<uint32_t>(list.size());
  std::ranges::copy(list, list_.get());
}

// Which work requests are valid (docs/protocol/transport.md, sections 8 and 12).

namespace {

using transport::WorkOpcode;

bool IsAtomic(WorkOpcode opcode) {
  return opcode == WorkOpcode::kCompareSwap || opcode == WorkOpcode::kFetchAdd ||
         opcode == WorkOpcode::kAtomicWrite;
}

bool MayBeInline(WorkOpcode opcode) {
  return opcode <= WorkOpcode::kSendWithImm || opcode == WorkOpcode::kSendWithInvalidate ||
         opcode == WorkOpcode::kAtomicWrite;
}

uint64_t Sum(const uroce_sge* list, uint32_t count) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) sum += list[i].length;
  return sum;
}

bool CanExecute(WorkOpcode opcode, const rings::SendWqe& wqe, uint64_t length) {
  if (!IsKnown(opcode)) return false;
  if (wqe.is_inline() && !MayBeInline(opcode)) return false;
  if (transport::IsLocal(opcode)) return length == 0;
  // The responder checks that an atomic's remote address is aligned, and answers NAK 0x61.
  return !IsAtomic(opcode) || length >= sizeof(uint64_t);
}

/// The length of a work that can be executed. One byte beyond a message stands for all that is too
/// long. An ATOMIC WRITE takes the first eight bytes of a longer list.
uint32_t LengthOf(WorkOpcode opcode, uint64_t length) {
  constexpr uint64_t kAtomicBytes = sizeof(uint64_t);
  if (opcode == WorkOpcode::kAtomicWrite) return kAtomicBytes;
  const uint64_t most = IsAtomic(opcode) ? kAtomicBytes : transport::kMaxMessageBytes;
  return length <= most ? static_cast<uint32_t>(length) : transport::kMaxMessageBytes + 1;
}

}  // namespace

transport::SendWork ToSendWork(const rings::SendWqe& wqe, rings::WqeResult read, uint32_t slot,
                               wire::Service service) {
  const uroce_send_wqe& header = wqe.header;
  transport::SendWork work;
  work.wr_id = header.wr_id;
  work.slot = slot;
  work.opcode = static_cast<WorkOpcode>(header.opcode);
  work.signaled = (header.flags & UROCE_SEND_SIGNALED) != 0;
  work.solicited = (header.flags & UROCE_SEND_SOLICITED) != 0;
  work.fence = (header.flags & UROCE_SEND_FENCE) != 0;
  if (!IsKnown(work.opcode)) work.opcode = WorkOpcode::kSend;  // Any known opcode will do.
  if (read != rings::WqeResult::kOk) {
    work.malformed = true;
    return work;
  }
  const uint64_t length = wqe.is_inline() ? header.inline_length : Sum(wqe.sges, header.num_sge);
  work.malformed = !CanExecute(static_cast<WorkOpcode>(header.opcode), wqe, length);
  if (work.malformed) return work;
  work.length_bytes = LengthOf(work.opcode, length);
  work.immediate = header.imm_or_rkey;
  work.invalidate_rkey = Rkey(header.imm_or_rkey);
  if (service == wire::Service::kUd) {
    work.path = header.datagram.ah;
    work.remote_qpn = Qpn(header.datagram.remote_qpn);
    work.remote_qkey = header.datagram.remote_qkey;
    return work;
  }
  constexpr uint32_t kNumberMask = 0xffffff;
  work.xrc_srqn = header.xrc_srqn & kNumberMask;
  work.rkey = Rkey(header.rkey);
  work.remote_va = header.remote_addr;
  work.compare_add = header.atomic.compare_add;
  work.swap = header.atomic.swap;
  return work;
}

BindRequest ToBindRequest(const uroce_send_wqe& header) {
  return {.addr = header.remote_addr,
          .length_bytes = header.bind.length,
          .window_key = header.imm_or_rkey,
          .new_key = header.rkey,
          .region_key = header.bind.lkey,
          .access = header.bind.access};
}

transport::ReceiveWork ToReceiveWork(const rings::ReceiveWqe& wqe, rings::WqeResult read,
                                     uint32_t slot) {
  transport::ReceiveWork work;
  work.wr_id = wqe.header.wr_id;
  work.slot = slot;
  work.malformed = read != rings::WqeResult::kOk;
  if (work.malformed) return work;
  const uint64_t room = Sum(wqe.sges, wqe.header.num_sge);
  // More room than any message needs is no error, but the field cannot hold it.
  work.length_bytes = static_cast<uint32_t>(std::min<uint64_t>(room, transport::kMaxMessageBytes));
  return work;
}

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

uint64_t WorkQueues::HeldBytes(const QueuePairConfig& config) {
  constexpr uint64_t kWorkBytes = sizeof(transport::HeldWork) + 8;  // And its entry of SendLists.
  return HeldSends(config) * (kWorkBytes + Stride(SendLimits(config))) +
         MaxReceiveSge(config) * sizeof(uroce_sge);
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

ReceiveSource::ReceiveSource(const QueuePairConfig& config)
    : shared_(config.shared),
      session_(config.session),
      domain_(config.domain),
      pd_(config.shared != nullptr ? config.shared->config().pd : config.pd),
      remote_pd_(config.pd) {}

bool ReceiveSource::Select(uint32_t srqn) {
  if (shared_ != nullptr && shared_->config().number == srqn) return true;
  shared_ = domain_->Find(srqn);
  pd_ = remote_pd_ = shared_ != nullptr ? shared_->config().pd : 0;
  return shared_ != nullptr;
}

void ReceiveSource::Deselect() {
  shared_ = nullptr;
  pd_ = remote_pd_ = 0;
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
