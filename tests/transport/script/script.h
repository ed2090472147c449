// SPDX-License-Identifier: Apache-2.0
// A queue pair under a script: what goes in and must come out, at stated times, as text.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/transport/rc_queue_pair.h"
#include "tests/transport/script/kept_copies.h"

namespace uroce::transport {

using Texts = std::vector<std::string>;

struct ScriptConfig {
  uint32_t sq_psn = 0x100;
  uint32_t rq_psn = 0x200;
  uint32_t path_mtu = 1024;
  uint8_t timeout = 14;  ///< 67'108'864 ns
  uint8_t retry_count = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 12;  ///< 640'000 ns
  uint8_t max_rd_atomic = 16;
  uint8_t max_dest_rd_atomic = 16;
  bool remote_access = true;  ///< All three rights of the queue pair.
  bool signal_all = true;
  bool notify_drained = true;
  uint32_t max_send_works = 128;
  uint32_t max_in_flight_packets = 256;
  QpState state = QpState::kRts;
  bool shared_receive = false;
  wire::Service service = wire::Service::kRc;
  RcRole role = RcRole::kBoth;
  bool selective_repeat = false;
  bool agreed = false;  ///< The peer's NIC has agreed to that.
  const congestion::Environment* congestion = nullptr;
};

/// Runs the shell's contract on one queue pair. Times are nanoseconds. Every expectation covers all
/// there is: a packet or completion too many fails like one too few.
class Script {
 public:
  explicit Script(const ScriptConfig& config = {});

  /// Time goes on; deadlines on the way are met.
  Script& At(int64_t now_ns);
  Script& Post(SendWork work);
  /// Adds a receive work to the RQ, from which the core is fed as it asks.
  Script& PostReceive(uint32_t length_bytes = 4096, bool malformed = false);
  /// A packet arrives, in the text of packet_text.h, and its effect ends as told.
  Script& Receive(const std::string& text);
  /// How the next effect ends, and what an atomic finds in memory.
  Script& NextOutcome(EffectOutcome outcome);
  Script& Memory(uint64_t value);
  /// The payload of the packet sent last could not be read.
  Script& GatherFails();
  Script& Modify(QpState state);
  /// What is believed of the peer's NIC changes.
  Script& Agree(bool agreed);
  /// The SRQ that the next packet names is out of its reach.
  Script& DenySrq();
  /// How many receive works the shell tells of.
  Script& Offers(uint32_t receives);
  /// It is the turn of this local work: "bind 0", "invalidate 0 2a"; "" for none. It goes on until
  /// LocalEnds.
  Script& Local(const std::string& effect);
  Script& LocalEnds(EffectOutcome outcome = EffectOutcome::kDone);

  /// All packets that can leave now.
  Script& Sends(const Texts& packets);
  /// One packet, although more may follow.
  Script& SendsNext(const std::string& packet);
  Script& Quiet() { return Sends({}); }
  /// All completions: "slot OPCODE STATUS", a receive with " len=" and, if any, " imm=", " inv=".
  Script& Completes(const Texts& completions);
  Script& Nothing() { return Completes({}); }
  Script& Raises(const std::vector<QpEvent>& events);
  /// What the last Receive was, and did to memory ("" for nothing).
  Script& Result(PacketResult result);
  Script& Does(const std::string& effect);
  /// What the packets did that were given back after it: each Receive gives back all whose turn it
  /// is.
  Script& ThenDoes(const Texts& effects);
  Script& Deadline(Nanos deadline);
  Script& State(QpState state);

  RcQueuePair& qp() { return qp_; }
  const QueuePairCounters& counters() const { return qp_.counters(); }
  const TxPacket& sent() const { return sent_; }

 private:
  std::string Where() const;
  void FeedReceive();
  /// Takes one packet, for the first time or again, and says what it did.
  std::string Take(const wire::Packet& packet);
  void Execute(const Effect& effect, const wire::Packet& packet);
  std::optional<std::string> PollText();

  wire::Service service_;
  bool shared_receive_;
  QueuePairAttributes attributes_;
  RcQueuePair qp_;
  Nanos now_;
  uint32_t next_send_slot_ = 0;
  uint32_t next_receive_slot_ = 0;
  std::deque<ReceiveWork> receives_;
  bool deny_ = false;
  EffectOutcome outcome_ = EffectOutcome::kDone;
  uint64_t memory_ = 0;
  TxPacket sent_;
  PacketResult result_ = PacketResult::kAccepted;
  std::string effect_;
  Texts replayed_;
  KeptCopies kept_;
};

// Works in short.
SendWork Send(uint32_t length_bytes);
SendWork SendImm(uint32_t length_bytes, uint32_t immediate);
SendWork SendInvalidate(uint32_t length_bytes, uint32_t rkey);
SendWork Write(uint32_t length_bytes, uint64_t va = 0x1000);
SendWork WriteImm(uint32_t length_bytes, uint32_t immediate);
SendWork Read(uint32_t length_bytes, uint64_t va = 0x1000);
SendWork FetchAdd(uint64_t add);
SendWork CompareSwap(uint64_t compare, uint64_t swap);
SendWork AtomicWrite();
SendWork Bind();
SendWork LocalInvalidate(uint32_t rkey);

}  // namespace uroce::transport
