// SPDX-License-Identifier: Apache-2.0
// One end of a simulated unreliable connection.
#pragma once

#include "pipeline/transport/unreliable_queue_pair.h"
#include "tests/sim/parties/remote_memory.h"
#include "tests/sim/parties/unreliable_party.h"

namespace uroce::sim {

class UcParty : public UnreliableParty<transport::UcQueuePair> {
 public:
  UcParty(uint32_t host, const transport::UnreliableConfig& config,
          const transport::QueuePairAttributes& attributes, RemoteMemory& memory, ReceivePool& pool,
          const Path& path, const NetworkFaults& faults, uint64_t seed);

  /// Plans `count` messages to `peer`. WRITEs go to disjoint ranges of its memory.
  void Plan(uint32_t count, UcParty& peer);

  void OnFrame(const ReceivedFrame& frame, Nanos now) override;
  void Judge() override;

 protected:
  Path& PathOf(const transport::TxPacket&) override { return path_; }
  void OnReceived(const transport::Completion& completion) override;

 private:
  Message PlanMessage(uint32_t index);
  /// False when some byte had been written before.
  bool WriteOnce(uint64_t va, std::span<const uint8_t> data);
  bool Holds(const Message& message, uint64_t va) const;

  RemoteMemory& memory_;  ///< Our memory, which the peer accesses.
  std::vector<uint8_t> initial_;
  std::vector<uint8_t> written_;  ///< 1 for each byte that was written.
  Path path_;
  NetworkFaults faults_;
  UcParty* peer_ = nullptr;
  uint64_t next_va_ = RemoteMemory::kBase;
  uint32_t next_index_ = 0;  ///< The lowest index that may come next.
};

}  // namespace uroce::sim
