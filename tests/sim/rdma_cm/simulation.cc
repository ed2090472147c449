// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/rdma_cm/simulation.h"

#include <algorithm>

namespace uroce::sim::rdma_cm {
namespace {

using nic::rdma_cm::Event;
using nic::rdma_cm::EventKind;
using wire::PortSpace;

// No good run takes nearly as long: sixteen transmissions of a REQ take 98 s.
constexpr Nanos kLongestRun{2'000'000'000'000};
constexpr Nanos kResolveTime{2'000'000'000};
constexpr uint16_t kPort = 7174;
constexpr uint16_t kUnusedPort = 7175;
constexpr uint32_t kPrograms = 3;  // On each host.
constexpr uint32_t kServer = 0;    // The program that listens.
constexpr uint32_t kFirstQpn = 0x10;
constexpr uint32_t kRepeatedQpns = 30;
constexpr uint32_t kBusyMs = 60'000;  // How long programs begin new work.
/// The parts of a run draw from their own seeds, so that leaving one out does not change the
/// others.
enum Draw : uint64_t { kConditions = 1, kNetwork, kWork, kNumbers };

Random DrawFor(uint64_t seed, uint64_t part) { return Random(Random(seed * 1000 + part).Next()); }

nic::rdma_cm::SocketAddress AnyAddress() {
  nic::rdma_cm::SocketAddress any{.port = kPort};
  any.address.bytes[10] = any.address.bytes[11] = 0xff;
  return any;
}

/// The event as a connection's history records it; nullopt when it does not concern a connection.
std::optional<nic::cm::EventKind> KindOf(EventKind kind) {
  switch (kind) {
    case EventKind::kConnectResponse:
      return nic::cm::EventKind::kConnectReply;
    case EventKind::kEstablished:
      return nic::cm::EventKind::kEstablished;
    case EventKind::kRejected:
      return nic::cm::EventKind::kRejected;
    case EventKind::kUnreachable:
      return nic::cm::EventKind::kUnreachable;
    case EventKind::kDisconnected:
      return nic::cm::EventKind::kDisconnected;
    case EventKind::kTimewaitExit:
      return nic::cm::EventKind::kTimewaitExit;
    default:
      return std::nullopt;
  }
}

}  // namespace

Simulation::Conditions::Conditions(Random random)
    : faults{.drop = random.OneOf<uint32_t>({0, 20, 100}),
             .duplicate = random.OneOf<uint32_t>({0, 20, 100}),
             .delay = random.OneOf<uint32_t>({0, 20, 100})},
      nodes(2 + random.Below(5)),
      connections(50 + random.Below(200)),
      kills(random.OneOf<uint32_t>({0, 2, 10})),
      backlog(random.OneOf<uint32_t>({3, 1000})),
      death(random.Happens(300)) {}

Simulation::Simulation(uint64_t seed)
    : random_(DrawFor(seed, kWork)),
      seed_(seed),
      conditions_(DrawFor(seed, kConditions)),
      network_(conditions_.faults, conditions_.nodes, DrawFor(seed, kNetwork).Next()),
      next_qpn_(conditions_.nodes, kFirstQpn + kRepeatedQpns),
      died_(conditions_.nodes),
      server_killed_(conditions_.nodes) {
  for (uint32_t i = 0; i < conditions_.nodes; ++i) {
    nodes_.push_back(
        std::make_unique<Node>(i, conditions_.nodes, kPrograms, now_,
                               [this, i](const nic::cm::Route& route,
                                         std::span<const uint8_t> mad) { Send(i, route, mad); }));
    Start(i);
  }
  PlanAttempts();
  PlanKills();
  if (conditions_.death) PlanDeath();
}

// ---- the plan ----

void Simulation::Plan(Nanos at, const Place& place, Do what, uint32_t attempt) {
  actions_.push({.at = at,
                 .order = order_++,
                 .place = place,
                 .life = nodes_[place.node]->programs()[place.program].life,
                 .what = what,
                 .attempt = attempt});
}

void Simulation::PlanAttempts() {
  for (uint32_t i = 0; i < conditions_.connections; ++i) {
    const Place place{random_.Below(conditions_.nodes), random_.Below(kPrograms), {}};
    auto attempt = std::make_unique<Attempt>();
    attempt->history.target = random_.Below(conditions_.nodes);  // Perhaps itself.
    attempt->history.has_listener = !random_.Happens(50);
    attempt->history.active.node = place.node;
    attempt->history.active.active = true;
    attempt->is_datagram = random_.Happens(100);
    attempt->is_unreachable = random_.Happens(20);
    attempts_.push_back(std::move(attempt));
    Plan(After(kBusyMs), place, Do::kCreate, i);
  }
}

void Simulation::PlanKills() {
  for (uint32_t i = 0; i < conditions_.kills; ++i) {
    const Place place{random_.Below(conditions_.nodes), random_.Below(kPrograms), {}};
    Plan(After(kBusyMs), place, Do::kKill);
  }
}

void Simulation::PlanDeath() {
  const Place dying{random_.Below(conditions_.nodes), 0, {}};
  const Nanos death = After(kBusyMs);
  Plan(death, dying, Do::kDie);
  if (!random_.Happens(600)) return;
  Plan(death + Nanos(int64_t{random_.Below(20'000)} * 1'000'000), dying, Do::kRestart);
}

// ---- time ----

std::string Simulation::Run() {
  RunUntilQuiet();
  // All programs are killed. Their last messages are sent, and then nothing may be left.
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i]->alive()) continue;
    for (uint32_t program = 0; program < kPrograms; ++program) nodes_[i]->Kill(program);
  }
  RunUntilQuiet();
  return fault_.empty() ? Judge() : fault_;
}

void Simulation::RunUntilQuiet() {
  while (fault_.empty()) {
    const Nanos next = NextMoment();
    if (next == kNever) return;
    now_ = std::max(now_, next);
    if (now_ > kLongestRun) return Fail("hang");
    DeliverArrivals();
    while (!actions_.empty() && actions_.top().at <= now_) {
      const Action action = actions_.top();
      actions_.pop();
      Act(action);
      LookAtWhatWasTold(action.place.node);
    }
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (!nodes_[i]->alive() || nodes_[i]->NextDue() > now_) continue;
      nodes_[i]->OnTime();
      LookAtWhatWasTold(i);
    }
  }
}

Nanos Simulation::NextMoment() const {
  Nanos next = network_.NextArrival();
  if (!actions_.empty()) next = std::min(next, actions_.top().at);
  for (const auto& node : nodes_) {
    if (node->alive()) next = std::min(next, node->NextDue());
  }
  return next;
}

// A frame holds the number of its sender and a MAD.
void Simulation::Send(uint32_t from, const nic::cm::Route& route, std::span<const uint8_t> mad) {
  std::unique_ptr<Frame> frame = network_.Take();
  frame->length_bytes = 1 + wire::kMadBytes;
  frame->room[0] = static_cast<uint8_t>(from);
  std::ranges::copy(mad, frame->room.begin() + 1);
  network_.Send(from, HostOf(route.remote), std::move(frame), now_);
}

void Simulation::DeliverArrivals() {
  Arrival arrival;
  while (network_.TakeArrival(now_, arrival)) {
    Node& node = *nodes_[arrival.host];
    const std::span<const uint8_t> bytes = arrival.frame->bytes();
    if (node.alive()) node.OnMad(bytes[0], bytes.subspan(1));
    network_.GiveBack(std::move(arrival.frame));
    LookAtWhatWasTold(arrival.host);
  }
}

void Simulation::LookAtWhatWasTold(uint32_t number) {
  Node& node = *nodes_[number];
  while (!node.told().empty()) {
    const Told told = node.told().front();
    node.told().pop_front();
    if (told.life != node.programs()[told.program].life) continue;
    OnEvent({number, told.program, told.event.id}, told.event);
  }
}

// ---- hosts and programs ----

// Actions of a former life are void, except new work: the next life does it.
void Simulation::Act(const Action& action) {
  const Place& place = action.place;
  Node& node = *nodes_[place.node];
  switch (action.what) {
    case Do::kDie:
      ++summary_.deaths;
      died_[place.node] = true;
      return node.Die();
    case Do::kRestart:
      return Start(place.node);
    case Do::kKill:
      if (!node.alive()) return;
      ++summary_.kills;
      if (place.program == kServer) server_killed_[place.node] = true;
      node.Kill(place.program);
      return Plan(After(2'000), place, Do::kStartProgram);
    case Do::kStartProgram:
      if (!node.alive() || node.programs()[place.program].client != nullptr) return;
      node.StartProgram(place.program);
      if (place.program == kServer) Listen(place.node);
      return;
    default:
      break;
  }
  const Node::Program& program = node.programs()[place.program];
  const bool is_meant = action.what == Do::kCreate || action.life == program.life;
  if (node.alive() && program.client != nullptr && is_meant) OnProgram(action);
}

// A host that comes back keeps its CA GUID, and gives its last queue pairs' numbers out again.
void Simulation::Start(uint32_t number) {
  if (nodes_[number]->alive()) return;
  auto numbers =
      std::make_shared<Random>(DrawFor(seed_, kNumbers + number + (died_[number] ? 100u : 0u)));
  nodes_[number]->Start([numbers] { return static_cast<uint32_t>(numbers->Next()); });
  next_qpn_[number] -= kRepeatedQpns;
  Listen(number);
}

void Simulation::Listen(uint32_t number) {
  nic::rdma_cm::Client& client = *nodes_[number]->programs()[kServer].client;
  for (const auto& [space, type] :
       {std::pair(PortSpace::kTcp, IBV_QPT_RC), std::pair(PortSpace::kUdp, IBV_QPT_UD)}) {
    EndpointId id{};
    const bool listens = client.Create(space, type, id) == Result::kOk &&
                         client.Bind(id, AnyAddress()) == Result::kOk &&
                         client.Listen(id, conditions_.backlog) == Result::kOk;
    if (!listens) Fail("a listener");
  }
}

// Calls in a wrong state must be refused and change nothing; kills and peers cause such calls.
void Simulation::OnProgram(const Action& action) {
  const Place& place = action.place;
  nic::rdma_cm::Client& client = *nodes_[place.node]->programs()[place.program].client;
  cm::End* const end = FindEnd(place);
  switch (action.what) {
    case Do::kCreate:
      return Create(action);
    case Do::kRoute:
      static_cast<void>(client.ResolveRoute(place.id));
      return;
    case Do::kConnect:
      return Connect(action);
    case Do::kTake:
      static_cast<void>(client.TakeRequest(place.id));
      return;
    case Do::kAccept:
      return Accept(action);
    case Do::kReject:
      if (client.Reject(place.id, 0, {}) != Result::kOk) return;
      if (end != nullptr) end->rejected = true;
      return Plan(After(100), place, Do::kDestroy);
    case Do::kEstablish:
      return Establish(action);
    case Do::kDisconnect:
      if (end != nullptr && !end->ended()) end->leaves = true;
      static_cast<void>(client.Disconnect(place.id));
      return;
    case Do::kDestroy:
      static_cast<void>(client.Destroy(place.id));
      if (end != nullptr) end->Destroy();
      return;
    default:
      return;
  }
}

void Simulation::Create(const Action& action) {
  const Attempt& attempt = *attempts_[action.attempt];
  Place place = action.place;
  nic::rdma_cm::Client& client = *nodes_[place.node]->programs()[place.program].client;
  const PortSpace space = attempt.is_datagram ? PortSpace::kUdp : PortSpace::kTcp;
  const ibv_qp_type type = attempt.is_datagram ? IBV_QPT_UD : IBV_QPT_RC;
  if (client.Create(space, type, place.id) != Result::kOk) return Fail("create");
  const uint32_t to = attempt.is_unreachable ? conditions_.nodes : attempt.history.target;
  const nic::rdma_cm::SocketAddress address{
      .address = AddressOf(to), .port = attempt.history.has_listener ? kPort : kUnusedPort};
  if (client.ResolveAddress(place.id, nullptr, address, kResolveTime) != Result::kOk) {
    return Fail("resolve");
  }
  by_endpoint_[{place.node, place.program, place.id}] = action.attempt;
  if (random_.Happens(50)) Plan(After(10'000), place, Do::kDestroy);
}

void Simulation::Connect(const Action& action) {
  const Place& place = action.place;
  Attempt& attempt = *attempts_[action.attempt];
  Node::Program& program = nodes_[place.node]->programs()[place.program];
  const nic::rdma_cm::ConnectionParameters parameters = NewQueuePair(place.node);
  if (program.client->Connect(place.id, parameters) != Result::kOk || attempt.is_datagram) return;
  attempt.is_connection = true;
  by_queue_pair_[{place.node, parameters.qpn.value()}] = action.attempt;
  attempt.history.active.id = cm::CommId(static_cast<uint32_t>(place.id));
  program.ends[place.id] = &attempt.history.active;
  ++summary_.connections;
}

void Simulation::Accept(const Action& action) {
  const Place& place = action.place;
  nic::rdma_cm::Client& client = *nodes_[place.node]->programs()[place.program].client;
  if (client.Accept(place.id, NewQueuePair(place.node)) != Result::kOk) return;
  if (cm::End* const end = FindEnd(place)) end->accepted = true;
}

void Simulation::Establish(const Action& action) {
  const Place& place = action.place;
  nic::rdma_cm::Client& client = *nodes_[place.node]->programs()[place.program].client;
  if (client.Establish(place.id) != Result::kOk) return;
  FindEnd(place)->established = true;
  Plan(After(Dawdles() ? 150'000 : 10'000), place, Do::kDisconnect);
}

nic::rdma_cm::ConnectionParameters Simulation::NewQueuePair(uint32_t node) {
  nic::rdma_cm::ConnectionParameters parameters;
  parameters.qpn = Qpn(next_qpn_[node]++);
  return parameters;
}

cm::End* Simulation::FindEnd(const Place& place) {
  const auto& ends = nodes_[place.node]->programs()[place.program].ends;
  const auto found = ends.find(place.id);
  return found == ends.end() ? nullptr : found->second;
}

// ---- what programs are told ----

void Simulation::OnEvent(const Place& place, const Event& event) {
  switch (event.kind) {
    case EventKind::kConnectRequest:
      return OnRequest(place, event);
    case EventKind::kAddressResolved:
      return Plan(After(100), place, Do::kRoute);
    case EventKind::kAddressError:
      ++summary_.unresolved;
      return Plan(After(100), place, Do::kDestroy);
    case EventKind::kRouteResolved:
      return Plan(After(100), place, Do::kConnect,
                  by_endpoint_.at({place.node, place.program, place.id}));
    default:
      break;
  }
  if (cm::End* const end = FindEnd(place)) return OnEnd(place, *end, event);
  OnDatagramEvent(place, event);
}

// A program takes the request, and then answers after a time, which is mostly short.
void Simulation::OnRequest(const Place& place, const Event& event) {
  Plan(After(500), place, Do::kTake);
  const Nanos answer = After(Dawdles() ? 30'000 : 1'000);
  const uint32_t mood = random_.Below(100);
  Plan(answer, place, mood < 88 ? Do::kAccept : mood < 95 ? Do::kReject : Do::kDestroy);
  if (event.is_datagram) return Plan(answer + Nanos(5'000'000'000), place, Do::kDestroy);
  if (random_.Happens(50)) Plan(After(20'000), place, Do::kDestroy);
  nic::rdma_cm::EndpointInfo info;
  Node::Program& program = nodes_[place.node]->programs()[place.program];
  if (program.client->Query(place.id, info) != Result::kOk) return;  // Its listener is gone.
  const auto wanted =
      by_queue_pair_.find({HostOf(info.remote.address), event.connection.qpn.value()});
  if (wanted == by_queue_pair_.end()) return Fail("a request that no end made");
  std::vector<cm::End>& passive = attempts_[wanted->second]->history.passive;
  // Ends of an attempt must not move in memory: `passive` has room for all there will be.
  if (passive.capacity() == 0) passive.reserve(32);
  if (passive.size() == passive.capacity()) return Fail("requests without end");
  passive.push_back({.node = place.node, .id = cm::CommId(static_cast<uint32_t>(place.id))});
  program.ends[place.id] = &passive.back();
}

void Simulation::OnEnd(const Place& place, cm::End& end, const Event& event) {
  const std::optional<nic::cm::EventKind> kind = KindOf(event.kind);
  const std::string wrong = kind ? end.OnEvent(*kind) : "told what cannot be";
  if (!wrong.empty()) return Fail(wrong + ": " + end.ToString());
  switch (event.kind) {
    case EventKind::kConnectResponse: {
      const uint32_t mood = random_.Below(100);
      const Do what = mood < 90 ? Do::kEstablish : mood < 95 ? Do::kReject : Do::kDestroy;
      return Plan(After(Dawdles() ? 20'000 : 500), place, what);
    }
    case EventKind::kEstablished:
      ++summary_.established;
      return Plan(After(10'000), place, Do::kDisconnect);
    case EventKind::kDisconnected:
      end.timed_out = event.status != 0;
      Plan(After(1'000), place, Do::kDisconnect);
      if (!random_.Happens(300)) return;  // The others await the end of time wait.
      return Plan(After(3'000) + Nanos(1'000'000'000), place, Do::kDestroy);
    case EventKind::kRejected:
      ++summary_.rejected;
      end.reason = static_cast<uint16_t>(event.status);
      break;
    default:
      break;
  }
  Plan(After(100), place, Do::kDestroy);
}

void Simulation::OnDatagramEvent(const Place& place, const Event& event) {
  if (event.kind == EventKind::kEstablished) ++summary_.services_found;
  const bool is_its = event.kind == EventKind::kEstablished ||
                      event.kind == EventKind::kUnreachable || event.kind == EventKind::kRejected;
  if (!is_its) return Fail("an event of an unknown id");
  Plan(After(100), place, Do::kDestroy);
}

void Simulation::Fail(const std::string& fault) {
  if (fault_.empty()) fault_ = fault;
}

// Called when all programs are gone and no message is under way.
std::string Simulation::Judge() {
  std::vector<uint64_t> busy(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i]->alive()) continue;
    const std::string remains = nodes_[i]->Remains();
    if (!remains.empty()) return "host " + std::to_string(i) + " keeps" + remains;
    summary_.retransmitted += nodes_[i]->service().counters().retransmitted;
    busy[i] = nodes_[i]->service().counters().backlog_full;
  }
  for (size_t i = 0; i < attempts_.size(); ++i) {
    cm::Attempt& attempt = attempts_[i]->history;
    if (!attempts_[i]->is_connection) continue;
    if (server_killed_[attempt.target]) attempt.has_listener = false;  // For some time.
    const bool lived = !died_[attempt.active.node] && !died_[attempt.target];
    const std::string wrong = attempt.Judge(lived, busy[attempt.target]);
    if (!wrong.empty()) return "attempt " + std::to_string(i) + ": " + wrong;
  }
  return "";
}

void Simulation::AddTo(Summary& summary) const {
  summary.connections += summary_.connections;
  summary.established += summary_.established;
  summary.rejected += summary_.rejected;
  summary.unresolved += summary_.unresolved;
  summary.services_found += summary_.services_found;
  summary.kills += summary_.kills;
  summary.deaths += summary_.deaths;
  summary.retransmitted += summary_.retransmitted;
}

}  // namespace uroce::sim::rdma_cm
