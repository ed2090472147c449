// SPDX-License-Identifier: Apache-2.0
// A wire for tests: two ports on one thread, and a say in what becomes of each frame.
#pragma once

#include <rte_mbuf.h>

#include <chrono>
#include <deque>
#include <functional>
#include <thread>

#include "pipeline/port/frames.h"
#include "pipeline/port/port.h"
#include "pipeline/port/superframes.h"

namespace uroce::datapath {

class TestPort : public drivers::Port {
 public:
  ~TestPort() override {
    for (rte_mbuf* frame : arrived) rte_pktmbuf_free(frame);
  }
  uint16_t ReceiveBurst(uint16_t, rte_mbuf** frames, uint16_t count, Nanos) override {
    if (receive_takes.count() != 0) std::this_thread::sleep_for(receive_takes);
    uint16_t taken = 0;
    for (; taken < count && !arrived.empty(); ++taken) {
      frames[taken] = arrived.front();
      arrived.pop_front();
    }
    return taken;
  }
  uint16_t TransmitBurst(uint16_t, rte_mbuf** frames, uint16_t count, Nanos) override {
    for (uint16_t i = 0; i < count; ++i) {
      ++sent;
      // Ports that take superframes check the ICRCs of those that arrive.
      if (superframes && drivers::PacketsOf(*frames[i]) > 1) drivers::CheckedIcrc().Set(*frames[i]);
      if (filter && !filter(frames[i])) {
        rte_pktmbuf_free(frames[i]);
      } else {
        peer->arrived.push_back(frames[i]);
      }
    }
    return count;
  }
  uint16_t TransmitRoom(uint16_t) const override { return room; }
  bool takes_superframes(uint16_t) const override { return superframes; }
  drivers::TurnLimit turn_limit() const override { return limit; }
  bool wakes_itself() const override { return true; }
  Nanos Lag(Nanos) const override { return lag; }
  bool may_lag() const override { return true; }
  uint64_t receive_buffer_bytes() const override { return buffer_bytes; }
  drivers::PortInfo Info() const override { return {}; }

  TestPort* peer = nullptr;
  std::deque<rte_mbuf*> arrived;
  std::function<bool(rte_mbuf*)> filter;  ///< False: the frame is lost.
  std::chrono::microseconds receive_takes{0};
  Nanos lag{0};
  uint16_t room = 256;
  bool superframes = false;
  drivers::TurnLimit limit;   ///< Workers ask for it when they get the port.
  uint64_t buffer_bytes = 0;  ///< Of the kernel, as a port tells it; 0: no bound.
  uint64_t sent = 0;
};

}  // namespace uroce::datapath
