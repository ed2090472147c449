// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/model/traffic.h"

#include <algorithm>
#include <utility>

namespace uroce::tools::sim {
namespace {

transport::WorkOpcode OpcodeOf(Operation operation) {
  switch (operation) {
    case Operation::kWrite:
      return transport::WorkOpcode::kWrite;
    case Operation::kRead:
      return transport::WorkOpcode::kRead;
    case Operation::kSend:
      break;
  }
  return transport::WorkOpcode::kSend;
}

}  // namespace

Traffic::Traffic(const std::vector<FlowPlan>& plans, const std::vector<PacketEvent>& events)
    : plans_(plans), states_(plans.size()) {
  for (uint32_t flow = 0; flow < plans.size(); ++flow) {
    states_[flow].waits_for = plans[flow].waits_for;
    to_end_ += !plans[flow].is_endless();
    if (plans[flow].waits_for == 0) due_.push({plans[flow].start, flow, false});
    if (plans[flow].stop != kNever) due_.push({plans[flow].stop, flow, true});
  }
  for (const PacketEvent& each : events) script_[each.flow][each.packet] = each.is_lost;
}

void Traffic::RunDue() {
  while (!due_.empty() && due_.top().at <= cluster_->now()) {
    const Due due = due_.top();
    due_.pop();
    if (!due.is_stop) {
      Start(due.flow);
    } else if (states_[due.flow].phase == FlowState::Phase::kRunning &&
               states_[due.flow].under_way == 0) {
      End(due.flow, FlowState::Phase::kFinished, transport::WcStatus::kSuccess);
    }
  }
}

void Traffic::Start(uint32_t flow) {
  const FlowPlan& plan = plans_[flow];
  FlowState& state = states_[flow];
  state.phase = FlowState::Phase::kRunning;
  state.started = cluster_->now();
  ++running_;
  const bool reads = plan.operation == Operation::kRead;
  state.connection =
      cluster_->Connect(reads ? plan.to : plan.from, reads ? plan.from : plan.to, flow);
  if (const auto script = script_.find(flow); script != script_.end()) {
    cluster_->WaitForPacket(state.connection, reads, script->second.begin()->first);
  }
  PostMore(flow);
}

void Traffic::PostMore(uint32_t flow) {
  const FlowPlan& plan = plans_[flow];
  FlowState& state = states_[flow];
  if (plan.stop <= cluster_->now()) return;
  while (state.under_way < plan.depth) {
    const uint64_t left = plan.is_endless() ? plan.message_bytes : plan.bytes - state.posted_bytes;
    if (left == 0) return;
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(left, plan.message_bytes));
    ++state.under_way;
    state.posted_bytes += bytes;
    if (plan.is_endless()) state.posted_at.push_back(cluster_->now());
    cluster_->Post(state.connection, OpcodeOf(plan.operation), bytes);
  }
}

void Traffic::OnCompletion(uint32_t connection, transport::WcStatus status, Nanos now) {
  const auto flow = static_cast<uint32_t>(cluster_->connection(connection).tag);
  FlowState& state = states_[flow];
  if (state.phase != FlowState::Phase::kRunning) return;  // Works that an error flushes.
  --state.under_way;
  if (status != transport::WcStatus::kSuccess) return End(flow, FlowState::Phase::kFailed, status);
  const FlowPlan& plan = plans_[flow];
  if (plan.is_endless()) {
    const Nanos posted = state.posted_at.front();
    state.posted_at.erase(state.posted_at.begin());
    if (is_measuring_ && latencies_.size() < kMostLatencies) latencies_.push_back(now - posted);
  }
  PostMore(flow);
  if (state.under_way == 0) End(flow, FlowState::Phase::kFinished, status);
}

void Traffic::End(uint32_t flow, FlowState::Phase phase, transport::WcStatus status) {
  FlowState& state = states_[flow];
  state.delivered_bytes = Delivered(flow);
  state.phase = phase;
  state.status = status;
  state.ended = cluster_->now();
  --running_;
  ++ended_;
  to_end_ -= !plans_[flow].is_endless();
  cluster_->Disconnect(state.connection);
  for (const uint32_t next : plans_[flow].then) {
    if (--states_[next].waits_for != 0) continue;
    due_.push({cluster_->now() + plans_[next].start, next, false});
    cluster_->Interrupt();
  }
  if (is_done()) cluster_->Interrupt();
}

uint64_t Traffic::Delivered(uint32_t flow) const {
  const FlowState& state = states_[flow];
  if (state.phase != FlowState::Phase::kRunning) return state.delivered_bytes;
  const Connection& its = cluster_->connection(state.connection);
  const bool reads = plans_[flow].operation == Operation::kRead;
  return (reads ? its.requester : its.responder)->received_bytes;
}

void Traffic::BeginMeasuring() {
  is_measuring_ = true;
  for (uint32_t flow = 0; flow < plans_.size(); ++flow) {
    states_[flow].delivered_before = Delivered(flow);
  }
}

void Traffic::NoteDelivered() {
  for (uint32_t flow = 0; flow < plans_.size(); ++flow) {
    states_[flow].delivered_bytes = Delivered(flow);
  }
}

ConnectionUser::PacketFate Traffic::OnScriptedPacket(uint32_t connection, uint64_t packet) {
  const auto flow = static_cast<uint32_t>(cluster_->connection(connection).tag);
  const std::map<uint64_t, bool>& script = script_[flow];
  const auto at = script.find(packet);
  const auto next = std::next(at);
  return {.is_lost = at->second,
          .is_marked = !at->second,
          .next = next == script.end() ? QueuePair::kNoPacket : next->first};
}

}  // namespace uroce::tools::sim
