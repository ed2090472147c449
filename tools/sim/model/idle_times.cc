// SPDX-License-Identifier: Apache-2.0
// How long a flow takes on an idle network.
#include <algorithm>
#include <cmath>

#include "pipeline/fabric/fabric_config.h"
#include "tools/sim/model/run.h"

namespace uroce::tools::sim {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr double kNanosPerSecond = 1e9;

/// Bits on the line of a frame with `payload_bytes` behind headers of `opcode`.
double BitsOf(wire::Opcode opcode, uint32_t payload_bytes) {
  return 8.0 * fabric::WireBytes(FrameBytes(wire::InfoOf(opcode), payload_bytes));
}

}  // namespace

IdleTimes::IdleTimes(const Network& network)
    : network_(network), trunks_of_(network.switches.size()), towards_(network.switches.size()) {
  for (uint32_t i = 0; i < network.trunks.size(); ++i) {
    trunks_of_[network.trunks[i].first].push_back(i);
    trunks_of_[network.trunks[i].second].push_back(i);
  }
}

IdleTimes::Path IdleTimes::PathBetween(uint32_t from, uint32_t to) const {
  const uint32_t target = network_.hosts[to].switch_index;
  std::vector<uint32_t>& towards = towards_[target];
  const auto other_end = [&](uint32_t trunk, uint32_t at) {
    const Network::Trunk& its = network_.trunks[trunk];
    return its.first == at ? its.second : its.first;
  };
  if (towards.empty()) {
    towards.assign(network_.switches.size(), kNone);
    std::vector<uint32_t> reached{target};
    for (size_t i = 0; i < reached.size(); ++i) {
      for (const uint32_t trunk : trunks_of_[reached[i]]) {
        const uint32_t next = other_end(trunk, reached[i]);
        if (next == target || towards[next] != kNone) continue;
        towards[next] = trunk;
        reached.push_back(next);
      }
    }
  }
  Path path{.slowest_bps = 1e300};
  const auto pass = [&](const fabric::LinkConfig& link) {
    const auto bps = static_cast<double>(link.rate_bps);
    path.delay = path.delay + link.delay;
    path.slowest_bps = std::min(path.slowest_bps, bps);
    path.nanos_per_bit += kNanosPerSecond / bps;
  };
  pass(network_.hosts[from].link);
  for (uint32_t at = network_.hosts[from].switch_index; at != target && towards[at] != kNone;
       at = other_end(towards[at], at)) {
    pass(network_.trunks[towards[at]].link);
  }
  pass(network_.hosts[to].link);
  return path;
}

Nanos IdleTimes::Of(const FlowPlan& flow) const {
  const Path path = PathBetween(flow.from, flow.to);
  const uint32_t mtu_bytes =
      std::min(network_.hosts[flow.from].nic.mtu_bytes, network_.hosts[flow.to].nic.mtu_bytes);
  const uint64_t packets = std::max<uint64_t>(1, (flow.bytes + mtu_bytes - 1) / mtu_bytes);
  const auto last_bytes = static_cast<uint32_t>(flow.bytes - (packets - 1) * mtu_bytes);
  const bool reads = flow.operation == Operation::kRead;
  const wire::Opcode middle =
      reads ? wire::Opcode::kReadResponseMiddle : wire::Opcode::kWriteMiddle;
  const wire::Opcode back = reads ? wire::Opcode::kReadRequest : wire::Opcode::kAcknowledge;
  const double before = static_cast<double>(packets - 1) * BitsOf(middle, mtu_bytes) *
                        kNanosPerSecond / path.slowest_bps;
  const double nanos = before + path.nanos_per_bit * (BitsOf(middle, last_bytes) + BitsOf(back, 0));
  return Nanos(static_cast<int64_t>(nanos)) + path.delay * 2;
}

}  // namespace uroce::tools::sim
