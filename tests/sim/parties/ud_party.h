// SPDX-License-Identifier: Apache-2.0
// One simulated datagram queue pair, which sends to all others.
#pragma once

#include <vector>

#include "pipeline/transport/unreliable_queue_pair.h"
#include "tests/sim/parties/unreliable_party.h"

namespace uroce::sim {

class UdParty : public UnreliableParty<transport::UdQueuePair> {
 public:
  static constexpr uint32_t kQkey = 0x1234;

  UdParty(uint32_t host, Qpn qpn, const transport::UnreliableConfig& config,
          const transport::QueuePairAttributes& attributes, ReceivePool& pool, bool ipv6,
          const NetworkFaults& faults, uint64_t seed);

  /// Plans `count` datagrams to `parties`, which are all parties of the network.
  void Plan(uint32_t count, Network& network, const std::vector<UdParty*>& parties);
  Qpn qpn() const { return qpn_; }

  void OnFrame(const ReceivedFrame& frame, Nanos now) override;
  void Judge() override;

 protected:
  Path& PathOf(const transport::TxPacket& packet) override { return paths_[packet.path]; }
  void OnReceived(const transport::Completion& completion) override;

 private:
  Message PlanMessage(uint32_t index);
  const UdParty* SenderOf(const transport::Completion& completion) const;

  Qpn qpn_;
  bool ipv6_;
  NetworkFaults faults_;
  std::vector<UdParty*> parties_;
  std::vector<Path> paths_;  ///< To each party, in their order.
};

}  // namespace uroce::sim
