// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cm/simulation.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "pipeline/wire/cm/codec.h"

namespace uroce::sim::cm {
namespace {

using nic::cm::Event;
using nic::cm::Result;
using nic::cm::Route;
using wire::PortSpace;

// No good run takes nearly as long: sixteen transmissions of a REQ take 98 s.
constexpr Nanos kLongestRun{2'000'000'000'000};
constexpr uint16_t kPort = 7174;
constexpr uint16_t kUnusedPort = 7175;
constexpr uint32_t kFirstQpn = 0x10;
constexpr uint32_t kRepeatedQpns = 30;
/// The parts of a run draw from their own seeds, so that leaving one out does not change the
/// others.
enum Draw : uint64_t { kConditions = 1, kNetwork, kPrograms, kNumbers };

Random DrawFor(uint64_t seed, uint64_t part) { return Random(Random(seed * 1000 + part).Next()); }

Gid AddressOf(uint32_t node) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, static_cast<uint8_t>(node + 1)}};
}
constexpr Gid kAnyAddress{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0}};

}  // namespace

std::string Options::ToString() const {
  std::string text = "seed=" + std::to_string(seed);
  if (connections != kAll) text += ",connections=" + std::to_string(connections);
  if (without != 0) text += ",without=" + std::to_string(without);
  return text;
}

Options Options::FromString(const std::string& text) {
  Options options;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const size_t equals = std::min(text.find('=', begin), end);
    const std::string name = text.substr(begin, equals - begin);
    const uint64_t value = std::strtoull(text.c_str() + std::min(equals + 1, end), nullptr, 0);
    if (name == "seed") {
      options.seed = value;
    } else if (name == "connections") {
      options.connections = static_cast<uint32_t>(value);
    } else if (name == "without") {
      options.without = static_cast<uint32_t>(value);
    } else {
      std::fprintf(stderr, "simulation: '%s' in '%s' is none of seed, connections, without\n",
                   name.c_str(), text.c_str());
      std::exit(2);
    }
    begin = end + 1;
  }
  return options;
}

Simulation::Conditions::Conditions(const Options& options, Random random)
    : faults{.drop = random.OneOf<uint32_t>({0, 20, 100}),
             .duplicate = random.OneOf<uint32_t>({0, 20, 100}),
             .delay = random.OneOf<uint32_t>({0, 20, 100})},
      nodes(2 + random.Below(5)),
      connections(std::min(50 + random.Below(200), options.connections)),
      backlog(random.OneOf<uint32_t>({3, 1000})),
      death(random.Happens(300) && (options.without & Options::kDeath) == 0),
      kills((options.without & Options::kKills) == 0),
      claims((options.without & Options::kClaims) == 0) {
  if ((options.without & Options::kDrop) != 0) faults.drop = 0;
  if ((options.without & Options::kDuplicate) != 0) faults.duplicate = 0;
  if ((options.without & Options::kDelay) != 0) faults.delay = 0;
}

Simulation::Simulation(const Options& options)
    : options_(options),
      random_(DrawFor(options.seed, kPrograms)),
      conditions_(options, DrawFor(options.seed, kConditions)),
      network_(conditions_.faults, conditions_.nodes, DrawFor(options.seed, kNetwork).Next()),
      nodes_(conditions_.nodes) {
  for (uint32_t node = 0; node < conditions_.nodes; ++node) Start(node);
  for (uint32_t i = 0; i < conditions_.connections; ++i) {
    const uint32_t from = random_.Below(conditions_.nodes);
    auto attempt = std::make_unique<Attempt>();
    attempt->target = random_.Below(conditions_.nodes);  // Perhaps itself.
    attempt->has_listener = !random_.Happens(50);
    attempt->claims = random_.Happens(100) && conditions_.claims;
    attempt->active.node = from;
    attempt->active.active = true;
    attempts_.push_back(std::move(attempt));
    Plan(After(60'000), from, random_.Happens(100) ? Do::kResolve : Do::kConnect, CommId(), i);
  }
  if (!conditions_.death) return;
  const uint32_t dying = random_.Below(conditions_.nodes);
  const Nanos death = After(60'000);
  Plan(death, dying, Do::kDie, CommId());
  if (random_.Happens(600)) {
    Plan(death + Nanos(int64_t{random_.Below(20'000)} * 1'000'000), dying, Do::kRestart, CommId());
  }
}

void Simulation::Plan(Nanos at, uint32_t node, Do what, CommId id, uint32_t attempt) {
  actions_.push({.at = at,
                 .order = order_++,
                 .node = node,
                 .life = nodes_[node].life,
                 .what = what,
                 .id = id,
                 .attempt = attempt});
}

// A node that comes back keeps its CA GUID, and gives its last queue pairs' numbers out again.
void Simulation::Start(uint32_t index) {
  Node& node = nodes_[index];
  auto numbers =
      std::make_shared<Random>(DrawFor(options_.seed, kNumbers + index + 100 * node.life));
  node.manager = std::make_unique<nic::cm::Manager>(
      nic::cm::Config{}, [numbers] { return static_cast<uint32_t>(numbers->Next()); });
  node.next_qpn = std::max(node.next_qpn, kFirstQpn + kRepeatedQpns) - kRepeatedQpns;
  for (const PortSpace space : {PortSpace::kTcp, PortSpace::kUdp}) {
    nic::cm::BindingId id{};
    const nic::cm::BindParameters binding{.space = space, .address = kAnyAddress, .port = kPort};
    if (node.manager->Bind(binding, id) != Result::kOk) Fail("bind");
    if (node.manager->Listen(id, conditions_.backlog) != Result::kOk) Fail("listen");
  }
}

std::string Simulation::Run() {
  while (fault_.empty()) {
    const Nanos next = NextMoment();
    if (next == kNever) break;
    now_ = std::max(now_, next);
    if (now_ > kLongestRun) return "hang";
    Arrival arrival;
    while (network_.TakeArrival(now_, arrival)) {
      Receive(arrival.host, arrival.frame->bytes());
      network_.GiveBack(std::move(arrival.frame));
    }
    while (!actions_.empty() && actions_.top().at <= now_) {
      const Action action = actions_.top();
      actions_.pop();
      Act(action);
    }
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].manager == nullptr || nodes_[i].manager->NextDeadline() > now_) continue;
      nodes_[i].manager->OnDeadline(now_);
      Flush(i);
    }
  }
  return fault_.empty() ? Judge() : fault_;
}

// A frame holds the number of its sender and a MAD.
void Simulation::Receive(uint32_t index, std::span<const uint8_t> frame) {
  Node& node = nodes_[index];
  if (node.manager == nullptr) return;
  node.manager->OnMad(RouteTo(index, frame[0]), frame.subspan(1), now_);
  Flush(index);
}

Nanos Simulation::NextMoment() const {
  Nanos next = network_.NextArrival();
  if (!actions_.empty()) next = std::min(next, actions_.top().at);
  for (const Node& node : nodes_) {
    if (node.manager != nullptr) next = std::min(next, node.manager->NextDeadline());
  }
  return next;
}

void Simulation::Act(const Action& action) {
  Node& node = nodes_[action.node];
  if (action.what == Do::kRestart) Start(action.node);
  if (node.manager == nullptr) return;
  // Actions of a former life are void, except new work: the next life does it.
  const bool is_new_work = action.what == Do::kConnect || action.what == Do::kResolve;
  if (action.life == node.life || is_new_work) OnProgram(action);
  if (node.manager != nullptr) Flush(action.node);
}

void Simulation::Die(Node& node) {
  node.manager.reset();
  node.ends.clear();
  node.resolutions.clear();
  node.died = true;
  ++node.life;
}

// Calls in a wrong state must be refused and change nothing; kills and peers cause such calls.
void Simulation::OnProgram(const Action& action) {
  Node& node = nodes_[action.node];
  nic::cm::Manager& manager = *node.manager;
  const auto found = node.ends.find(action.id);
  End* const end = found == node.ends.end() ? nullptr : found->second;
  switch (action.what) {
    case Do::kTake:
      manager.OnRequestTaken(action.id);
      break;
    case Do::kAccept:
      if (end == nullptr) break;
      if (manager.Accept(action.id, {.qp = NewQueuePair(action.node)}, now_) == Result::kOk) {
        end->accepted = true;
      }
      break;
    case Do::kReject:
      if (end == nullptr) break;
      if (manager.Reject(action.id, wire::RejReason::kConsumerDefined, {}) == Result::kOk) {
        end->rejected = true;
        Plan(After(100), action.node, Do::kDestroy, action.id);
      }
      break;
    case Do::kEstablish:
      if (end == nullptr || manager.Establish(action.id) != Result::kOk) break;
      end->established = true;
      if (random_.Happens(300)) {  // Data overtakes the RTU.
        Plan(now_ + Nanos(2'000), attempts_[action.attempt]->target, Do::kFirstPacket,
             manager.FindConnection(action.id)->remote_id());
      }
      Plan(After(Dawdles() ? 150'000 : 10'000), action.node, Do::kDisconnect, action.id);
      break;
    case Do::kFirstPacket:
      manager.OnFirstPacket(action.id);
      break;
    case Do::kDisconnect:
      if (end != nullptr && !end->ended()) end->leaves = true;
      manager.Disconnect(action.id, now_);
      break;
    case Do::kAnswer:
      manager.Answer(action.id, {.qpn = Qpn(77), .qkey = 0x01234567}, now_);
      break;
    case Do::kDestroy:
      manager.Destroy(action.id, now_);
      if (end != nullptr) end->Destroy();
      node.resolutions.erase(action.id);
      break;
    case Do::kConnect:
      return Connect(action.node, action.attempt);
    case Do::kResolve:
      return Resolve(action.node, action.attempt);
    case Do::kDie:
      return Die(node);
    case Do::kRestart:
      break;
  }
}

void Simulation::Connect(uint32_t index, uint32_t number) {
  Node& node = nodes_[index];
  Attempt& attempt = *attempts_[number];
  const uint16_t port = attempt.has_listener ? kPort : kUnusedPort;
  CommId id;
  const Result result = node.manager->Connect(
      {.route = RouteTo(index, attempt.target),
       .service = {PortSpace::kTcp, port},
       .source_port = static_cast<uint16_t>(number),
       .qp = attempt.claims ? ClaimedQueuePair(index, attempt.target) : NewQueuePair(index)},
      now_, id);
  if (result != Result::kOk) return Fail("connect");
  attempt.active.id = id;
  node.ends[id] = &attempt.active;
  by_request_[{index, id}] = number;
  ++summary_.connections;
  if (conditions_.kills && random_.Happens(50)) Plan(After(10'000), index, Do::kDestroy, id);
}

void Simulation::Resolve(uint32_t index, uint32_t number) {
  Attempt& attempt = *attempts_[number];
  attempt.active.destroyed = true;  // There is no connection to judge.
  CommId id;
  const Result result = nodes_[index].manager->Resolve(
      {.route = RouteTo(index, attempt.target), .service = {PortSpace::kUdp, kPort}}, now_, id);
  if (result != Result::kOk) return Fail("resolve");
  nodes_[index].resolutions[id] = false;
}

nic::cm::QueuePairParameters Simulation::NewQueuePair(uint32_t node) {
  return {.qpn = Qpn(nodes_[node].next_qpn++),
          .starting_psn = wire::Psn(static_cast<uint32_t>(random_.Next())),
          .local_ca_guid = 0xca00 + node};
}

// Acts as a program on a host that does not check who owns a queue pair.
nic::cm::QueuePairParameters Simulation::ClaimedQueuePair(uint32_t index, uint32_t target) {
  nic::cm::QueuePairParameters claimed = NewQueuePair(index);
  for (const auto& [id, end] : nodes_[index].ends) {
    const nic::cm::Connection* const connection = nodes_[index].manager->FindConnection(id);
    if (connection == nullptr || connection->state() != nic::cm::State::kEstablished) continue;
    if (connection->route().remote != AddressOf(target)) continue;
    claimed.qpn = connection->local_qpn();
    ++summary_.claims;
    break;
  }
  return claimed;
}

Route Simulation::RouteTo(uint32_t from, uint32_t to) const {
  return {.local = AddressOf(from), .remote = AddressOf(to)};
}

void Simulation::Flush(uint32_t index) {
  nic::cm::Manager& manager = *nodes_[index].manager;
  while (const auto event = manager.PollEvent()) OnEvent(index, *event);
  while (const auto datagram = manager.PollDatagram()) {
    const auto mad = wire::EncodeCm(datagram->message);
    std::unique_ptr<Frame> frame = network_.Take();
    frame->length_bytes = 1 + wire::kMadBytes;
    frame->room[0] = static_cast<uint8_t>(index);
    std::ranges::copy(mad, frame->room.begin() + 1);
    const uint32_t to = datagram->route.remote.bytes[15] - 1u;
    network_.Send(index, to, std::move(frame), now_);
    ++summary_.messages;
    if (datagram->message.attribute() == wire::CmAttribute::kMra) ++summary_.mras;
  }
}

void Simulation::OnEvent(uint32_t index, const Event& event) {
  Node& node = nodes_[index];
  if (event.kind == EventKind::kConnectRequest) return OnRequest(index, event);
  if (event.kind == EventKind::kResolveRequest) {
    Plan(After(1'000), index, Do::kTake, event.id);
    if (!random_.Happens(100)) Plan(After(3'000), index, Do::kAnswer, event.id);
    return Plan(After(5'000), index, Do::kDestroy, event.id);
  }
  if (const auto found = node.resolutions.find(event.id); found != node.resolutions.end()) {
    if (std::exchange(found->second, true)) return Fail("a resolution ended twice");
    if (event.kind == EventKind::kResolved) ++summary_.resolved;
    return Plan(After(100), index, Do::kDestroy, event.id);
  }
  const auto found = node.ends.find(event.id);
  if (found == node.ends.end()) return Fail("an event of an unknown id");
  OnEndEvent(index, *found->second, event);
}

// A program takes the request, and then answers after a time, which is mostly short.
void Simulation::OnRequest(uint32_t index, const Event& event) {
  const auto& req = std::get<wire::CmReq>(event.message.body);
  const uint32_t from = event.route.remote.bytes[15] - 1u;
  const auto wanted = by_request_.find({from, req.local_comm_id});
  if (wanted == by_request_.end()) return Fail("a request that no end made");
  End end{.node = index, .id = event.id};
  Attempt& attempt = *attempts_[wanted->second];
  // Ends of an attempt must not move in memory: `passive` has room for all there will be.
  if (attempt.passive.capacity() == 0) attempt.passive.reserve(32);
  if (attempt.passive.size() == attempt.passive.capacity()) return Fail("requests without end");
  attempt.passive.push_back(end);
  nodes_[index].ends[event.id] = &attempt.passive.back();
  Plan(After(500), index, Do::kTake, event.id);
  const Nanos answer = After(Dawdles() ? 30'000 : 1'000);
  const uint32_t mood = random_.Below(100);
  if (mood < 88) Plan(answer, index, Do::kAccept, event.id);
  if (mood >= 88 && mood < 95) Plan(answer, index, Do::kReject, event.id);
  if (mood >= 95) Plan(answer, index, Do::kDestroy, event.id);
  if (conditions_.kills && random_.Happens(50)) Plan(After(20'000), index, Do::kDestroy, event.id);
}

void Simulation::OnEndEvent(uint32_t index, End& end, const Event& event) {
  const std::string wrong = end.OnEvent(event.kind);
  if (!wrong.empty()) return Fail(wrong + ": " + end.ToString());
  if (event.kind == EventKind::kRejected) {
    end.reason = static_cast<uint16_t>(std::get<wire::CmRej>(event.message.body).reason);
  }
  if (event.kind == EventKind::kConnectReply) {
    const uint32_t mood = random_.Below(100);
    const Nanos answer = After(Dawdles() ? 20'000 : 500);
    const Do what = mood < 90 ? Do::kEstablish : mood < 95 ? Do::kReject : Do::kDestroy;
    return Plan(answer, index, what, event.id, by_request_.at({index, event.id}));
  }
  if (event.kind == EventKind::kEstablished) {
    ++summary_.established;
    // Some programs wait for the other side to end it, which it does, unless it is dead.
    if (!conditions_.death && random_.Happens(500)) return;
    return Plan(After(10'000), index, Do::kDisconnect, event.id);
  }
  if (event.kind == EventKind::kDisconnected) {
    end.timed_out = event.timed_out;
    // The program answers; some programs do not wait for the end of time wait.
    Plan(After(1'000), index, Do::kDisconnect, event.id);
    if (random_.Happens(300))
      Plan(After(3'000) + Nanos(1'000'000'000), index, Do::kDestroy, event.id);
    return;
  }
  if (event.kind == EventKind::kRejected) ++summary_.rejected;
  if (event.kind == EventKind::kUnreachable) ++summary_.unreachable;
  Plan(After(100), index, Do::kDestroy, event.id);
}

void Simulation::Fail(const std::string& fault) {
  if (fault_.empty()) fault_ = fault;
}

// Called when all programs are done and no message is under way.
std::string Simulation::Judge() const {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const nic::cm::Manager* const manager = nodes_[i].manager.get();
    if (manager == nullptr) continue;
    if (manager->size() != 0) {
      std::string text = "node " + std::to_string(i) + " keeps " + std::to_string(manager->size());
      manager->ForEachConnection([&](const nic::cm::Connection& connection) {
        text.append(" ").append(StateName(connection.state()));
      });
      return text;
    }
  }
  std::vector<uint64_t> busy;
  for (const Node& node : nodes_) {
    busy.push_back(node.manager == nullptr ? 0 : node.manager->counters().backlog_full);
  }
  for (size_t i = 0; i < attempts_.size(); ++i) {
    const Attempt& attempt = *attempts_[i];
    const bool lived = !nodes_[attempt.active.node].died && !nodes_[attempt.target].died;
    const std::string wrong = attempt.Judge(lived, busy[attempt.target]);
    if (!wrong.empty()) return "attempt " + std::to_string(i) + ": " + wrong;
  }
  return "";
}

void Simulation::AddTo(Summary& summary) const {
  summary.connections += summary_.connections;
  summary.established += summary_.established;
  summary.rejected += summary_.rejected;
  summary.unreachable += summary_.unreachable;
  summary.resolved += summary_.resolved;
  summary.messages += summary_.messages;
  summary.mras += summary_.mras;
  summary.claims += summary_.claims;
  for (const Node& node : nodes_) {
    if (node.manager == nullptr) continue;
    summary.retransmitted += node.manager->counters().retransmitted;
    summary.stale += node.manager->counters().stale;
  }
}

std::string RunAndMinimize(const Options& options, Summary& summary) {
  Simulation simulation(options);
  const std::string outcome = simulation.Run();
  simulation.AddTo(summary);
  if (outcome.empty()) return "";
  Options least = options;
  const auto keep = [&least](const Options& less) {
    const bool fails = !Simulation(less).Run().empty();
    if (fails) least = less;
    return fails;
  };
  for (uint32_t connections = 128; connections != 0; connections /= 2) {
    Options less = least;
    less.connections = std::min(connections, least.connections);
    if (!keep(less)) break;
  }
  for (uint32_t part = 1; part < Options::kAllParts; part <<= 1) {
    Options less = least;
    less.without |= part;
    keep(less);
  }
  return outcome + "\nthe least that fails: UROCE_CM_SIM=" + least.ToString() + "\n" +
         Simulation(least).Run();
}

}  // namespace uroce::sim::cm
