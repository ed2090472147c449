// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/parties/ud_party.h"

#include <algorithm>

#include "pipeline/wire/decode.h"

namespace uroce::sim {

using transport::Completion;
using transport::Effect;
using transport::EffectOutcome;
using transport::WcStatus;
using transport::WorkOpcode;

UdParty::UdParty(uint32_t host, Qpn qpn, const transport::UnreliableConfig& config,
                 const transport::QueuePairAttributes& attributes, ReceivePool& pool, bool ipv6,
                 const NetworkFaults& faults, uint64_t seed)
    : UnreliableParty(host, config, attributes, pool, seed),
      qpn_(qpn),
      ipv6_(ipv6),
      faults_(faults) {}

void UdParty::Plan(uint32_t count, Network& network, const std::vector<UdParty*>& parties) {
  parties_ = parties;
  for (const UdParty* party : parties) {
    // The work names the queue pair, so the path need not.
    paths_.emplace_back(network, host(), party->host(), Qpn(), ipv6_);
  }
  for (uint32_t i = 0; i < count; ++i) messages().push_back(PlanMessage(i));
  messages().back().work.signaled = true;
}

Message UdParty::PlanMessage(uint32_t index) {
  Message message;
  transport::SendWork& work = message.work;
  work.opcode = random_.OneOf({WorkOpcode::kSend, WorkOpcode::kSendWithImm});
  work.signaled = random_.Happens(700);
  work.solicited = random_.Happens(300);
  work.immediate = index;
  work.length_bytes = 4 + random_.Below(attributes_.path_mtu_bytes - 3);
  work.path = random_.Below(static_cast<uint32_t>(parties_.size()));
  work.remote_qpn = parties_[work.path]->qpn();
  work.remote_qkey = random_.OneOf<uint32_t>({kQkey, kQkey, kQkey, 1u << 31, kQkey + 1});
  if (random_.Happens(30)) {
    message.gather_fails = true;
    message.failure = WcStatus::kLocProtErr;
  } else if (random_.Happens(20)) {
    work.length_bytes = attributes_.path_mtu_bytes + 1;
    message.failure = WcStatus::kLocLenErr;
  }
  message.bytes = BytesOf(qpn_.value(), index, work.length_bytes);
  return message;
}

void UdParty::OnFrame(const ReceivedFrame& frame, Nanos) {
  const Effect effect = Give(frame.packet);
  if (effect.kind == Effect::Kind::kNone) return;
  if (effect.kind != Effect::Kind::kPlaceReceive || !effect.grh_area) {
    return Fault("an effect that this service does not know");
  }
  PlaceReceive(effect.local, frame.packet.payload);
  const auto area = wire::GrhArea(frame.bytes, frame.view);
  std::ranges::copy(area, pool_.Buffer(effect.local.slot).begin());
  qp_.OnEffectDone(EffectOutcome::kDone);
}

const UdParty* UdParty::SenderOf(const Completion& completion) const {
  const auto found = std::ranges::find_if(
      parties_, [&](const UdParty* party) { return party->qpn() == completion.source_qpn; });
  return found == parties_.end() ? nullptr : *found;
}

void UdParty::OnReceived(const Completion& completion) {
  const std::span<const uint8_t> buffer(pool_.Buffer(completion.slot));
  auto* const sender = const_cast<UdParty*>(SenderOf(completion));
  if (completion.status != WcStatus::kSuccess || sender == nullptr) {
    return Fault("a receive work failed, or has no sender");
  }
  uint32_t index;
  std::memcpy(&index, buffer.data() + transport::kGrhAreaBytes, sizeof index);
  if (index >= sender->posted()) return Fault("a datagram that was not sent");
  Message& message = sender->messages()[index];
  const auto payload = buffer.subspan(transport::kGrhAreaBytes, message.bytes.size());
  const bool immediate = message.work.opcode == WorkOpcode::kSendWithImm;
  if (completion.length_bytes != transport::kGrhAreaBytes + message.bytes.size() ||
      !std::ranges::equal(payload, message.bytes) || completion.has_immediate != immediate ||
      (immediate && completion.immediate_or_rkey != index) ||
      completion.solicited != message.work.solicited || completion.is_ipv6 != ipv6_) {
    Fault("a datagram is not as it was sent");
  }
  const Gid source = AddressOf(sender->host(), ipv6_);
  const auto address = ipv6_ ? std::span(source.bytes) : std::span(source.bytes).subspan(12);
  const auto area = ipv6_ ? buffer.subspan(8, 16) : buffer.subspan(32, 4);
  if (!std::ranges::equal(address, area)) Fault("the GRH area names another sender");
  if (message.work.remote_qpn != qpn_) Fault("a datagram for another");
  if (message.work.remote_qkey == kQkey + 1) Fault("a datagram with a wrong Q_Key");
  if (++message.received > 1 && faults_.duplicate == 0) Fault("a datagram came twice");
}

void UdParty::Judge() {
  for (const Message& message : messages()) {
    const UdParty& target = *parties_[message.work.path];
    const bool comes = message.sent && message.work.remote_qkey != kQkey + 1;
    const bool waits = target.pool_.next_refill() == kNever;
    const bool failed = !message.sent && !dead();
    if (message.received != 0 && failed) Fault("a datagram that had failed was received");
    if (comes && waits && !faults_.loses() && !dead() && !target.dead() && message.received == 0) {
      Fault("a datagram was lost without a reason");
    }
  }
}

}  // namespace uroce::sim
