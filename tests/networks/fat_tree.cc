// SPDX-License-Identifier: Apache-2.0
#include "tests/networks/fat_tree.h"

#include <algorithm>

namespace uroce::networks {
namespace {

/// Ethernet, IPv4, UDP, BTH and ICRC; a WRITE's first packet has a RETH, its answer an AETH.
constexpr uint32_t kHeaderBytes = 14 + 20 + 8 + 12 + 4;
constexpr uint32_t kRethBytes = 16;
constexpr uint32_t kAethBytes = 4;
/// An adapter takes a packet when its line is free. A worker puts here what the line sends in some
/// of its turns.
constexpr uint32_t kHostQueueBytes = 16 * 1024;

}  // namespace

NetworkConfig FatTree::Config(const congestion::Settings& settings) const {
  const uint64_t scale = rate_bps / 25'000'000;  // Thousandths.
  const auto scaled = [&](uint64_t bytes) { return static_cast<uint32_t>(bytes * scale / 1'000); };
  const uint32_t tors = pods * racks_of_pod;
  const uint32_t aggregations = pods * kUplinks;
  fabric::SwitchConfig tor{.buffer_bytes = scaled(8'000'000)};
  tor.ecn = {.on = true,
             .min_bytes = scaled(100'000),
             .max_bytes = scaled(400'000),
             .max_probability = 0.2};
  if (pfc) {
    tor.buffer_bytes = scaled(24'000'000);
    tor.pfc = {.on = true, .xoff_bytes = scaled(1'000'000), .xon_bytes = scaled(990'000)};
  }
  fabric::SwitchConfig upper = tor;
  upper.ecn.min_bytes = scaled(400'000);
  upper.ecn.max_bytes = scaled(1'600'000);
  if (pfc) {
    upper.buffer_bytes = scaled(32'000'000);
    upper.pfc = {.on = true, .xoff_bytes = scaled(3'000'000), .xon_bytes = scaled(2'990'000)};
  }

  NetworkConfig config;
  config.switches.assign(tors, tor);
  config.switches.insert(config.switches.end(), aggregations + kUplinks * kUplinks, upper);
  config.settings = settings;
  config.link = {.rate_bps = rate_bps, .delay = kDelay, .host_queue_bytes = kHostQueueBytes};
  const fabric::LinkConfig trunk{.rate_bps = rate_bps * kUplinks, .delay = kDelay};
  for (uint32_t tor_number = 0; tor_number < tors; ++tor_number) {
    config.switch_of_nic.insert(config.switch_of_nic.end(), nics_of_rack, tor_number);
    for (uint32_t up = 0; up < kUplinks; ++up) {
      const uint32_t aggregation = tors + tor_number / racks_of_pod * kUplinks + up;
      config.trunks.push_back({tor_number, aggregation, trunk});
    }
  }
  for (uint32_t aggregation = 0; aggregation < aggregations; ++aggregation) {
    for (uint32_t up = 0; up < kUplinks; ++up) {
      const uint32_t core = tors + aggregations + aggregation % kUplinks * kUplinks + up;
      config.trunks.push_back({tors + aggregation, core, trunk});
    }
  }
  return config;
}

uint32_t FatTree::LinksBetween(uint32_t from, uint32_t to) const {
  const uint32_t from_rack = from / nics_of_rack, to_rack = to / nics_of_rack;
  if (from_rack == to_rack) return 2;
  return from_rack / racks_of_pod == to_rack / racks_of_pod ? 4 : 6;
}

Nanos FatTree::IdleTime(uint32_t from, uint32_t to, uint32_t bytes, uint32_t mtu_bytes) const {
  const uint32_t packets = std::max(1u, (bytes + mtu_bytes - 1) / mtu_bytes);
  const uint32_t last = bytes - (packets - 1) * mtu_bytes + kHeaderBytes;
  const uint64_t all = uint64_t{packets - 1} * fabric::WireBytes(mtu_bytes + kHeaderBytes) +
                       fabric::WireBytes(last) + kRethBytes;
  const uint32_t links = LinksBetween(from, to);
  // A NIC's link at both ends, faster ones between them.
  const auto passes = [&](uint32_t wire_bytes) {
    return wire_bytes * (1.0 + static_cast<double>(links - 2) / kUplinks);
  };
  const double on_lines = static_cast<double>(all) + passes(fabric::WireBytes(last)) +
                          fabric::WireBytes(kHeaderBytes + kAethBytes) +
                          passes(fabric::WireBytes(kHeaderBytes + kAethBytes));
  const double nanos = on_lines * 8e9 / static_cast<double>(rate_bps);
  return Nanos(static_cast<int64_t>(nanos) + 2 * int64_t{links} * kDelay.count());
}

}  // namespace uroce::networks
