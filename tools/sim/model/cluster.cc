// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/model/cluster.h"

#include <algorithm>
#include <bit>

#include "pipeline/wire/encode.h"

namespace uroce::tools::sim {
namespace {

using transport::QpState;

constexpr uint32_t kFirstQpn = 0x100;
constexpr uint32_t kLastQpn = 0xfffffe;

uint64_t SeedOf(uint64_t seed, uint64_t part) {
  uint64_t mixed = seed + part * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  return mixed ^ (mixed >> 31);
}

transport::RcConfig CoreConfig(const Nic& nic, uint32_t max_works) {
  return {.max_send_works = std::bit_ceil(std::max(max_works, 1u)),
          .max_responder_resources = nic.config().max_rd_atomic,
          .max_in_flight_packets = nic.config().window_packets,
          .selective_repeat = nic.config().selective_repeat,
          .congestion = &nic.environment()};
}

}  // namespace

std::string Network::NameOfCable(uint32_t cable) const {
  if (cable < hosts.size()) {
    return hosts[cable].name + " - " + switches[hosts[cable].switch_index].name;
  }
  const Trunk& trunk = trunks[cable - hosts.size()];
  return switches[trunk.first].name + " - " + switches[trunk.second].name;
}

std::string Network::NameOfLink(uint32_t link) const {
  const uint32_t cable = link / 2;
  std::string first, second;
  if (cable < hosts.size()) {
    first = hosts[cable].name;
    second = switches[hosts[cable].switch_index].name;
  } else {
    const Trunk& trunk = trunks[cable - hosts.size()];
    first = switches[trunk.first].name;
    second = switches[trunk.second].name;
  }
  return link % 2 == 0 ? first + " -> " + second : second + " -> " + first;
}

Cluster::Cluster(const Network& network, const Config& config, ConnectionUser& user)
    : user_(user),
      config_(config),
      random_(SeedOf(config.seed, 1)),
      fabric_(std::make_unique<fabric::Fabric>(
          *this, fabric::FabricConfig{.max_frames = config.max_frames, .seed = config.seed})),
      agenda_(static_cast<uint32_t>(network.hosts.size())) {
  for (const Network::Switch& each : network.switches) fabric_->AddSwitch(each.config);
  for (uint32_t i = 0; i < network.hosts.size(); ++i) {
    fabric_->AddHost(network.hosts[i].switch_index, MacOf(i), network.hosts[i].link);
  }
  for (const Network::Trunk& each : network.trunks) {
    fabric_->Join(each.first, each.second, each.link);
  }
  const Nic::Shared shared{*fabric_, pool_, agenda_, *this, touched_};
  for (uint32_t i = 0; i < network.hosts.size(); ++i) {
    const Network::Host& host = network.hosts[i];
    nics_.push_back(std::make_unique<Nic>(i, host.nic, host.link.rate_bps, shared));
  }
  idle_pairs_.resize(network.hosts.size());
}

Cluster::~Cluster() = default;

// ---- connections ----

QueuePair& Cluster::TakePair(Nic& nic) {
  std::vector<QueuePair*>& idle = idle_pairs_[nic.host()];
  if (!idle.empty()) {
    QueuePair& pair = *idle.back();
    idle.pop_back();
    return pair;
  }
  const auto index = static_cast<uint32_t>(queue_pairs_.size());
  queue_pairs_.push_back(std::make_unique<QueuePair>(CoreConfig(nic, config_.max_works), index));
  queue_pairs_.back()->nic = &nic;
  agenda_.SetQueuePairs(index + 1);
  return *queue_pairs_.back();
}

void Cluster::GivePair(QueuePair& pair) {
  pair.nic->Forget(pair);
  pair.core.Modify(QpState::kReset, {});
  pair.qpn = Qpn(0);  // No frame has it.
  pair.sent_data_packets = pair.received_bytes = 0;
  pair.scripted_packet = QueuePair::kNoPacket;
  idle_pairs_[pair.nic->host()].push_back(&pair);
}

uint32_t Cluster::Connect(uint32_t from, uint32_t to, uint64_t tag) {
  uint32_t number = static_cast<uint32_t>(connections_.size());
  if (idle_connections_.empty()) {
    connections_.emplace_back();
  } else {
    number = idle_connections_.back();
    idle_connections_.pop_back();
  }
  Connection& connection = connections_[number];
  connection = {.from = from,
                .to = to,
                .requester = &TakePair(*nics_[from]),
                .responder = &TakePair(*nics_[to]),
                .tag = tag};
  for (QueuePair* pair : {connection.requester, connection.responder}) {
    pair->qpn = Qpn(next_qpn_);
    next_qpn_ = next_qpn_ == kLastQpn ? kFirstQpn : next_qpn_ + 1;
  }
  Join(*connection.requester, *connection.responder, number);
  Join(*connection.responder, *connection.requester, number);
  return number;
}

void Cluster::Join(QueuePair& pair, QueuePair& peer, uint32_t connection) {
  const NicConfig& own = pair.nic->config();
  const NicConfig& other = peer.nic->config();
  pair.peer = &peer;
  pair.connection = connection;
  transport::QueuePairAttributes attributes{
      .remote_write = true,
      .remote_read = true,
      .path_mtu_bytes = std::min(own.mtu_bytes, other.mtu_bytes),
      .rq_psn = wire::Psn(peer.qpn.value() * 7919),
      .sq_psn = wire::Psn(pair.qpn.value() * 7919),
      .max_rd_atomic = std::min(own.max_rd_atomic, other.max_rd_atomic),
      .max_dest_rd_atomic = std::min(own.max_rd_atomic, other.max_rd_atomic),
      .timeout = own.timeout,
      .retry_count = own.retry_count,
      .rnr_retry = 7,
      .selective_repeat = own.selective_repeat && other.selective_repeat};
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    pair.core.Modify(state, attributes);
  }
  const wire::HeaderTemplateConfig path{
      .source_mac = MacOf(pair.nic->host()),
      .destination_mac = MacOf(peer.nic->host()),
      .source = AddressOf(pair.nic->host()),
      .destination = AddressOf(peer.nic->host()),
      .traffic_class = pair.nic->environment().reacts() ? wire::EcnCapable(0) : uint8_t{0},
      .udp_source_port = wire::UdpSourcePort(0, pair.qpn, peer.qpn),
      .dest_qpn = peer.qpn};
  std::array<uint8_t, 2 * wire::kMaxHeaderBytes> bytes{};
  wire::EncodeHeaders(wire::HeaderTemplate(path), {}, 0, 0, bytes.data());
  std::copy_n(bytes.begin(), pair.headers.size(), pair.headers.begin());
}

void Cluster::Disconnect(uint32_t connection) { ending_.push_back(connection); }

void Cluster::Post(uint32_t connection, transport::WorkOpcode opcode, uint32_t bytes) {
  QueuePair& pair = *connections_[connection].requester;
  (void)pair.core.Post({.opcode = opcode, .signaled = true, .length_bytes = bytes});
  pair.nic->OnPosted(pair, now_);
}

void Cluster::WaitForPacket(uint32_t connection, bool of_responder, uint64_t packet) {
  const Connection& its = connections_[connection];
  (of_responder ? its.responder : its.requester)->scripted_packet = packet;
}

// ---- time ----

Nanos Cluster::NextEvent() const {
  const Nanos late = late_.empty() ? kNever : late_.top().at;
  return std::min({fabric_->NextEvent(), agenda_.next(), late});
}

void Cluster::RunUntil(Nanos time) {
  is_interrupted_ = false;
  ServeTouched();
  for (Nanos next = NextEvent(); next <= time; next = NextEvent()) {
    now_ = next;
    RunEvents(next);
    ServeTouched();
    if (is_interrupted_) return;
  }
  now_ = time;
}

/// Arrivals come first, then late frames, then what NICs and queue pairs wait for.
void Cluster::RunEvents(Nanos time) {
  fabric_->Advance(time);
  while (!late_.empty() && late_.top().at <= time) {
    PacketFrame& frame = *late_.top().frame;
    late_.pop();
    QueuePair& pair = *queue_pairs_[frame.target];
    pair.nic->OnFrame(pair, frame, time);
  }
  while (agenda_.next() <= time) {
    const Agenda::Event event = agenda_.Take();
    if (agenda_.later() != Agenda::kNone) nics_[agenda_.later()]->Prefetch();
    if (agenda_.soon() != Agenda::kNone) nics_[agenda_.soon()]->PrefetchPair();
    if (event.kind == Agenda::Kind::kNic) {
      nics_[event.number]->Touch();
      continue;
    }
    QueuePair& pair = *queue_pairs_[event.number];
    event.kind == Agenda::Kind::kTimer ? pair.nic->OnTimer(pair, time)
                                       : pair.nic->OnPace(pair, time);
  }
}

void Cluster::ServeTouched() {
  for (const uint32_t number : ending_) {
    GivePair(*connections_[number].requester);
    GivePair(*connections_[number].responder);
    idle_connections_.push_back(number);
  }
  ending_.clear();
  // Completions may touch more NICs.
  for (size_t i = 0; i < touched_.size(); ++i) touched_[i]->Serve(now_);
  touched_.clear();
}

void Cluster::SetUp(uint32_t cable, bool is_up) {
  fabric_->SetUp(cable, is_up, now_);
  if (cable < nics_.size()) nics_[cable]->Touch();
}

// ---- what fabric and NICs tell ----

void Cluster::Deliver(uint32_t host, const fabric::Frame& frame, Nanos arrival) {
  auto& packet = *static_cast<PacketFrame*>(frame.owner);
  Nic& nic = *nics_[host];
  if (random_.Happens(nic.config().reorder)) [[unlikely]] {
    nic.CountReordered();
    late_.push({arrival + nic.config().reorder_delay, late_frames_++, &packet});
    return;
  }
  nic.OnFrame(*queue_pairs_[packet.target], packet, arrival);
}

void Cluster::Expect(uint32_t host, const fabric::Frame& frame) {
  const auto& packet = *static_cast<const PacketFrame*>(frame.owner);
  packet.Prefetch();
  nics_[host]->Prefetch();
  queue_pairs_[packet.target]->Prefetch();
}

void Cluster::Free(const fabric::Frame& frame) {
  pool_.Give(*static_cast<PacketFrame*>(frame.owner));
}

void Cluster::OnCompletion(QueuePair& pair, const transport::Completion& completion) {
  user_.OnCompletion(pair.connection, completion.status, now_);
}

void Cluster::OnScriptedPacket(QueuePair& pair, PacketFrame& frame) {
  const ConnectionUser::PacketFate fate =
      user_.OnScriptedPacket(pair.connection, pair.sent_data_packets);
  frame.is_doomed = fate.is_lost;
  if (fate.is_marked) frame.bytes[PacketFrame::kIpOffset + 1] |= 3;
  pair.scripted_packet = fate.next;
}

void Cluster::Record(const std::vector<uint32_t>& hosts, FrameRecorder recorder) {
  recorder_ = std::move(recorder);
  for (const uint32_t host : hosts) nics_[host]->SetRecorded(true);
}

}  // namespace uroce::tools::sim
