// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/script/script.h"

#include <gtest/gtest.h>

#include <cinttypes>
#include <utility>

#include "pipeline/wire/to_string.h"
#include "tests/transport/script/packet_text.h"
#include "tests/transport/script/value_text.h"

namespace uroce::transport {
namespace {

constexpr int kMostPackets = 4096;

QueuePairAttributes AttributesOf(const ScriptConfig& config) {
  return {.remote_write = config.remote_access,
          .remote_read = config.remote_access,
          .remote_atomic = config.remote_access,
          .path_mtu_bytes = config.path_mtu,
          .rq_psn = wire::Psn(config.rq_psn),
          .sq_psn = wire::Psn(config.sq_psn),
          .max_rd_atomic = config.max_rd_atomic,
          .max_dest_rd_atomic = config.max_dest_rd_atomic,
          .min_rnr_timer = config.min_rnr_timer,
          .timeout = config.timeout,
          .retry_count = config.retry_count,
          .rnr_retry = config.rnr_retry,
          .notify_drained = config.notify_drained,
          .selective_repeat = config.agreed};
}

}  // namespace

Script::Script(const ScriptConfig& config)
    : service_(config.service),
      shared_receive_(config.shared_receive),
      attributes_(AttributesOf(config)),
      qp_({.signal_all = config.signal_all,
           .max_send_works = config.max_send_works,
           .max_in_flight_packets = config.max_in_flight_packets,
           .shared_receive = config.shared_receive,
           .service = config.service,
           .role = config.role,
           .selective_repeat = config.selective_repeat,
           .congestion = config.congestion}) {
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    if (state <= config.state) qp_.Modify(state, attributes_);
  }
}

std::string Script::Where() const { return Format("at %" PRId64, now_.count()); }

Script& Script::At(int64_t now_ns) {
  EXPECT_GE(now_ns, now_.count()) << "time goes back in the script";
  while (qp_.NextDeadline() <= Nanos(now_ns)) {
    now_ = qp_.NextDeadline();
    qp_.OnDeadline(now_);
    if (qp_.NextDeadline() == now_) break;
  }
  now_ = Nanos(now_ns);
  return *this;
}

Script& Script::Post(SendWork work) {
  work.slot = next_send_slot_++;
  work.wr_id = work.slot;
  EXPECT_EQ(qp_.Post(work), PostResult::kPosted) << Where();
  return *this;
}

Script& Script::PostReceive(uint32_t length_bytes, bool malformed) {
  const uint32_t slot = next_receive_slot_++;
  const ReceiveWork work{
      .wr_id = slot, .slot = slot, .length_bytes = length_bytes, .malformed = malformed};
  if (qp_.state() == QpState::kErr && !shared_receive_) {
    qp_.PostReceive(work);
  } else {
    receives_.push_back(work);
  }
  return *this;
}

Script& Script::Receive(const std::string& text) {
  effect_ = Take(PacketOf(text, service_));
  const PacketResult result = result_;
  replayed_.clear();
  wire::Psn psn;
  while (qp_.PollKept(psn)) replayed_.push_back(Take(kept_.Take(psn)->packet));
  result_ = result;
  return *this;
}

std::string Script::Take(const wire::Packet& packet) {
  const bool denied = std::exchange(deny_, false);
  if (!denied && qp_.NeedsReceive(packet.header)) FeedReceive();
  Effect effect;
  result_ = qp_.OnPacket(packet, now_, effect, denied ? SrqAccess::kDenied : SrqAccess::kGranted);
  const std::string text = TextOf(effect);
  if (effect.kind != Effect::Kind::kNone) Execute(effect, packet);
  return text;
}

void Script::FeedReceive() {
  if (receives_.empty()) return;
  qp_.PostReceive(receives_.front());
  receives_.pop_front();
}

void Script::Execute(const Effect& effect, const wire::Packet& packet) {
  if (effect.kind == Effect::Kind::kKeep && outcome_ == EffectOutcome::kDone) kept_.Keep(packet);
  const uint64_t original = memory_;
  if (effect.kind == Effect::Kind::kAtomic && outcome_ == EffectOutcome::kDone) {
    if (!effect.compare_swap) memory_ += effect.swap_add;
    if (effect.compare_swap && memory_ == effect.compare) memory_ = effect.swap_add;
  }
  const EffectOutcome outcome = outcome_;
  outcome_ = EffectOutcome::kDone;
  qp_.OnEffectDone(outcome, original, now_);
}

Script& Script::NextOutcome(EffectOutcome outcome) {
  outcome_ = outcome;
  return *this;
}

Script& Script::Memory(uint64_t value) {
  memory_ = value;
  return *this;
}

Script& Script::GatherFails() {
  qp_.OnGatherFailed(sent_);
  return *this;
}

Script& Script::Modify(QpState state) {
  qp_.Modify(state, attributes_);
  return *this;
}

Script& Script::Agree(bool agreed) {
  qp_.SetSelectiveRepeat(agreed);
  return *this;
}

Script& Script::DenySrq() {
  deny_ = true;
  return *this;
}

Script& Script::Offers(uint32_t receives) {
  qp_.OfferCredits(receives);
  return *this;
}

Script& Script::Local(const std::string& effect) {
  LocalEffect local;
  std::string text;
  if (qp_.PollLocal(local)) {
    const bool binds = local.kind == LocalEffect::Kind::kBind;
    text = binds ? Format("bind %u", local.slot)
                 : Format("invalidate %u %x", local.slot, local.rkey.value());
  }
  EXPECT_EQ(text, effect) << Where();
  return *this;
}

Script& Script::LocalEnds(EffectOutcome outcome) {
  qp_.OnLocalDone(outcome);
  return *this;
}

std::optional<std::string> Script::PollText() {
  TxPacket packet;
  if (!qp_.PollPacket(now_, packet)) return std::nullopt;
  sent_ = packet;
  if (packet.payload_source != TxPacket::Source::kOwn) {
    return wire::ToString(packet.header, packet.payload_bytes());
  }
  wire::Packet own;
  own.header = packet.header;
  own.payload = packet.own;
  return wire::ToString(own);
}

Script& Script::Sends(const Texts& packets) {
  Texts sent;
  while (sent.size() < kMostPackets) {
    const auto text = PollText();
    if (!text) break;
    sent.push_back(*text);
  }
  EXPECT_EQ(sent, packets) << Where();
  EXPECT_FALSE(qp_.HasPacket()) << Where();
  return *this;
}

Script& Script::SendsNext(const std::string& packet) {
  EXPECT_TRUE(qp_.HasPacket()) << Where();
  EXPECT_EQ(PollText().value_or("nothing"), packet) << Where();
  return *this;
}

Script& Script::Completes(const Texts& completions) {
  Texts polled;
  Completion completion;
  while (qp_.PollCompletion(completion)) polled.push_back(TextOf(completion));
  while (qp_.state() == QpState::kErr && !receives_.empty() && !shared_receive_) {
    qp_.PostReceive(receives_.front());
    receives_.pop_front();
    while (qp_.PollCompletion(completion)) polled.push_back(TextOf(completion));
  }
  EXPECT_EQ(polled, completions) << Where();
  return *this;
}

Script& Script::Raises(const std::vector<QpEvent>& events) {
  std::vector<QpEvent> raised;
  QpEvent event;
  while (qp_.PollEvent(event)) raised.push_back(event);
  EXPECT_EQ(raised, events) << Where();
  return *this;
}

Script& Script::Result(PacketResult result) {
  EXPECT_EQ(result_, result) << Where();
  return *this;
}

Script& Script::Does(const std::string& effect) {
  EXPECT_EQ(effect_, effect) << Where();
  return *this;
}

Script& Script::ThenDoes(const Texts& effects) {
  EXPECT_EQ(replayed_, effects) << Where();
  return *this;
}

Script& Script::Deadline(Nanos deadline) {
  EXPECT_EQ(qp_.NextDeadline().count(), deadline.count()) << Where();
  return *this;
}

Script& Script::State(QpState state) {
  EXPECT_EQ(qp_.state(), state) << Where();
  return *this;
}

namespace {

SendWork WorkOf(WorkOpcode opcode, uint32_t length_bytes) {
  SendWork work;
  work.opcode = opcode;
  work.length_bytes = length_bytes;
  work.rkey = Rkey(0x2a);
  work.remote_va = 0x1000;
  return work;
}

}  // namespace

SendWork Send(uint32_t length_bytes) { return WorkOf(WorkOpcode::kSend, length_bytes); }

SendWork SendImm(uint32_t length_bytes, uint32_t immediate) {
  SendWork work = WorkOf(WorkOpcode::kSendWithImm, length_bytes);
  work.immediate = __builtin_bswap32(immediate);
  return work;
}

SendWork SendInvalidate(uint32_t length_bytes, uint32_t rkey) {
  SendWork work = WorkOf(WorkOpcode::kSendWithInvalidate, length_bytes);
  work.invalidate_rkey = Rkey(rkey);
  return work;
}

SendWork Write(uint32_t length_bytes, uint64_t va) {
  SendWork work = WorkOf(WorkOpcode::kWrite, length_bytes);
  work.remote_va = va;
  return work;
}

SendWork WriteImm(uint32_t length_bytes, uint32_t immediate) {
  SendWork work = WorkOf(WorkOpcode::kWriteWithImm, length_bytes);
  work.immediate = __builtin_bswap32(immediate);
  return work;
}

SendWork Read(uint32_t length_bytes, uint64_t va) {
  SendWork work = WorkOf(WorkOpcode::kRead, length_bytes);
  work.remote_va = va;
  return work;
}

SendWork FetchAdd(uint64_t add) {
  SendWork work = WorkOf(WorkOpcode::kFetchAdd, 8);
  work.compare_add = add;
  return work;
}

SendWork CompareSwap(uint64_t compare, uint64_t swap) {
  SendWork work = WorkOf(WorkOpcode::kCompareSwap, 8);
  work.compare_add = compare;
  work.swap = swap;
  return work;
}

SendWork AtomicWrite() { return WorkOf(WorkOpcode::kAtomicWrite, 8); }

SendWork Bind() { return WorkOf(WorkOpcode::kBindWindow, 0); }

SendWork LocalInvalidate(uint32_t rkey) {
  SendWork work = WorkOf(WorkOpcode::kLocalInvalidate, 0);
  work.invalidate_rkey = Rkey(rkey);
  return work;
}

}  // namespace uroce::transport
