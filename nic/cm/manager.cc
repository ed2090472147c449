// SPDX-License-Identifier: Apache-2.0
// Calls of programs, deadlines, and the tables.
#include "nic/cm/manager.h"

#include <algorithm>

namespace uroce::nic::cm {
namespace {

uint64_t SecretFrom(const RandomSource& random) {
  const uint64_t high = random();
  return high << 32 | random();
}

}  // namespace

Manager::Manager(const Config& config, RandomSource random)
    : config_(config),
      random_(std::move(random)),
      limit_(SecretFrom(random_), config.requests_per_second, config.request_burst),
      bindings_(config.ports) {}

Result Manager::Bind(const BindParameters& parameters, BindingId& id) {
  return bindings_.Bind(parameters, random_(), id);
}

Result Manager::Listen(BindingId id, uint32_t backlog) { return bindings_.Listen(id, backlog); }

Result Manager::Connect(const ConnectParameters& parameters, Nanos now, CommId& id) {
  if (size() >= config_.max_ids) return Result::kNoRoom;
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

void Manager::Keep(CommId id, std::shared_ptr<void> holder) {
  if (ConnectionEntry* const entry = Find(id)) {
    entry->holder = std::move(holder);
  } else if (ResolutionEntry* const resolution = FindResolution(id)) {
    resolution->holder = std::move(holder);
  }
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
  if (size() >= config_.max_ids) return Result::kNoRoom;
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
    oldest->object.ForgetAnswer();
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
    return result;
  }
  LeaveIndices(connection);
  if (connection.finished()) {
    ReturnPlace(entry);
    connections_.erase(connection.id().value());
  }
  return result;
}

Result Manager::Settle(ResolutionEntry& entry, Result result) {
  ServiceResolution& resolution = entry.object;
  deadlines_.Move(resolution.id(), entry.deadline, resolution.NextDeadline());
  entry.deadline = resolution.NextDeadline();
  if (resolution.state() != ServiceResolution::State::kIdle) return result;
  if (!resolution.asks()) {
    const auto found =
        by_request_.find({resolution.route().remote.bytes, resolution.request_id().value()});
    if (found != by_request_.end() && found->second == resolution.id()) by_request_.erase(found);
  }
  if (resolution.finished()) {
    ReturnPlace(entry);
    resolutions_.erase(resolution.id().value());
  }
  return result;
}

void Manager::EnterIndices(Connection& connection) {
  if (connection.remote_id() == CommId()) return;
  const Route& route = connection.route();
  const uint64_t guid = connection.remote_ca_guid();
  by_remote_id_.try_emplace(RemoteAt(route, guid, connection.remote_id().value()), connection.id());
  // A queue pair is in no connection during time wait: its own host says when it may connect anew.
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

}  // namespace uroce::nic::cm
