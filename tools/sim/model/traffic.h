// SPDX-License-Identifier: Apache-2.0
// The flows of a simulation: who sends what to whom and when, and how long it took.
#pragma once

#include <cstdint>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/transport/work.h"
#include "tools/sim/model/cluster.h"

namespace uroce::tools::sim {

enum class Operation : uint8_t { kWrite, kRead, kSend };

/// A flow: messages of one connection, which is new. Its data go from `from` to `to`; with kRead it
/// is `to` that asks for them.
struct FlowPlan {
  uint32_t group = 0;  ///< Of the scenario's workloads.
  uint32_t from = 0, to = 0;
  Operation operation = Operation::kWrite;
  uint64_t bytes = 0;                 ///< 0: without end.
  uint32_t message_bytes = 1u << 20;  ///< The most of a message.
  uint32_t depth = 1;                 ///< Messages under way.
  Nanos start{0};       ///< With `waits_for`: the time behind the end of the last of those flows.
  Nanos stop = kNever;  ///< When a flow without end posts no more.
  uint32_t waits_for = 0;      ///< How many flows must have ended before.
  std::vector<uint32_t> then;  ///< The flows that wait for this one.

  bool is_endless() const { return bytes == 0; }
};

/// What happens to data packet `packet` of a flow, counted from 1.
struct PacketEvent {
  uint32_t flow = 0;
  uint64_t packet = 1;
  bool is_lost = false;  ///< Otherwise it is marked.
};

/// A flow that has begun.
struct FlowState {
  enum class Phase : uint8_t { kWaiting, kRunning, kFinished, kFailed };
  Phase phase = Phase::kWaiting;
  uint32_t connection = 0;
  uint32_t under_way = 0;
  uint32_t waits_for = 0;
  uint64_t posted_bytes = 0;
  Nanos started{0};
  Nanos ended{0};
  transport::WcStatus status = transport::WcStatus::kSuccess;
  uint64_t delivered_bytes = 0;   ///< At the end of the flow, or of the measured time.
  uint64_t delivered_before = 0;  ///< Before the measured time.
  std::vector<Nanos> posted_at;   ///< Of the messages under way, the oldest first.
};

/// Starts flows and keeps them going. One thread; used with one cluster.
class Traffic final : public ConnectionUser {
 public:
  /// The most latencies of messages that are kept of all endless flows.
  static constexpr size_t kMostLatencies = 1u << 20;

  Traffic(const std::vector<FlowPlan>& plans, const std::vector<PacketEvent>& events);

  void Attach(Cluster& cluster) { cluster_ = &cluster; }
  /// When the next flow begins or stops; kNever when none does by itself.
  Nanos next() const { return due_.empty() ? kNever : due_.top().at; }
  /// Starts and stops what is due at the cluster's time.
  void RunDue();
  /// The measured time begins: endless flows count from here on.
  void BeginMeasuring();
  /// Notes what all running flows have delivered by now.
  void NoteDelivered();

  /// Whether all flows with an end have ended.
  bool is_done() const { return to_end_ == 0; }
  const std::vector<FlowPlan>& plans() const { return plans_; }
  const std::vector<FlowState>& states() const { return states_; }
  uint32_t running() const { return running_; }
  uint64_t ended() const { return ended_; }
  /// New payload that a running flow has delivered.
  uint64_t Delivered(uint32_t flow) const;
  /// From post to completion, of the messages of endless flows in the measured time.
  const std::vector<Nanos>& latencies() const { return latencies_; }

  void OnCompletion(uint32_t connection, transport::WcStatus status, Nanos now) override;
  PacketFate OnScriptedPacket(uint32_t connection, uint64_t packet) override;

 private:
  struct Due {
    Nanos at;
    uint32_t flow;
    bool is_stop;
    bool operator<(const Due& other) const {  // The top of a queue is its greatest element.
      return at != other.at ? at > other.at : flow > other.flow;
    }
  };

  void Start(uint32_t flow);
  void PostMore(uint32_t flow);
  void End(uint32_t flow, FlowState::Phase phase, transport::WcStatus status);

  const std::vector<FlowPlan>& plans_;
  std::map<uint32_t, std::map<uint64_t, bool>>
      script_;  ///< By flow and packet: whether it is lost.
  std::vector<FlowState> states_;
  std::priority_queue<Due> due_;
  Cluster* cluster_ = nullptr;
  uint64_t to_end_ = 0;
  uint32_t running_ = 0;
  uint64_t ended_ = 0;
  bool is_measuring_ = false;
  std::vector<Nanos> latencies_;
};

}  // namespace uroce::tools::sim
