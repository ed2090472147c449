// SPDX-License-Identifier: Apache-2.0
// One queue pair of a simulated host, with its program and the judge of what it receives.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "pipeline/base/types.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/packet.h"
#include "tests/sim/network.h"

namespace uroce::sim {

/// The address of a host: IPv4 or IPv6.
Gid AddressOf(uint32_t host, bool ipv6);

/// The way of frames from one host to a queue pair of another host.
class Path {
 public:
  Path(Network& network, uint32_t from, uint32_t to, Qpn qpn, bool ipv6);
  /// False: the network has lost the frame.
  bool Send(const wire::TransportHeader& header, std::span<const uint8_t> payload, Nanos now);
  uint32_t to() const { return to_; }
  /// From now on the path leads to another queue pair of that host.
  void Redirect(Qpn qpn);

 private:
  Network& network_;
  uint32_t from_;
  uint32_t to_;
  uint16_t identification_ = 0;
  bool ipv6_;
  wire::HeaderTemplate template_;
};

/// A received frame for this queue pair, whose ICRC was checked.
struct ReceivedFrame {
  std::span<const uint8_t> bytes;
  const wire::Packet& packet;
  const wire::FrameView& view;
};

/// Executes a plan against its peers, serves theirs, and records the first fault that it finds.
class Party {
 public:
  explicit Party(uint32_t host) : host_(host) {}
  virtual ~Party() = default;
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;

  virtual void OnFrame(const ReceivedFrame& frame, Nanos now) = 0;
  /// A turn of a worker: completions, works, packets. Returns the latest time of the next turn.
  virtual Nanos Turn(Nanos now) = 0;
  /// Whether all that the plan foresees has happened, as far as it can.
  virtual bool finished() const = 0;
  /// Called after the end: judges what could not be judged before.
  virtual void Judge() {}
  virtual std::string Describe() const = 0;

  uint32_t host() const { return host_; }
  /// The host died: it gets no more turns or frames.
  void Die() { dead_ = true; }
  bool dead() const { return dead_; }
  /// The first fault; "" while all is well.
  const std::string& fault() const { return fault_; }

 protected:
  /// Empty: all is well.
  void Fault(const std::string& what) {
    if (fault_.empty()) fault_ = what;
  }

 private:
  uint32_t host_;
  bool dead_ = false;
  std::string fault_;
};

}  // namespace uroce::sim
