// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/story/cm_exchanges.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/wire/cm/codec.h"
#include "pipeline/wire/cm/rdma_cm_header.h"
#include "tools/analyze/story/words.h"

namespace uroce::tools::analyze {
namespace {

std::string ServiceText(uint64_t service_id) {
  const std::optional<wire::RdmaCmService> service = wire::ServiceOf(service_id);
  if (!service) return absl::StrFormat("service %016x", service_id);
  const char* const space = service->space == wire::PortSpace::kTcp   ? "TCP"
                            : service->space == wire::PortSpace::kUdp ? "UDP"
                                                                      : "IB";
  return absl::StrCat("rdma_cm ", space, " port ", service->port);
}

}  // namespace

std::string ExchangeText(const CmExchange& exchange) {
  return absl::StrCat(AddressText(exchange.active), " -> ", AddressText(exchange.passive), ", ",
                      ServiceText(exchange.req.service_id));
}

void CmExchanges::Report(FindingKind kind, const CmExchange& exchange, int64_t time_ns,
                         uint64_t frame, std::string text) {
  Finding finding;
  finding.kind = kind;
  finding.connection = exchange.connection;
  finding.point = point_;
  finding.time_ns = time_ns;
  if (frame != 0) finding.AddFrame(frame);
  finding.text = std::move(text);
  log_.Add(std::move(finding));
}

CmExchange* CmExchanges::Find(const Gid& a, const Gid& b, wire::CommId of_a, wire::CommId of_b) {
  if (const auto found = exchanges_.find({a, of_a.value()}); found != exchanges_.end()) {
    return &found->second;
  }
  if (const auto found = exchanges_.find({b, of_b.value()}); found != exchanges_.end()) {
    return &found->second;
  }
  return nullptr;
}

std::optional<Agreement> CmExchanges::OnMad(const CapturedPacket& packet) {
  wire::CmMessage message;
  if (wire::DecodeCm(packet.packet.payload, message) != wire::CmDecodeResult::kOk) {
    return std::nullopt;
  }
  point_ = packet.point;
  switch (message.attribute()) {
    case wire::CmAttribute::kReq:
      OnReq(packet, std::get<wire::CmReq>(message.body));
      return std::nullopt;
    case wire::CmAttribute::kRep:
      return OnRep(packet, std::get<wire::CmRep>(message.body));
    case wire::CmAttribute::kRtu:
      OnRtu(packet, std::get<wire::CmRtu>(message.body));
      return std::nullopt;
    case wire::CmAttribute::kRej:
      OnRej(packet, std::get<wire::CmRej>(message.body));
      return std::nullopt;
    case wire::CmAttribute::kDreq:
      OnDreq(packet, std::get<wire::CmDreq>(message.body));
      return std::nullopt;
    case wire::CmAttribute::kDrep:
      OnDrep(packet, std::get<wire::CmDrep>(message.body));
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

void CmExchanges::OnReq(const CapturedPacket& packet, const wire::CmReq& req) {
  const Key key{packet.packet.source, req.local_comm_id.value()};
  if (exchanges_.size() >= kMost && !exchanges_.contains(key)) return;
  CmExchange& exchange = exchanges_[key];
  if (exchange.req_count != 0 && exchange.req.local_qpn != req.local_qpn) exchange = {};
  if (exchange.req_count++ != 0) {
    // At two capture points, one message comes twice: soon, and not again.
    constexpr int64_t kLeastRetryNs = 20'000'000;
    if (packet.time_ns - exchange.req_ns < kLeastRetryNs || exchange.rep_ns != 0) return;
    Report(FindingKind::kSetupResent, exchange, packet.time_ns, packet.number,
           absl::StrCat("the REQ of ", ExchangeText(exchange), " was sent again after ",
                        TimeText(packet.time_ns - exchange.req_ns), " without a REP"));
    return;
  }
  exchange.active = packet.packet.source;
  exchange.passive = packet.packet.destination;
  exchange.req = req;
  exchange.req_frame = packet.number;
  exchange.req_ns = packet.time_ns;
}

std::optional<Agreement> CmExchanges::OnRep(const CapturedPacket& packet, const wire::CmRep& rep) {
  const auto found = exchanges_.find({packet.packet.destination, rep.remote_comm_id.value()});
  if (found == exchanges_.end() || found->second.rep_ns != 0) return std::nullopt;
  CmExchange& exchange = found->second;
  exchange.rep_ns = packet.time_ns;
  exchange.passive_id = rep.local_comm_id;
  exchange.passive_qpn = rep.local_qpn;
  if (of_passive_.size() < kMost) {
    of_passive_[{packet.packet.source, rep.local_comm_id.value()}] = found->first;
  }
  completed_ = &exchange;
  const wire::CmReq& req = exchange.req;
  Agreement agreement{.active = exchange.active,
                      .passive = exchange.passive,
                      .active_qpn = req.local_qpn,
                      .passive_qpn = rep.local_qpn,
                      .active_first_psn = rep.starting_psn,
                      .passive_first_psn = req.starting_psn,
                      .active_reads = rep.responder_resources,
                      .passive_reads = rep.initiator_depth,
                      .ack_timeout_code = req.primary.local_ack_timeout,
                      .retry_count = req.retry_count,
                      .service = ServiceText(req.service_id)};
  if (req.path_mtu >= 1 && req.path_mtu <= 5) agreement.mtu_bytes = 128u << req.path_mtu;
  return agreement;
}

void CmExchanges::OnRtu(const CapturedPacket& packet, const wire::CmRtu& rtu) {
  CmExchange* const exchange =
      Find(packet.packet.source, packet.packet.destination, rtu.local_comm_id, rtu.remote_comm_id);
  if (exchange != nullptr && exchange->rtu_ns == 0) exchange->rtu_ns = packet.time_ns;
}

void CmExchanges::OnRej(const CapturedPacket& packet, const wire::CmRej& rej) {
  CmExchange* exchange =
      Find(packet.packet.source, packet.packet.destination, rej.local_comm_id, rej.remote_comm_id);
  if (exchange != nullptr && exchange->was_rejected) return;
  CmExchange unknown;
  unknown.active = packet.packet.destination;
  unknown.passive = packet.packet.source;
  if (exchange == nullptr) exchange = &unknown;
  exchange->was_rejected = true;
  exchange->end_ns = packet.time_ns;
  Report(FindingKind::kRejected, *exchange, packet.time_ns, packet.number,
         absl::StrCat(AddressText(packet.packet.source), " rejected ", ExchangeText(*exchange),
                      ": ", RejectText(static_cast<uint16_t>(rej.reason))));
}

void CmExchanges::OnDreq(const CapturedPacket& packet, const wire::CmDreq& dreq) {
  CmExchange* exchange = Find(packet.packet.source, packet.packet.destination, dreq.local_comm_id,
                              dreq.remote_comm_id);
  if (exchange == nullptr) {
    const auto found = of_passive_.find({packet.packet.source, dreq.local_comm_id.value()});
    if (found != of_passive_.end()) exchange = &exchanges_.at(found->second);
  }
  if (exchange == nullptr || exchange->end_ns != 0) return;
  exchange->end_ns = packet.time_ns;
  exchange->dreq_frame = packet.number;
}

void CmExchanges::OnDrep(const CapturedPacket& packet, const wire::CmDrep& drep) {
  CmExchange* const exchange = Find(packet.packet.source, packet.packet.destination,
                                    drep.local_comm_id, drep.remote_comm_id);
  if (exchange != nullptr && exchange->drep_ns == 0) exchange->drep_ns = packet.time_ns;
}

void CmExchanges::Finish(int64_t end_ns) {
  // A Linux peer waits 4.3 s for a REP, 15 times (section 6).
  constexpr int64_t kLeastUnansweredNs = 5'000'000'000;
  for (const auto& [key, exchange] : exchanges_) {
    const bool is_open = exchange.rep_ns == 0 && exchange.end_ns == 0;
    if (is_open && end_ns - exchange.req_ns > kLeastUnansweredNs) {
      Report(FindingKind::kUnanswered, exchange, exchange.req_ns, exchange.req_frame,
             absl::StrCat(ExchangeText(exchange), ": ", exchange.req_count,
                          exchange.req_count == 1 ? " REQ" : " REQs", " without an answer"));
    }
  }
}

std::vector<const CmExchange*> CmExchanges::all() const {
  std::vector<const CmExchange*> all;
  for (const auto& [key, exchange] : exchanges_) all.push_back(&exchange);
  std::ranges::stable_sort(all, {}, &CmExchange::req_ns);
  return all;
}

}  // namespace uroce::tools::analyze
