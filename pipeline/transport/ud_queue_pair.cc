// SPDX-License-Identifier: Apache-2.0
#include "pipeline/transport/ud_queue_pair.h"

#include "pipeline/transport/request_shape.h"

namespace uroce::transport {
namespace {

/// A work whose Q_Key has this bit set uses the queue pair's own Q_Key.
constexpr uint32_t kOwnQkey = 1u << 31;

}  // namespace

PostResult UdQueuePair::Post(const SendWork& work) {
  const bool known = work.opcode == WorkOpcode::kSend || work.opcode == WorkOpcode::kSendWithImm;
  WcStatus verdict = WcStatus::kSuccess;
  if (work.length_bytes > mtu_.bytes()) verdict = WcStatus::kLocLenErr;
  if (work.malformed || !known) verdict = WcStatus::kLocQpOpErr;
  return sends_.Post(work, verdict);
}

bool UdQueuePair::PollPacket(Nanos, TxPacket& packet) {
  if (!sending()) return false;
  const SendWork* const work = sends_.Next();
  if (work == nullptr) {
    Settle();
    return false;
  }
  const bool immediate = work->opcode == WorkOpcode::kSendWithImm;
  const bool own_qkey = (work->remote_qkey & kOwnQkey) != 0;
  wire::TransportHeader& header = packet.header;
  header.opcode = immediate ? wire::Opcode::kUdSendOnlyWithImm : wire::Opcode::kUdSendOnly;
  header.solicited = work->solicited;
  header.ack_request = false;
  header.psn = sends_.psn();
  header.dest_qpn = work->remote_qpn;
  header.immediate = work->immediate;
  header.deth = {.qkey = own_qkey ? attributes_.qkey : work->remote_qkey,
                 .source_qpn = config_.qpn};
  const bool empty = work->length_bytes == 0;
  packet.source = empty ? TxPacket::Source::kNone : TxPacket::Source::kSend;
  packet.local = {.slot = work->slot, .offset_bytes = 0, .length_bytes = work->length_bytes};
  packet.path = work->path;
  packet.retransmission = false;
  sends_.OnPacket();
  return true;
}

void UdQueuePair::OnSent(const TxPacket&) {
  sends_.OnSent(true);
  Settle();
}

bool UdQueuePair::NeedsReceive(const wire::TransportHeader& header) const {
  return receiving() && !message_.has_receive() && header.deth.qkey == attributes_.qkey;
}

ReceiveResult UdQueuePair::OnPacket(const wire::Packet& packet, Nanos, Effect& effect) {
  effect.kind = Effect::Kind::kNone;
  const wire::TransportHeader& header = packet.header;
  if (!receiving()) return ReceiveResult::kBadState;
  if (wire::ServiceOf(header.opcode) != wire::Service::kUd) return ReceiveResult::kMalformed;
  if (header.deth.qkey != attributes_.qkey) {
    ++counters_.qkey_viol;
    return ReceiveResult::kBadQkey;
  }
  NoteArrival();
  if (!receive_ready()) {
    ++counters_.out_of_buffer;
    return ReceiveResult::kNoReceive;
  }
  if (message_.receive().malformed) {
    FailReceive(WcStatus::kLocQpOpErr);
    EnterError();
    return ReceiveResult::kFailed;
  }
  const auto size = static_cast<uint32_t>(packet.payload.size());
  if (message_.receive().length_bytes < kGrhAreaBytes + size) return OnTooLong();
  arriving_ = {.solicited = header.solicited,
               .has_immediate = header.opcode == wire::Opcode::kUdSendOnlyWithImm,
               .length_bytes = kGrhAreaBytes + size,
               .immediate_or_rkey = header.immediate,
               .source_qpn = header.deth.source_qpn,
               .has_grh = true,
               .is_ipv6 = !packet.destination.is_ipv4()};
  effect.kind = Effect::Kind::kPlaceReceive;
  effect.grh_area = true;
  effect.invalidate = false;
  effect.local = {
      .slot = message_.receive().slot, .offset_bytes = kGrhAreaBytes, .length_bytes = size};
  return ReceiveResult::kAccepted;
}

ReceiveResult UdQueuePair::OnTooLong() {
  ++counters_.resp_local_length_error;
  ++counters_.dropped_messages;
  // A receive work of the queue pair's own queue waits for the next datagram. One from a shared
  // queue completes with an error (docs/protocol/transport.md, section 10).
  if (config_.shared_receive) FailReceive(WcStatus::kLocLenErr);
  return ReceiveResult::kTooLong;
}

void UdQueuePair::OnEffectDone(EffectOutcome outcome, uint64_t, Nanos) {
  if (outcome != EffectOutcome::kDone) {
    FailReceive(WcStatus::kLocProtErr);
    return EnterError();
  }
  Completion completion = arriving_;
  const Completion ended = message_.End(WcStatus::kSuccess, WcOpcode::kReceive, 0);
  completion.wr_id = ended.wr_id;
  completion.slot = ended.slot;
  completion.queue = ended.queue;
  completion.is_receive = true;
  completion.opcode = WcOpcode::kReceive;
  completions_.Push(completion);
}

}  // namespace uroce::transport
