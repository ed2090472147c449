// SPDX-License-Identifier: Apache-2.0
// One end of a simulated connection: a shell around a queue pair whose memory is byte arrays.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "pipeline/transport/rc_queue_pair.h"
#include "tests/sim/link.h"
#include "tests/sim/random.h"
#include "tests/sim/remote_memory.h"
#include "tests/sim/workload.h"

namespace uroce::sim {

/// Executes a workload against its peer, serves the peer's, and notes the first thing that is
/// wrong.
class Endpoint {
 public:
  Endpoint(const transport::RcConfig& config, RemoteMemory& memory, uint64_t seed);

  void Connect(const transport::RcAttributes& attributes);
  void SetWorkload(const Workload* own, const Workload* peers);

  /// One turn of a worker: a burst in, packets out, completions. Returns when it wants the next
  /// turn at the latest.
  Nanos Turn(Nanos now, Link& in, Link& out);

  bool finished() const;
  /// Empty while all is well.
  const std::string& fault() const { return fault_; }
  std::string Describe() const;
  const transport::RcCounters& counters() const { return qp_.counters(); }
  /// After the end: memory holds what the model says.
  void CheckMemory(const RemoteMemory& target);

 private:
  void PostWorks();
  void RefillReceives(Nanos now);
  void OnFrame(const Frame& frame, Nanos now);
  transport::EffectOutcome Execute(const transport::Effect& effect, const Frame& frame,
                                   uint64_t& original);
  transport::EffectOutcome ExecuteRemote(const transport::Effect& effect, const Frame& frame,
                                         uint64_t& original);
  void SendPackets(Nanos now, Link& out);
  Frame FrameOf(const transport::TxPacket& packet);
  void PollCompletions();
  void OnSendCompletion(const transport::Completion& completion);
  void OnReceiveCompletion(const transport::Completion& completion);
  bool TakeInvalidated(uint32_t rkey);
  void Fault(const std::string& what);

  transport::RcQueuePair qp_;
  RemoteMemory& memory_;  ///< Ours, that the peer reaches.
  Random random_;
  bool signal_all_;

  const Workload* plan_ = nullptr;
  std::vector<std::vector<uint8_t>> local_;  ///< Local bytes of each of our works.
  uint32_t posted_ = 0;
  uint32_t next_completion_ = 0;  ///< Lowest slot that has no completion yet.

  const Workload* peers_plan_ = nullptr;
  std::deque<transport::ReceiveWork> receive_queue_;
  std::vector<std::vector<uint8_t>> receive_buffers_;
  uint32_t received_ = 0;
  Nanos next_refill_{0};
  std::deque<uint32_t> invalidated_;
  std::string fault_;
};

}  // namespace uroce::sim
