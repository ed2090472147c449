// SPDX-License-Identifier: Apache-2.0
// One end of a simulated reliable connection, extended (XRC) or not: a shell around a queue pair
// whose memory is byte arrays. Every work must be executed exactly once and in order, or fail as
// the plan foretells.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/transport/rc_queue_pair.h"
#include "tests/sim/order_judge.h"
#include "tests/sim/parties/party.h"
#include "tests/sim/parties/receive_pool.h"
#include "tests/sim/parties/remote_memory.h"
#include "tests/sim/parties/workload.h"
#include "tests/sim/random.h"
#include "tests/transport/script/kept_copies.h"

namespace uroce::sim {

struct RcPartyConfig {
  transport::RcConfig core;
  bool bounds_reads = false;  ///< READs need an allowance (pipeline/transport/send_queue.h).
  bool offers_credits = false;
  bool may_fail = false;  ///< A plan has an illegal work, or a host will die.
  bool may_die = false;   ///< A host will die.
  bool has_room = false;  ///< It keeps all packets behind gaps; otherwise it refuses some.
  bool agreed = false;    ///< What is believed of the peer; the belief may be wrong.
};

class RcParty : public Party {
 public:
  RcParty(uint32_t host, const RcPartyConfig& config, RemoteMemory& memory, ReceivePool& pool,
          const Path& path, uint64_t seed);

  void Connect(const transport::QueuePairAttributes& attributes);
  /// Resets the queue pair, with all works under way, and connects it with another queue pair of
  /// the peer's host. The caller calls SetPeer next.
  void Reconnect(Qpn peer, wire::Psn sq_psn, wire::Psn rq_psn);
  void SetPeer(const Workload* own, const RcParty* peer, const Workload* peers);

  void OnFrame(const ReceivedFrame& frame, Nanos now) override;
  Nanos Turn(Nanos now) override;
  bool finished() const override;
  void Judge() override;
  std::string Describe() const override;
  const transport::QueuePairCounters& counters() const { return qp_.counters(); }
  wire::Psn expected_psn() const { return qp_.expected_psn(); }

 private:
  void OnDeadline(Nanos now);
  /// Whether retries may run out: in each of the last timeouts in a row the network has lost a
  /// frame.
  bool unlucky() const { return unlucky_timeouts_ >= attributes_.retry_count; }
  bool ended() const { return ended_ || dead(); }
  /// Whether its own illegal work ended it, not the peer's silence.
  bool foretold_end() const { return foretold_end_; }
  void PostWorks();
  void DoLocalWorks();
  void PauseSending();
  /// The peer's NIC agrees now, or agrees no longer.
  void ChangeCapabilities();
  void Receive(const wire::Packet& packet, Nanos now);
  void ReplayKept(Nanos now);
  /// Keeps a packet behind a hole. Sometimes refuses, as for want of room.
  transport::EffectOutcome Keep(const wire::Packet& packet);
  transport::EffectOutcome Execute(const transport::Effect& effect, const wire::Packet& packet,
                                   uint64_t& original);
  transport::EffectOutcome PlaceLocal(const transport::Effect& effect, const wire::Packet& packet);
  transport::EffectOutcome ExecuteRemote(const transport::Effect& effect,
                                         const wire::Packet& packet, uint64_t& original);
  /// Returns the value before the atomic.
  uint64_t ExecuteAtomic(const transport::Effect& effect);
  /// Lets a READ that waits ask for its data, or has it wait on.
  void AllowReads();
  void SendPackets(Nanos now);
  /// False: the bytes cannot be read.
  bool SendPacket(const transport::TxPacket& packet, Nanos now);
  void PollCompletions();
  void OnSendCompletion(const transport::Completion& completion);
  void OnSendError(const transport::Completion& completion);
  void OnReceiveCompletion(const transport::Completion& completion);
  void TakeReceive(uint32_t slot);
  void OnReceiveError(const transport::Completion& completion);
  void JudgeResult(uint32_t index);
  bool TakeInvalidated(uint32_t rkey);

  RcPartyConfig config_;
  transport::RcQueuePair qp_;
  RemoteMemory& memory_;  ///< Our memory, which the peer accesses.
  ReceivePool& pool_;
  Path path_;
  Random random_;
  transport::QueuePairAttributes attributes_;
  const RcParty* peer_ = nullptr;

  const Workload* plan_ = nullptr;
  std::vector<std::vector<uint8_t>> local_;  ///< Local bytes of each of our works.
  uint32_t posted_ = 0;
  uint32_t next_completion_ = 0;  ///< The lowest slot without a completion.
  bool ended_ = false;            ///< One of our works has completed in error.
  bool foretold_end_ = false;
  uint64_t lost_frames_ = 0;      ///< Frames lost on the way to the peer.
  uint64_t lost_at_timeout_ = 0;  ///< Both ways, when the ACK timer ran out last.
  uint32_t unlucky_timeouts_ = 0;
  bool local_under_way_ = false;
  uint32_t local_slot_ = 0;

  const Workload* peers_plan_ = nullptr;
  std::optional<OrderJudge> judge_;  ///< Judges what the peer's works do here.
  uint32_t received_ = 0;
  uint32_t next_receive_ = 0;  ///< The lowest slot that may complete next.
  bool receive_ended_ = false;
  std::deque<uint32_t> invalidated_;
  transport::KeptCopies kept_;
};

}  // namespace uroce::sim
