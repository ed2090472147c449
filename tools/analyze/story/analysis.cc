// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/story/analysis.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/gsi.h"
#include "pipeline/wire/to_string.h"
#include "tools/analyze/story/damage.h"
#include "tools/analyze/story/words.h"

namespace uroce::tools::analyze {
namespace {

using Info = wire::OpcodeInfo;

constexpr size_t kMostAlone = 256;       // Of one pair of addresses, that are tried as partners.
constexpr uint32_t kUnfilledAfter = 16;  // So many wrong ICRCs and no right one: none is filled in.

}  // namespace

void Analysis::OnPacket(const CapturedPacket& packet) {
  if (totals_.frames++ == 0) totals_.first_ns = packet.time_ns;
  totals_.last_ns = std::max(totals_.last_ns, packet.time_ns);
  totals_.bytes += packet.wire_bytes;
  ++totals_.kinds[static_cast<size_t>(packet.kind)];
  switch (packet.kind) {
    case FrameKind::kRoce:
      totals_.cut += packet.is_cut;
      if (packet.icrc == IcrcState::kWrong) return OnDamaged(packet);
      if (packet.icrc == IcrcState::kRight) CountsAsDamaged(packet);
      return OnRoce(packet);
    case FrameKind::kMalformed:
      return OnMalformed(packet);
    case FrameKind::kPause: {
      Pauses& pauses = pauses_[packet.point];
      if (pauses.frames++ == 0) {
        pauses.first_frame = packet.number;
        pauses.first_ns = packet.time_ns;
      }
      return;
    }
    case FrameKind::kOther:
    case FrameKind::kCut:
    case FrameKind::kOffloaded:
      return;
  }
}

// ---- Frames that a receiver drops ----

bool Analysis::CountsAsDamaged(const CapturedPacket& packet) {
  const std::pair<uint32_t, Direction> key{packet.point, packet.direction};
  if (last_filling_ == nullptr || key != last_filling_key_) {
    last_filling_ = &icrcs_[key];
    last_filling_key_ = key;
  }
  IcrcFilling& filling = *last_filling_;
  if (packet.icrc == IcrcState::kWrong) {
    ++totals_.icrc_wrong;
    filling.is_unfilled = filling.right == 0 && ++filling.wrong >= kUnfilledAfter;
    if (filling.is_unfilled) filling.waiting.clear();
    return !filling.is_unfilled;
  }
  ++totals_.icrc_right;
  if (filling.right++ != 0) return true;
  for (Finding& finding : filling.waiting) log_.Add(std::move(finding));
  filling.waiting.clear();
  filling.is_unfilled = false;
  return true;
}

void Analysis::OnDamaged(const CapturedPacket& packet) {
  if (!CountsAsDamaged(packet)) return OnRoce(packet);
  const Damage damage = ExplainDamage(packet);
  CapturedPacket whole = packet;
  if (!damage.repaired.empty() &&
      wire::Decode(damage.repaired, whole.packet, whole.view) != wire::DecodeResult::kOk) {
    whole = packet;
  }
  Finding finding;
  finding.kind = FindingKind::kIcrcError;
  finding.time_ns = packet.time_ns;
  finding.point = packet.point;
  finding.psn = whole.packet.header.psn.value();
  finding.AddFrame(packet.number);
  finding.text =
      absl::StrCat("frame ", packet.number, " (", PacketName(whole.packet.header), " psn ",
                   finding.psn, ") has a wrong ICRC, so its receiver drops it: ", damage.text);
  Flow* flow = FindFlow(whole);
  const bool is_known = !damage.repaired.empty() && whole.packet.header.dest_qpn != wire::kGsiQpn &&
                        whole.packet.header.opcode != wire::Opcode::kCnp;
  if (flow == nullptr && is_known) flow = AddFlow(whole);
  IcrcFilling& filling = icrcs_[{packet.point, packet.direction}];
  if (flow != nullptr) {
    const bool is_response = wire::InfoOf(whole.packet.header.opcode).Has(Info::kResponse);
    finding.connection = flow->connection->number;
    finding.requester = is_response ? static_cast<uint8_t>(1 - flow->sender) : flow->sender;
  }
  if (filling.right == 0) {
    filling.waiting.push_back(std::move(finding));
    return;
  }
  const uint32_t id = log_.Add(std::move(finding));
  if (flow == nullptr) return;
  Connection& connection = *flow->connection;
  if (connection.service == wire::Service::kUd) return;
  const Info& info = wire::InfoOf(whole.packet.header.opcode);
  const uint8_t requester =
      info.Has(Info::kResponse) ? static_cast<uint8_t>(1 - flow->sender) : flow->sender;
  StreamOf(connection, connection.ViewOf(packet.point), requester).OnDamaged(whole, id);
}

void Analysis::OnMalformed(const CapturedPacket& packet) {
  Finding finding;
  finding.kind = FindingKind::kMalformed;
  finding.time_ns = packet.time_ns;
  finding.point = packet.point;
  finding.AddFrame(packet.number);
  finding.text = absl::StrCat(
      "frame ", packet.number,
      " is no RoCEv2 packet that a receiver takes: ", std::string(wire::ToString(packet.decode)));
  log_.Add(std::move(finding));
}

// ---- Flows and connections ----

Analysis::Flow* Analysis::FindFlow(const CapturedPacket& packet) {
  const FlowKey key{packet.packet.source, packet.packet.destination,
                    packet.packet.header.dest_qpn.value()};
  if (last_flow_ != nullptr && key == last_key_) return last_flow_;
  const auto found = flows_.find(key);
  if (found == flows_.end()) return nullptr;
  last_key_ = key;
  last_flow_ = &found->second;
  return last_flow_;
}

Connection* Analysis::AddConnection(const CapturedPacket& packet) {
  if (connections_.size() == kMostConnections) return nullptr;
  auto connection = std::make_unique<Connection>();
  connection->number = static_cast<uint32_t>(connections_.size());
  connection->service = wire::ServiceOf(packet.packet.header.opcode);
  connection->first_frame = packet.number;
  connection->first_ns = packet.time_ns;
  connections_.push_back(std::move(connection));
  return connections_.back().get();
}

Analysis::Flow* Analysis::AddFlow(const CapturedPacket& packet) {
  const wire::TransportHeader& header = packet.packet.header;
  Connection* const connection = AddConnection(packet);
  if (connection == nullptr) return nullptr;
  const bool is_datagram = connection->service == wire::Service::kUd;
  connection->ends[0] = {packet.packet.source, is_datagram ? header.deth.source_qpn : Qpn(),
                         is_datagram};
  connection->ends[1] = {packet.packet.destination, header.dest_qpn, true};
  const FlowKey key{packet.packet.source, packet.packet.destination, header.dest_qpn.value()};
  last_flow_ = nullptr;  // The table may move.
  Flow& flow = flows_[key];
  flow = {
      .connection = connection, .sender = 0, .is_alone = true, .source_port = packet.source_port};
  if (!is_datagram) {
    std::vector<FlowKey>& alone = alone_[{packet.packet.source, packet.packet.destination}];
    if (alone.size() < kMostAlone) alone.push_back(key);
  }
  return &flow;
}

RequestStream& Analysis::StreamOf(Connection& connection, View& view, uint8_t requester) {
  std::unique_ptr<RequestStream>& stream = view.of[requester];
  if (!stream) {
    stream =
        std::make_unique<RequestStream>(FindingSink(log_, connection.number, view.point, requester),
                                        connection.is_reliable(), options_.most_plot_points);
    if (connection.knows_first_psns) stream->SetFirstPsn(connection.first_psns[requester]);
    stream->SetMtu(connection.mtu_bytes);
    const Gid& from = connection.ends[requester].address;
    const Gid& to = connection.ends[1 - requester].address;
    stream->SetRoundTrips(&round_trips_[{view.point, {from, to}}],
                          &round_trips_[{view.point, {to, from}}]);
  }
  return *stream;
}

/// An answer shows which flow it belongs to: that whose requests it fits.
void Analysis::Join(const CapturedPacket& packet, const FlowKey& key, Flow& flow) {
  const auto candidates = alone_.find({packet.packet.destination, packet.packet.source});
  if (candidates == alone_.end()) return;
  const FlowKey* best = nullptr;
  bool best_has_port = false;
  int fitting = 0;
  const FlowKey* port_only = nullptr;  // The answer fits no request of it.
  int by_port = 0;
  for (const FlowKey& candidate : candidates->second) {
    const Flow& other = flows_.at(candidate);
    if (other.connection == flow.connection || !other.connection->is_reliable()) continue;
    RequestStream* const stream = other.connection->ViewOf(packet.point).of[other.sender].get();
    const bool has_port =
        other.source_port == packet.source_port &&
        packet.source_port == wire::UdpSourcePort(0, Qpn(key.dest_qpn), Qpn(candidate.dest_qpn));
    if (stream == nullptr || !stream->has_requests()) continue;
    if (!stream->Expects(packet.packet.header)) {
      by_port += has_port;
      if (has_port) port_only = &candidate;
      continue;
    }
    if (has_port && best_has_port) return;  // Two fit as well: a later packet decides.
    fitting += !has_port;
    if (has_port || !best_has_port) best = &candidate;
    best_has_port = best_has_port || has_port;
  }
  const bool fits = best != nullptr && (best_has_port || (fitting == 1 && by_port == 0));
  if (!fits && by_port != 1) return;
  const FlowKey other_key = fits ? *best : *port_only;
  JoinWith(flow, key, other_key, flows_.at(other_key));
  const Joined by_psns = best_has_port ? Joined::kByPsnsAndPort : Joined::kByPsns;
  flows_.at(other_key).connection->joined = fits ? by_psns : Joined::kByPort;
}

/// `other`'s connection takes the flow in.
void Analysis::JoinWith(Flow& flow, const FlowKey& key, const FlowKey& other_key, Flow& other) {
  Connection& to = *other.connection;
  Connection& from = *flow.connection;
  const auto sender = static_cast<uint8_t>(1 - other.sender);
  to.ends[other.sender].qpn = Qpn(key.dest_qpn);
  to.ends[other.sender].knows_qpn = true;
  to.packets += from.packets;
  to.bytes += from.bytes;
  to.first_ns = std::min(to.first_ns, from.first_ns);
  to.last_ns = std::max(to.last_ns, from.last_ns);
  for (View& view : from.views) {
    View& target = to.ViewOf(view.point);
    target.packets += view.packets;
    std::unique_ptr<RequestStream>& asked = target.of[other.sender];
    if (view.of[1] && asked) asked->TakeAnswersOf(*view.of[1]);
    if (!view.of[0] || target.of[sender]) continue;
    target.of[sender] = std::move(view.of[0]);
    target.of[sender]->sink().Rename(to.number, sender);
  }
  for (Finding& finding : log_.all()) {
    if (finding.connection != from.number) continue;
    finding.connection = to.number;
    finding.requester = sender;
  }
  from.views.clear();
  from.was_merged = true;
  flow = {.connection = &to, .sender = sender, .is_alone = false, .source_port = flow.source_port};
  other.is_alone = false;
  std::erase(alone_[{key.source, key.destination}], key);
  std::erase(alone_[{other_key.source, other_key.destination}], other_key);
}

void Analysis::TakeAgreement(const CapturedPacket& packet, const Agreement& agreement) {
  Connection* const connection = AddConnection(packet);
  if (connection == nullptr) return;
  connection->service = exchanges_.completed().req.transport == wire::CmTransport::kUc
                            ? wire::Service::kUc
                            : wire::Service::kRc;
  connection->joined = Joined::kByCm;
  connection->cm_service = agreement.service;
  connection->ends[0] = {agreement.active, agreement.active_qpn, true};
  connection->ends[1] = {agreement.passive, agreement.passive_qpn, true};
  exchanges_.completed().connection = connection->number;
  last_flow_ = nullptr;
  // Queue pairs with these numbers belong to this connection from now on.
  flows_[{agreement.active, agreement.passive, agreement.passive_qpn.value()}] = {
      .connection = connection, .sender = 0, .is_alone = false};
  flows_[{agreement.passive, agreement.active, agreement.active_qpn.value()}] = {
      .connection = connection, .sender = 1, .is_alone = false};
  std::erase(alone_[{agreement.active, agreement.passive}],
             FlowKey{agreement.active, agreement.passive, agreement.passive_qpn.value()});
  std::erase(alone_[{agreement.passive, agreement.active}],
             FlowKey{agreement.passive, agreement.active, agreement.active_qpn.value()});
  connection->knows_first_psns = true;
  connection->first_psns = {agreement.active_first_psn, agreement.passive_first_psn};
  connection->mtu_bytes = agreement.mtu_bytes;
}

// ---- Packets ----

void Analysis::OnMad(const CapturedPacket& packet) {
  ++totals_.mads;
  if (packet.is_cut) return;
  if (const std::optional<Agreement> agreement = exchanges_.OnMad(packet)) {
    TakeAgreement(packet, *agreement);
  }
}

void Analysis::OnRoce(const CapturedPacket& packet) {
  const wire::TransportHeader& header = packet.packet.header;
  const bool is_cnp = header.opcode == wire::Opcode::kCnp;
  if (header.dest_qpn == wire::kGsiQpn) return OnMad(packet);
  Flow* flow = FindFlow(packet);
  if (flow == nullptr) {
    if (is_cnp) return;
    flow = AddFlow(packet);
  }
  if (flow == nullptr) {
    ++totals_.left_out;
    return;
  }
  const Info& info = wire::InfoOf(header.opcode);
  if (flow->is_alone && info.Has(Info::kResponse)) {
    const FlowKey key{packet.packet.source, packet.packet.destination, header.dest_qpn.value()};
    Join(packet, key, *flow);
  }
  Deliver(packet, *flow);
}

void Analysis::Deliver(const CapturedPacket& packet, Flow& flow) {
  Connection& connection = *flow.connection;
  const wire::TransportHeader& header = packet.packet.header;
  const Info& info = wire::InfoOf(header.opcode);
  ++connection.packets;
  connection.bytes += packet.wire_bytes;
  connection.last_ns = std::max(connection.last_ns, packet.time_ns);
  if (connection.service == wire::Service::kUd) {
    DatagramAmounts& amounts = connection.datagrams[flow.sender];
    ++amounts.packets;
    amounts.bytes += packet.packet.payload.size();
    amounts.marked += packet.packet.congestion_experienced;
    return;
  }
  if (flow.source_port == 0) flow.source_port = packet.source_port;
  View& view = connection.ViewOf(packet.point);
  ++view.packets;
  const auto receiver = static_cast<uint8_t>(1 - flow.sender);
  if (header.opcode == wire::Opcode::kCnp) {
    StreamOf(connection, view, receiver).OnCnp(packet);
  } else if (info.Has(Info::kResponse)) {
    StreamOf(connection, view, receiver).OnResponse(packet);
  } else {
    StreamOf(connection, view, flow.sender).OnRequest(packet);
  }
}

// ---- The end ----

void Analysis::FinishConnections() {
  for (const std::unique_ptr<Connection>& connection : connections_) {
    for (View& view : connection->views) {
      for (std::unique_ptr<RequestStream>& stream : view.of) {
        if (stream) stream->Finish(totals_.last_ns);
      }
    }
  }
}

void Analysis::FinishPauses() {
  for (const auto& [point, pauses] : pauses_) {
    Finding finding;
    finding.kind = FindingKind::kPause;
    finding.point = point;
    finding.time_ns = pauses.first_ns;
    finding.count = pauses.frames;
    finding.AddFrame(pauses.first_frame);
    finding.text =
        absl::StrCat(pauses.frames, pauses.frames == 1 ? " pause frame" : " pause frames",
                     " of a link or its priorities, from frame ", pauses.first_frame, " on");
    log_.Add(std::move(finding));
  }
}

void Analysis::FindMissingDisconnects() {
  constexpr int64_t kLeastSilentNs = 60'000'000'000;
  for (const CmExchange* const exchange : exchanges_.all()) {
    if (exchange->connection == Finding::kNone) continue;
    Connection& connection = *connections_[exchange->connection];
    if (exchange->rtu_ns != 0) connection.setup_ns = exchange->rtu_ns - exchange->req_ns;
    const int64_t last_ns = std::max(connection.last_ns, exchange->rtu_ns);
    if (exchange->end_ns != 0 || totals_.last_ns - last_ns < kLeastSilentNs) continue;
    Finding finding;
    finding.kind = FindingKind::kNoDisconnect;
    finding.connection = connection.number;
    finding.time_ns = last_ns;
    finding.AddFrame(exchange->req_frame);
    finding.text =
        absl::StrCat("the connection was silent for the last ", TimeText(totals_.last_ns - last_ns),
                     " of the capture, without a DREQ");
    log_.Add(std::move(finding));
  }
}

/// Points that saw the same thing: one finding stays. A loss that one point places behind itself
/// and another one before itself was between the two.
void Analysis::MergeViews() {
  using Key = std::tuple<uint32_t, uint8_t, FindingKind, uint32_t, uint32_t>;
  std::map<Key, size_t> first;
  std::map<std::pair<uint32_t, Key>, uint32_t> occurrences;  // By point.
  std::vector<Finding>& all = log_.all();
  std::map<uint32_t, uint32_t> renamed;
  std::vector<Finding> kept;
  for (Finding& finding : all) {
    const bool has_views =
        finding.connection != Finding::kNone && connections_[finding.connection]->views.size() > 1;
    if (!has_views) {
      kept.push_back(std::move(finding));
      continue;
    }
    const uint32_t psn = finding.kind == FindingKind::kCongestion ? 0 : finding.psn;
    const Key any{finding.connection, finding.requester, finding.kind, psn, 0};
    Key key = any;
    std::get<4>(key) = occurrences[{finding.point, any}]++;
    const auto [found, is_new] = first.emplace(key, kept.size());
    if (is_new) {
      kept.push_back(std::move(finding));
      continue;
    }
    Finding& other = kept[found->second];
    renamed[finding.id] = other.id;
    if (finding.what != LostWhat::kNone && other.what == LostWhat::kNone) other.what = finding.what;
    if (finding.kind == FindingKind::kLoss && finding.side != other.side) {
      other.side = LostSide::kBetween;
      absl::StrAppend(&other.text,
                      "; another point places it on its other side, so it was lost "
                      "between the two");
    }
  }
  for (Finding& finding : kept) {
    if (const auto found = renamed.find(finding.cause); found != renamed.end()) {
      finding.cause = found->second;
    }
  }
  all = std::move(kept);
  log_.Recount();
}

void Analysis::Finish() {
  FinishConnections();
  FinishPauses();
  exchanges_.Finish(totals_.last_ns);
  FindMissingDisconnects();
  MergeViews();
}

}  // namespace uroce::tools::analyze
