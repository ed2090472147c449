// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a frame on its way from one NIC to another: over the in-process wire, over
// one switch, and over three switches. Virtual time, one thread.
#include <benchmark/benchmark.h>
#include <rte_mbuf.h>

#include <cstring>
#include <memory>
#include <vector>

#include "drivers/cable/cable_port.h"
#include "drivers/dpdk/eal.h"
#include "drivers/switch/switch_port.h"

namespace uroce::drivers {
namespace {

constexpr uint16_t kBurst = 32;
constexpr uint32_t kFrameBytes = 4154;

rte_mempool* Pool() {
  static rte_mempool* const pool = [] {
    if (!InitEal({.memory_mib = 64}).ok()) std::abort();
    return MakePool("bench", 4352, 4096).value();
  }();
  return pool;
}

Mac MacOf(uint32_t nic) { return {2, 0, 0, 0, 0, static_cast<uint8_t>(nic)}; }

/// An IPv4 UDP frame to NIC 1.
rte_mbuf* MakeFrame() {
  rte_mbuf* const frame = rte_pktmbuf_alloc(Pool());
  frame->data_len = kFrameBytes;
  frame->pkt_len = kFrameBytes;
  auto* const bytes = rte_pktmbuf_mtod(frame, uint8_t*);
  std::memset(bytes, 0, kFrameBytes);
  const Mac mac = MacOf(1);
  std::memcpy(bytes, mac.data(), mac.size());
  bytes[12] = 8;
  bytes[14] = 0x45;
  bytes[15] = 2;
  bytes[23] = 17;
  return frame;
}

/// Sends bursts from `from` to `to`, with a frame's time at 100 Gb/s between frames; reuses the
/// frames.
void PassBursts(benchmark::State& state, Port& from, Port& to) {
  std::vector<rte_mbuf*> frames;
  for (int i = 0; i < kBurst; ++i) frames.push_back(MakeFrame());
  Nanos now{0};
  for (auto _ : state) {
    uint16_t sent = 0, received = 0;
    while (received < kBurst) {
      sent += from.TransmitBurst(0, frames.data() + sent, kBurst - sent, now);
      now = now + Nanos(10'000);
      received += to.ReceiveBurst(0, frames.data() + received, kBurst - received, now);
    }
  }
  rte_pktmbuf_free_bulk(frames.data(), kBurst);
  state.SetItemsProcessed(state.iterations() * kBurst);
}

void ByWire(benchmark::State& state) {
  Pool();
  const auto wire = MakeCable({}, {});
  PassBursts(state, *wire->first, *wire->second);
}
BENCHMARK(ByWire);

/// NICs 0 and 1 at the ends of a row of switches, and idle NICs beside them.
void BySwitches(benchmark::State& state) {
  const auto switches = static_cast<uint32_t>(state.range(0));
  SwitchNetworkConfig config{.switches = {}, .trunks = {}, .nics = {}};
  const fabric::LinkConfig link{.delay = Nanos(1'000), .host_queue_bytes = 1 << 20};
  for (uint32_t i = 0; i < switches; ++i) {
    config.switches.push_back({.ecn = {.on = true, .min_bytes = 100'000, .max_bytes = 400'000}});
    if (i != 0) config.trunks.push_back({i - 1, i, link});
  }
  for (uint32_t nic = 0; nic < 8; ++nic) {
    config.nics.push_back(
        {.mac = MacOf(nic), .switch_index = nic == 0 ? 0 : switches - 1, .link = link});
  }
  const auto network = std::make_shared<SwitchNetwork>(config, Pool());
  SwitchPort from(network, 0), to(network, 1);
  PassBursts(state, from, to);
}
BENCHMARK(BySwitches)->Arg(1)->Arg(3);

}  // namespace
}  // namespace uroce::drivers
