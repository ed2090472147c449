// SPDX-License-Identifier: Apache-2.0
#include "nic/cm/manager.h"

#include <algorithm>
#include <type_traits>

namespace uroce::nic::cm {
namespace {

uint64_t SecretFrom(const RandomSource& random) {
  const uint64_t high = random();
  return high << 32 | random();
}

constexpr uint8_t kLeastMtu = 1;  // 256 bytes.
constexpr uint8_t kMostMtu = 5;   // 4096 bytes.

/// The reason to reject a REQ for any listener, if there is one.
std::optional<wire::RejReason> ReasonAgainst(const wire::CmReq& req) {
  const bool xrc = req.transport == wire::CmTransport::kExtended;
  if (req.transport == wire::CmTransport::kRd ||
      (xrc && req.extended_transport != wire::kCmExtendedXrc)) {
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

// ---- calls of programs, deadlines, tables ----

Manager::Manager(const Config& config, RandomSource random)
    : config_(config),
      random_(std::move(random)),
      limit_(SecretFrom(random_), config.requests_per_second, config.request_burst),
      outbox_(SourceLimit(SecretFrom(random_), config.repeats_per_second, config.repeat_burst)),
      bindings_(config.ports) {}

Result Manager::Bind(const BindParameters& parameters, BindingId& id) {
  return bindings_.Bind(parameters, random_(), id);
}

Result Manager::Listen(BindingId id, uint32_t backlog) { return bindings_.Listen(id, backlog); }

Result Manager::Connect(const ConnectParameters& parameters, Nanos now, CommId& id) {
  if (!MakeRoom()) return Result::kNoRoom;
  const CommId wanted = NewId();
  auto& entry = connections_.try_emplace(wanted.value(), wanted, outbox_).first->second;
  const Result result = entry.object.Connect(parameters, now);
  if (result != Result::kOk) {
    connections_.erase(wanted.value());
    return result;
  }
  id = wanted;
  return Settle(entry);
}

void Manager::Keep(CommId id, std::shared_ptr<void> holder, const Account& account) {
  if (ConnectionEntry* const entry = Find(id)) {
    entry->holder = std::move(holder);
    entry->account = account;
  } else if (ResolutionEntry* const resolution = FindResolution(id)) {
    resolution->holder = std::move(holder);
    resolution->account = account;
  }
}

bool Manager::MakeRoom() {
  while (size() >= config_.max_ids) {
    if (!End(remains_.Oldest())) return false;
  }
  return true;
}

bool Manager::End(CommId remains) {
  if (ConnectionEntry* const entry = Find(remains)) {
    entry->object.Forget();
    Settle(*entry);
    return true;
  }
  ResolutionEntry* const entry = FindResolution(remains);
  if (entry == nullptr) return false;
  entry->object.Forget();
  Settle(*entry);
  return true;
}

Result Manager::OnRequestTaken(CommId id) {
  if (ConnectionEntry* const entry = Find(id)) {
    ReturnPlace(*entry);
    return Result::kOk;
  }
  ResolutionEntry* const entry = FindResolution(id);
  if (entry == nullptr) return Result::kNoSuchId;
  ReturnPlace(*entry);
  return Result::kOk;
}

Result Manager::Accept(CommId id, const AcceptParameters& parameters, Nanos now) {
  ConnectionEntry* const entry = Find(id);
  if (entry == nullptr) return Result::kNoSuchId;
  return Settle(*entry, entry->object.Accept(parameters, now));
}

Result Manager::Reject(CommId id, wire::RejReason reason, std::span<const uint8_t> private_data,
                       std::span<const uint8_t> info) {
  ConnectionEntry* const entry = Find(id);
  if (entry == nullptr) return Result::kNoSuchId;
  return Settle(*entry, entry->object.Reject(reason, private_data, info));
}

Result Manager::Establish(CommId id) {
  ConnectionEntry* const entry = Find(id);
  if (entry == nullptr) return Result::kNoSuchId;
  return Settle(*entry, entry->object.Establish());
}

Result Manager::OnFirstPacket(CommId id) {
  ConnectionEntry* const entry = Find(id);
  if (entry == nullptr) return Result::kNoSuchId;
  return Settle(*entry, entry->object.OnFirstPacket());
}

Result Manager::Disconnect(CommId id, Nanos now) {
  ConnectionEntry* const entry = Find(id);
  if (entry == nullptr) return Result::kNoSuchId;
  return Settle(*entry, entry->object.Disconnect(now));
}

Result Manager::Resolve(const ResolveParameters& parameters, Nanos now, CommId& id) {
  if (!MakeRoom()) return Result::kNoRoom;
  const CommId wanted = NewId();
  auto& entry = resolutions_.try_emplace(wanted.value(), wanted, outbox_).first->second;
  const Result result = entry.object.Ask(parameters, now);
  if (result != Result::kOk) {
    resolutions_.erase(wanted.value());
    return result;
  }
  id = wanted;
  return Settle(entry);
}

Result Manager::Answer(CommId id, const ResolveAnswer& answer, Nanos now) {
  ResolutionEntry* const entry = FindResolution(id);
  if (entry == nullptr) return Result::kNoSuchId;
  const Result result = entry->object.Answer(answer, now);
  if (result == Result::kOk) answers_.push_back(id);
  const Result settled = Settle(*entry, result);
  ForgetOldAnswers();
  return settled;
}

void Manager::ForgetOldAnswers() {
  while (answers_.size() > kMostAnswers) {
    ResolutionEntry* const oldest = FindResolution(answers_.front());
    answers_.pop_front();
    if (oldest == nullptr) continue;
    oldest->object.Forget();
    Settle(*oldest);
  }
}

Result Manager::Destroy(CommId id, Nanos now) {
  if (ConnectionEntry* const entry = Find(id)) {
    ReturnPlace(*entry);
    entry->object.Destroy(now);
    return Settle(*entry);
  }
  ResolutionEntry* const entry = FindResolution(id);
  if (entry == nullptr) return Result::kNoSuchId;
  ReturnPlace(*entry);
  entry->object.Destroy(now);
  return Settle(*entry);
}

void Manager::OnDeviceGone(uint32_t device) {
  for (auto it = connections_.begin(); it != connections_.end();) {
    ConnectionEntry& entry = (it++)->second;  // Settle may free it.
    if (entry.object.route().device != device) continue;
    entry.object.OnDeviceGone();
    Settle(entry);
  }
  for (auto it = resolutions_.begin(); it != resolutions_.end();) {
    ResolutionEntry& entry = (it++)->second;
    if (entry.object.route().device != device) continue;
    entry.object.OnDeviceGone();
    Settle(entry);
  }
}

void Manager::OnDeadline(Nanos now) {
  for (int i = 0; i < kDeadlinesAtOnce; ++i) {
    const CommId id = deadlines_.FirstDue(now);
    if (id == CommId()) return;
    if (ConnectionEntry* const entry = Find(id)) {
      entry->object.OnDeadline(now);
      Settle(*entry);
    } else if (ResolutionEntry* const resolution = FindResolution(id)) {
      resolution->object.OnDeadline(now);
      Settle(*resolution);
    }
  }
}

std::optional<Datagram> Manager::PollDatagram() {
  if (outbox_.datagrams.empty()) return std::nullopt;
  const Datagram datagram = outbox_.datagrams.front();
  outbox_.datagrams.pop_front();
  return datagram;
}

std::optional<Event> Manager::PollEvent() {
  if (outbox_.events.empty()) return std::nullopt;
  const Event event = outbox_.events.front();
  outbox_.events.pop_front();
  return event;
}

const Connection* Manager::FindConnection(CommId id) const {
  const auto found = connections_.find(id.value());
  return found == connections_.end() ? nullptr : &found->second.object;
}

Manager::ConnectionEntry* Manager::Find(CommId id) {
  const auto found = connections_.find(id.value());
  return found == connections_.end() ? nullptr : &found->second;
}

Manager::ResolutionEntry* Manager::FindResolution(CommId id) {
  const auto found = resolutions_.find(id.value());
  return found == resolutions_.end() ? nullptr : &found->second;
}

// The loop ends soon: of 2^32 numbers at most max_ids are in use.
CommId Manager::NewId() {
  CommId id;
  do {
    id = CommId(random_());
  } while (id == CommId() || connections_.contains(id.value()) ||
           resolutions_.contains(id.value()));
  return id;
}

Result Manager::Settle(ConnectionEntry& entry, Result result) {
  Connection& connection = entry.object;
  deadlines_.Move(connection.id(), entry.deadline, connection.NextDeadline());
  entry.deadline = connection.NextDeadline();
  if (connection.state() != State::kIdle) {
    EnterIndices(connection);
    if (connection.is_remains()) remains_.Add(connection.id(), entry.account);
    return result;
  }
  LeaveIndices(connection);
  if (connection.finished()) {
    ReturnPlace(entry);
    remains_.Remove(connection.id());
    connections_.erase(connection.id().value());
  }
  return result;
}

Result Manager::Settle(ResolutionEntry& entry, Result result) {
  ServiceResolution& resolution = entry.object;
  deadlines_.Move(resolution.id(), entry.deadline, resolution.NextDeadline());
  entry.deadline = resolution.NextDeadline();
  if (resolution.is_remains()) remains_.Add(resolution.id(), entry.account);
  if (resolution.state() != ServiceResolution::State::kIdle) return result;
  if (!resolution.asks()) {
    const auto found =
        by_request_.find({resolution.route().remote.bytes, resolution.request_id().value()});
    if (found != by_request_.end() && found->second == resolution.id()) by_request_.erase(found);
  }
  if (resolution.finished()) {
    ReturnPlace(entry);
    remains_.Remove(resolution.id());
    resolutions_.erase(resolution.id().value());
  }
  return result;
}

void Manager::EnterIndices(Connection& connection) {
  if (connection.remote_id() == CommId()) return;
  const Route& route = connection.route();
  const uint64_t guid = connection.remote_ca_guid();
  by_remote_id_.try_emplace(RemoteAt(route, guid, connection.remote_id().value()), connection.id());
  // A queue pair is in no connection during time wait: its own host says when it may connect again.
  if (connection.state() == State::kTimewait) {
    return Leave(by_remote_qpn_, connection, connection.remote_qpn().value());
  }
  by_remote_qpn_.try_emplace(RemoteAt(route, guid, connection.remote_qpn().value()),
                             connection.id());
}

void Manager::LeaveIndices(const Connection& connection) {
  Leave(by_remote_id_, connection, connection.remote_id().value());
  Leave(by_remote_qpn_, connection, connection.remote_qpn().value());
}

void Manager::Leave(Index& index, const Connection& connection, uint32_t number) {
  const auto found = index.find(RemoteAt(connection.route(), connection.remote_ca_guid(), number));
  if (found != index.end() && found->second == connection.id()) index.erase(found);
}

template <typename Object>
void Manager::ReturnPlace(Entry<Object>& entry) {
  if (entry.place == BindingId{}) return;
  bindings_.ReturnPlace(entry.place, entry.object.route().remote);
  entry.place = BindingId{};
}

// ---- messages ----
// Each goes to the connection that it belongs to; the manager answers those that belong to none.

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
    case Refusal::kNoListener:
      return RefuseReq(route, message, wire::RejReason::kInvalidServiceId);
    case Refusal::kBusy:
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
  return Refusal::kBusy;
}

bool Manager::HasRoom(const Gid& source, Nanos now) {
  if (!limit_.Take(source, now)) {
    ++outbox_.counters.over_rate;
    return false;
  }
  if (MakeRoom()) return true;
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
