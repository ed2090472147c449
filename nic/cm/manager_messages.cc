// SPDX-License-Identifier: Apache-2.0
// Finds the connection that a message belongs to, and answers messages that belong to none.
#include <algorithm>
#include <type_traits>

#include "nic/cm/manager.h"

namespace uroce::nic::cm {
namespace {

constexpr uint8_t kLeastMtu = 1;  // 256 bytes.
constexpr uint8_t kMostMtu = 5;   // 4096 bytes.
constexpr uint8_t kExtendedXrc = 1;

/// The reason to reject a REQ for any listener, if there is one.
std::optional<wire::RejReason> ReasonAgainst(const wire::CmReq& req) {
  const bool xrc = req.transport == wire::CmTransport::kExtended;
  if (req.transport == wire::CmTransport::kRd || (xrc && req.extended_transport != kExtendedXrc)) {
    return wire::RejReason::kInvalidTransport;
  }
  if (req.path_mtu < kLeastMtu || req.path_mtu > kMostMtu) return wire::RejReason::kInvalidMtu;
  return std::nullopt;
}

uint64_t CaGuidIn(const wire::CmRej& rej) {
  uint64_t guid = 0;
  for (size_t i = 0; i < sizeof guid; ++i) guid = guid << 8 | rej.info[i];
  return guid;
}

}  // namespace

void Manager::OnMad(const Route& route, std::span<const uint8_t> mad, Nanos now) {
  wire::CmMessage message;
  const wire::CmDecodeResult decoded = wire::DecodeCm(mad, message);
  ++outbox_.counters.decoded[static_cast<size_t>(decoded)];
  if (decoded != wire::CmDecodeResult::kOk) return;
  ++outbox_.counters.received[static_cast<size_t>(IndexOf(message.attribute()))];
  OnMessage(route, message, now);
}

void Manager::OnMessage(const Route& route, const wire::CmMessage& message, Nanos now) {
  switch (message.attribute()) {
    case wire::CmAttribute::kReq:
      return OnReq(route, message, now);
    case wire::CmAttribute::kRep:
      return OnRep(route, message, now);
    case wire::CmAttribute::kRej:
      return OnRej(route, message, now);
    case wire::CmAttribute::kDreq:
      return OnDreq(route, message, now);
    case wire::CmAttribute::kMra:
      return OnOther<wire::CmMra>(route, message, now);
    case wire::CmAttribute::kRtu:
      return OnOther<wire::CmRtu>(route, message, now);
    case wire::CmAttribute::kDrep:
      return OnOther<wire::CmDrep>(route, message, now);
    case wire::CmAttribute::kLap:
      return OnOther<wire::CmLap>(route, message, now);
    case wire::CmAttribute::kApr:  // We send no LAP.
      ++outbox_.counters.wrong_state;
      return;
    case wire::CmAttribute::kSidrReq:
      return OnSidrReq(route, message, now);
    case wire::CmAttribute::kSidrRep:
      return OnSidrRep(route, message);
  }
}

void Manager::OnReq(const Route& route, const wire::CmMessage& message, Nanos now) {
  const auto& req = std::get<wire::CmReq>(message.body);
  const Remote remote = RemoteAt(route, req.local_ca_guid, req.local_comm_id.value());
  if (ConnectionEntry* const entry = FindBy(by_remote_id_, remote)) {
    entry->object.OnRepeatedReq(message);
    return static_cast<void>(Settle(*entry));
  }
  if (!HasRoom(route.remote, now)) return;
  if (const auto reason = ReasonAgainst(req)) return RefuseReq(route, message, *reason);
  wire::RdmaCmHeader header;
  BindingId listener{};
  switch (FindService(route, req.service_id, req.private_data, header, listener)) {
    case Refusal::kNone:
      break;
    case Refusal::kDropped:
      return;
    case Refusal::kNoListener:
      return RefuseReq(route, message, wire::RejReason::kInvalidServiceId);
    case Refusal::kNotForUs:
      return RefuseReq(route, message, wire::RejReason::kConsumerDefined);
  }
  if (IsStale(route, message, now)) return bindings_.ReturnPlace(listener, route.remote);
  const CommId id = NewId();
  ConnectionEntry& entry = connections_.try_emplace(id.value(), id, outbox_).first->second;
  entry.place = listener;
  entry.object.OnReq(route, listener, header, message);
  Settle(entry);
}

// The request names a queue pair that is already in a connection: its host may have forgotten that
// connection, and must take another queue pair (docs/protocol/cm.md, section 4).
bool Manager::IsStale(const Route& route, const wire::CmMessage& message, Nanos now) {
  const auto& req = std::get<wire::CmReq>(message.body);
  ConnectionEntry* const old =
      FindBy(by_remote_qpn_, RemoteAt(route, req.local_ca_guid, req.local_qpn.value()));
  if (old == nullptr) return false;
  ++outbox_.counters.stale;
  RefuseReq(route, message, wire::RejReason::kStale);
  old->object.OnStale(now);
  Settle(*old);
  return true;
}

void Manager::OnRep(const Route& route, const wire::CmMessage& message, Nanos now) {
  const auto& rep = std::get<wire::CmRep>(message.body);
  ConnectionEntry* const entry = FindPair(route, rep.remote_comm_id, rep.local_comm_id);
  const bool live = entry != nullptr && entry->object.active() &&
                    entry->object.state() != State::kIdle && entry->object.remote_id() != CommId();
  if (live) {
    entry->object.OnRep(message);
    return static_cast<void>(Settle(*entry));
  }
  // The sender waits for an RTU that will not come: the REJ says so at once.
  if (entry == nullptr || !entry->object.awaits_reply()) {
    return RefuseRep(route, message, wire::RejReason::kInvalidCommId);
  }
  const auto taken = [&](auto& index, uint32_t number) {
    return FindBy(index, RemoteAt(route, rep.local_ca_guid, number));
  };
  ConnectionEntry* const old = taken(by_remote_qpn_, entry->object.QpnIn(rep).value());
  if (old != nullptr || taken(by_remote_id_, rep.local_comm_id.value()) != nullptr) {
    ++outbox_.counters.stale;
    entry->object.OnStaleRep(message, now);
    Settle(*entry);
    if (old != nullptr) {
      old->object.OnStale(now);
      Settle(*old);
    }
    return;
  }
  entry->object.OnRep(message);
  Settle(*entry);
}

void Manager::OnRej(const Route& route, const wire::CmMessage& message, Nanos now) {
  ConnectionEntry* const entry = FindRejected(route, std::get<wire::CmRej>(message.body));
  if (entry == nullptr) return;
  entry->object.OnRej(message, now);
  Settle(*entry);
}

// Every DREQ is answered: a peer must not wait to end a connection that we do not know.
void Manager::OnDreq(const Route& route, const wire::CmMessage& message, Nanos now) {
  const auto& dreq = std::get<wire::CmDreq>(message.body);
  const ConnectionEntry* const any = Find(dreq.remote_comm_id);
  if (any == nullptr || any->object.remote_id() != dreq.local_comm_id) {
    ++outbox_.counters.unknown_id;
    return outbox_.Send(route, {.transaction_id = message.transaction_id,
                                .body = wire::CmDrep{.local_comm_id = dreq.remote_comm_id,
                                                     .remote_comm_id = dreq.local_comm_id}});
  }
  ConnectionEntry* const entry = FindPair(route, dreq.remote_comm_id, dreq.local_comm_id);
  if (entry == nullptr) return;
  entry->object.OnDreq(message, now);
  Settle(*entry);
}

template <typename Body>
void Manager::OnOther(const Route& route, const wire::CmMessage& message, Nanos now) {
  const auto& body = std::get<Body>(message.body);
  ConnectionEntry* const entry = FindPair(route, body.remote_comm_id, body.local_comm_id);
  if (entry == nullptr) return;
  Connection& connection = entry->object;
  if constexpr (std::is_same_v<Body, wire::CmMra>) connection.OnMra(body, now);
  if constexpr (std::is_same_v<Body, wire::CmRtu>) connection.OnRtu();
  if constexpr (std::is_same_v<Body, wire::CmDrep>) connection.OnDrep(now);
  if constexpr (std::is_same_v<Body, wire::CmLap>) connection.OnLap(message);
  Settle(*entry);
}

void Manager::OnSidrReq(const Route& route, const wire::CmMessage& message, Nanos now) {
  const auto& request = std::get<wire::CmSidrReq>(message.body);
  const std::pair key{route.remote.bytes, request.request_id.value()};
  if (const auto found = by_request_.find(key); found != by_request_.end()) {
    return FindResolution(found->second)->object.OnRepeatedRequest();
  }
  if (!HasRoom(route.remote, now)) return;
  wire::RdmaCmHeader header;
  BindingId listener{};
  const Refusal refusal =
      FindService(route, request.service_id, request.private_data, header, listener);
  if (refusal == Refusal::kDropped) return;
  if (refusal != Refusal::kNone) {
    const auto status = refusal == Refusal::kNoListener ? wire::SidrStatus::kServiceNotSupported
                                                        : wire::SidrStatus::kRejected;
    return outbox_.Send(route, {.transaction_id = message.transaction_id,
                                .body = wire::CmSidrRep{.request_id = request.request_id,
                                                        .status = status,
                                                        .service_id = request.service_id}});
  }
  const CommId id = NewId();
  ResolutionEntry& entry = resolutions_.try_emplace(id.value(), id, outbox_).first->second;
  entry.place = listener;
  by_request_.emplace(key, id);
  entry.object.OnRequest(route, listener, header, message);
  Settle(entry);
}

void Manager::OnSidrRep(const Route& route, const wire::CmMessage& message) {
  ResolutionEntry* const entry = FindResolution(std::get<wire::CmSidrRep>(message.body).request_id);
  if (entry == nullptr || !entry->object.asks()) {
    ++outbox_.counters.unknown_id;
    return;
  }
  if (entry->object.route().remote != route.remote) {
    ++outbox_.counters.wrong_address;
    return;
  }
  entry->object.OnResponse(message);
  Settle(*entry);
}

Manager::ConnectionEntry* Manager::FindBy(const Index& index, const Remote& remote) {
  const auto found = index.find(remote);
  return found == index.end() ? nullptr : Find(found->second);
}

// Before the REP we do not know the peer's id. Attackers can guess an id in time, but the addresses
// too only if they are on the path.
Manager::ConnectionEntry* Manager::FindPair(const Route& route, CommId ours, CommId theirs) {
  ConnectionEntry* const entry = Find(ours);
  if (entry == nullptr ||
      (entry->object.remote_id() != CommId() && entry->object.remote_id() != theirs)) {
    ++outbox_.counters.unknown_id;
    return nullptr;
  }
  const Route& expected = entry->object.route();
  if (expected.remote == route.remote && expected.local == route.local) return entry;
  ++outbox_.counters.wrong_address;
  return nullptr;
}

// A peer that gives up may not know our id; it names itself by its CA GUID and its own id. Once it
// knows ours it must name both: one id alone is easier to guess.
Manager::ConnectionEntry* Manager::FindRejected(const Route& route, const wire::CmRej& rej) {
  if (rej.reason != wire::RejReason::kTimeout || rej.remote_comm_id != CommId()) {
    return FindPair(route, rej.remote_comm_id, rej.local_comm_id);
  }
  ConnectionEntry* const entry =
      FindBy(by_remote_id_, RemoteAt(route, CaGuidIn(rej), rej.local_comm_id.value()));
  if (entry == nullptr || !entry->object.is_half_known()) {
    ++outbox_.counters.unknown_id;
    return nullptr;
  }
  return FindPair(route, entry->object.id(), rej.local_comm_id);
}

// Addresses are both in the packet and in the private data of the request: they must agree.
Manager::Refusal Manager::FindService(const Route& route, uint64_t service_id,
                                      std::span<const uint8_t> private_data,
                                      wire::RdmaCmHeader& header, BindingId& listener) {
  const auto service = wire::ServiceOf(service_id);
  if (!service || !bindings_.HasListener(*service)) {
    ++outbox_.counters.no_listener;
    return Refusal::kNoListener;
  }
  const bool agrees =
      wire::DecodeRdmaCmHeader(private_data, header) == wire::RdmaCmHeaderResult::kOk &&
      header.destination == route.local && header.source == route.remote;
  listener = bindings_.FindListener(*service, route.local);
  if (!agrees || listener == BindingId{}) {
    ++outbox_.counters.no_listener;
    return Refusal::kNotForUs;
  }
  if (bindings_.TakePlace(listener, route.remote)) return Refusal::kNone;
  ++outbox_.counters.backlog_full;
  return Refusal::kDropped;
}

bool Manager::HasRoom(const Gid& source, Nanos now) {
  if (!limit_.Take(source, now)) {
    ++outbox_.counters.over_rate;
    return false;
  }
  if (size() < config_.max_ids) return true;
  ++outbox_.counters.no_room;
  return false;
}

void Manager::RefuseReq(const Route& route, const wire::CmMessage& message,
                        wire::RejReason reason) {
  wire::CmRej rej{.remote_comm_id = std::get<wire::CmReq>(message.body).local_comm_id,
                  .about = wire::CmAbout::kReq,
                  .reason = reason};
  if (reason == wire::RejReason::kInvalidMtu) {  // ARI: an acceptable MTU.
    rej.info_bytes = 1;
    rej.info[0] = kMostMtu;
  }
  outbox_.Send(route, {.transaction_id = message.transaction_id, .body = rej});
}

void Manager::RefuseRep(const Route& route, const wire::CmMessage& message,
                        wire::RejReason reason) {
  const auto& rep = std::get<wire::CmRep>(message.body);
  outbox_.Send(route, {.transaction_id = message.transaction_id,
                       .body = wire::CmRej{.local_comm_id = rep.remote_comm_id,
                                           .remote_comm_id = rep.local_comm_id,
                                           .about = wire::CmAbout::kRep,
                                           .reason = reason}});
}

}  // namespace uroce::nic::cm
