// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/model/nic.h"

#include <algorithm>
#include <utility>

#include "pipeline/transport/pacing.h"
#include "pipeline/wire/encode.h"

namespace uroce::tools::sim {
namespace {

using transport::Effect;
using transport::EffectOutcome;
using transport::TxPacket;

/// The most flows of a NIC whose rate is limited at a time.
constexpr uint32_t kMaxLimited = 16384;
constexpr uint32_t kCnpPayloadBytes = 16;
/// The longest message, and room of a receive work.
constexpr uint32_t kMostMessageBytes = 1u << 31;

/// Payloads have lengths only. The transport reads no byte of them.
constexpr std::array<uint8_t, 4096> kPayload{};

std::span<const uint8_t> PayloadOf(const PacketFrame& frame) {
  if (!frame.map.empty()) return frame.map;
  return std::span(kPayload).first(frame.payload_bytes);
}

wire::Packet PacketOf(const PacketFrame& frame) {
  wire::Packet packet;
  packet.header = frame.header;
  packet.payload = PayloadOf(frame);
  packet.congestion_experienced = frame.is_marked();
  return packet;
}

}  // namespace

Nic::Nic(uint32_t host, const NicConfig& config, uint64_t line_bps, const Shared& shared)
    : host_(host),
      config_(config),
      shared_(shared),
      line_(shared.fabric.link(2 * shared.fabric.CableOf(host))),
      environment_{.settings = config.congestion, .line_bps = line_bps},
      limited_(kMaxLimited) {}

// ---- received ----

void Nic::OnFrame(QueuePair& pair, PacketFrame& frame, Nanos now) {
  ++counters_.received_frames;
  if (is_recorded_) shared_.owner.OnRecorded(*this, frame, false, now);
  if (frame.is_doomed) {
    ++counters_.scripted_drops;
    return shared_.pool.Give(frame);
  }
  if (pair.qpn != frame.header.dest_qpn) {
    ++counters_.stale_frames;
    return shared_.pool.Give(frame);
  }
  Touch();
  if (frame.header.opcode == wire::Opcode::kCnp) {
    ++counters_.cnps_received;
    if (environment_.reacts()) (void)pair.rate.OnCnp(environment_, limited_, now);
    return shared_.pool.Give(frame);
  }
  if (frame.is_marked()) OnMarked(pair, frame.header, now);
  Execute(pair, frame, now);
  ReplayKept(pair, now);
  Settle(pair, now);
}

void Nic::OnMarked(QueuePair& pair, const wire::TransportHeader& header, Nanos now) {
  ++counters_.marked_frames;
  if (!congestion::IsNotified(header.opcode) || !environment_.notifies()) return;
  const congestion::NotificationSettings& settings = environment_.settings.np;
  if (!pair.answers.OnMarked(now, congestion::Micros(settings.min_time_between_cnps))) return;
  // A responder with a reaction point does the same with the CNP; one without it is asked for less.
  if (transport::IsReadResponse(header.opcode) && environment_.reacts()) {
    (void)pair.rate.OnCnp(environment_, limited_, now);
  }
  cnps_.push_back(pair);
}

/// Owns `frame`, which the queue pair may keep.
void Nic::Execute(QueuePair& pair, PacketFrame& frame, Nanos now) {
  const wire::Packet packet = PacketOf(frame);
  if (pair.core.NeedsReceive(packet.header)) {
    pair.core.PostReceive({.length_bytes = kMostMessageBytes});
  }
  Effect effect;
  const transport::PacketResult result = pair.core.OnPacket(packet, now, effect);
  if (effect.kind == Effect::Kind::kKeep) {
    PacketFrame*& place = pair.kept[frame.header.psn.value()];
    if (place != nullptr) shared_.pool.Give(*place);
    place = &frame;
    return pair.core.OnEffectDone(EffectOutcome::kDone, 0, now);
  }
  if (result == transport::PacketResult::kAccepted && frame.map.empty()) {
    counters_.received_bytes += frame.payload_bytes;
    pair.received_bytes += frame.payload_bytes;
  }
  if (effect.kind != Effect::Kind::kNone) pair.core.OnEffectDone(EffectOutcome::kDone, 0, now);
  shared_.pool.Give(frame);
}

void Nic::ReplayKept(QueuePair& pair, Nanos now) {
  wire::Psn psn;
  while (pair.core.PollKept(psn)) {
    const auto kept = pair.kept.find(psn.value());
    if (kept == pair.kept.end()) continue;
    PacketFrame& frame = *kept->second;
    pair.kept.erase(kept);
    Execute(pair, frame, now);
  }
  if (pair.kept.empty() || pair.core.keeps()) return;
  for (const auto& [number, frame] : pair.kept) shared_.pool.Give(*frame);
  pair.kept.clear();
}

// ---- after each event of a queue pair ----

void Nic::Settle(QueuePair& pair, Nanos now) {
  transport::Completion completion;
  while (pair.core.PollCompletion(completion)) {
    if (!completion.is_receive) shared_.owner.OnCompletion(pair, completion);
  }
  const transport::Losses losses = pair.core.TakeLosses();
  if (transport::MeaningOf(losses, environment_) == transport::LossMeaning::kAsCnp) {
    (void)pair.rate.OnCnp(environment_, limited_, now);
  }
  List(pair);
  FileTimer(pair);
}

void Nic::List(QueuePair& pair) {
  if (!pair.core.HasPacket()) return;
  Touch();
  if (pair.core.HasAcknowledgement()) {
    if (!std::exchange(pair.owes_answer, true)) answering_.push_back(pair);
    return;
  }
  if (pair.is_ready || pair.is_paced) return;
  pair.is_ready = true;
  ready_.push_back(pair);
}

/// A deadline that becomes later is not filed again: OnTimer looks.
void Nic::FileTimer(QueuePair& pair) {
  const Nanos deadline = pair.core.NextDeadline();
  if (deadline >= pair.filed) return;
  pair.filed = deadline;
  shared_.agenda.SetTimer(pair.index, deadline);
}

void Nic::OnTimer(QueuePair& pair, Nanos now) {
  pair.filed = kNever;
  if (pair.core.NextDeadline() <= now) pair.core.OnDeadline(now);
  Settle(pair, now);
}

void Nic::OnPace(QueuePair& pair, Nanos now) {
  if (!std::exchange(pair.is_paced, false)) return;
  limited_.Tend(now);
  List(pair);
}

void Nic::Forget(QueuePair& pair) {
  for (PairList* list : {&cnps_, &answering_, &ready_}) list->Remove(pair);
  pair.is_ready = pair.owes_answer = pair.is_paced = false;
  pair.rate.Reset(limited_);
  for (const auto& [psn, frame] : pair.kept) shared_.pool.Give(*frame);
  pair.kept.clear();
}

// ---- sent ----

void Nic::Serve(Nanos now) {
  is_touched_ = false;
  if (!line_.is_up) return;
  while (line_.free_at <= now && line_.control.empty()) {
    if (SendCnp(now)) continue;
    // A frame waits because the line is paused. OnDeparture tells when it leaves.
    if (!line_.data.empty()) return;
    if (!SendAnswer(now) && !SendData(now)) return;
  }
  if (HasWork() && line_.free_at > now) shared_.agenda.SetNic(host_, line_.free_at);
}

bool Nic::SendCnp(Nanos now) {
  if (cnps_.empty()) return false;
  QueuePair& pair = cnps_.front();
  cnps_.pop_front();
  ++counters_.cnps_sent;
  PacketFrame& frame = FrameFor(pair, {.opcode = wire::Opcode::kCnp}, kCnpPayloadBytes);
  frame.bytes[PacketFrame::kIpOffset + 1] =
      wire::EcnCapable(static_cast<uint8_t>(environment_.settings.np.cnp_dscp << 2));
  Launch(frame, now);
  return true;
}

bool Nic::SendAnswer(Nanos now) {
  while (!answering_.empty()) {
    QueuePair& pair = answering_.front();
    answering_.pop_front();
    pair.owes_answer = false;
    if (SendPacketOf(pair, now)) return true;
  }
  return false;
}

bool Nic::SendData(Nanos now) {
  while (!ready_.empty()) {
    QueuePair& pair = ready_.front();
    ready_.pop_front();
    pair.is_ready = false;
    if (MustWait(pair, now)) continue;
    if (SendPacketOf(pair, now)) return true;
  }
  return false;
}

/// A queue pair that waits is looked at before its send time too: its rate may rise meanwhile.
bool Nic::MustWait(QueuePair& pair, Nanos now) {
  constexpr Nanos kLook{50'000};
  if (pair.rate.MaySend(now)) [[likely]]
    return false;
  const Nanos wait = pair.rate.next_send() - now;
  const Nanos look = std::max(kLook, Nanos(wait.count() / 2));
  pair.is_paced = true;
  shared_.agenda.SetPace(pair.index, now + std::min(wait, look));
  return true;
}

bool Nic::SendPacketOf(QueuePair& pair, Nanos now) {
  TxPacket packet;
  if (!pair.core.PollPacket(now, packet)) {
    Settle(pair, now);
    return false;
  }
  const uint32_t payload_bytes = packet.payload_bytes();
  PacketFrame& frame = FrameFor(pair, packet.header, payload_bytes);
  if (packet.payload_source == TxPacket::Source::kOwn) {
    frame.map.assign(packet.own.begin(), packet.own.end());
  }
  const Nanos gap = pair.core.send_gap();
  if (pair.rate.is_limited() || gap != Nanos(0)) [[unlikely]] {
    transport::PacedFlow{pair.rate, limited_}.Charge(packet, frame.length_bytes, gap, now);
  }
  if (payload_bytes != 0 && frame.map.empty() && ++pair.sent_data_packets == pair.scripted_packet)
      [[unlikely]] {
    shared_.owner.OnScriptedPacket(pair, frame);
  }
  Launch(frame, now);
  Settle(pair, now);
  return true;
}

PacketFrame& Nic::FrameFor(QueuePair& pair, const wire::TransportHeader& header,
                           uint32_t payload_bytes) {
  PacketFrame& frame = shared_.pool.Take();
  std::ranges::copy(pair.headers, frame.bytes.begin());
  frame.header = header;
  frame.header.dest_qpn = pair.peer->qpn;
  frame.payload_bytes = payload_bytes;
  frame.length_bytes = FrameBytes(wire::InfoOf(header.opcode), payload_bytes);
  frame.target = pair.peer->index;
  frame.map.clear();
  frame.identification = identification_++;
  return frame;
}

/// The line is free, so the frame leaves at once, unless the line is paused.
void Nic::Launch(PacketFrame& frame, Nanos now) {
  ++counters_.sent_frames;
  if (is_recorded_) shared_.owner.OnRecorded(*this, frame, true, now);
  shared_.fabric.Send(host_, frame.AsFrame(), now);
}

}  // namespace uroce::tools::sim
