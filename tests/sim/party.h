// SPDX-License-Identifier: Apache-2.0
// One queue pair of a simulated host, with the program that uses it and the judge of what it sees.
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

/// How frames get from one host to a queue pair of another.
class Path {
 public:
  Path(Network& network, uint32_t from, uint32_t to, Qpn qpn, bool ipv6);
  /// False: the network has lost it.
  bool Send(const wire::TransportHeader& header, std::span<const uint8_t> payload, Nanos now);
  uint32_t to() const { return to_; }
  /// From now on it leads to another queue pair of that host.
  void Redirect(Qpn qpn);

 private:
  Network& network_;
  uint32_t from_;
  uint32_t to_;
  uint16_t identification_ = 0;
  bool ipv6_;
  wire::HeaderTemplate template_;
};

/// A received frame that is for this queue pair, ICRC checked.
struct ReceivedFrame {
  std::span<const uint8_t> bytes;
  const wire::Packet& packet;
  const wire::FrameView& view;
};

/// Executes a plan against its peers, serves theirs, and notes the first thing that is wrong.
class Party {
 public:
  explicit Party(uint32_t host) : host_(host) {}
  virtual ~Party() = default;
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;

  virtual void OnFrame(const ReceivedFrame& frame, Nanos now) = 0;
  /// A turn of a worker: completions, works, packets. Returns when it wants the next at the latest.
  virtual Nanos Turn(Nanos now) = 0;
  /// All that the plan foresees has come about, as far as it can.
  virtual bool finished() const = 0;
  /// After the end: whatever could not be judged on the way.
  virtual void Judge() {}
  virtual std::string Describe() const = 0;

  uint32_t host() const { return host_; }
  /// The host is gone: neither turns nor frames come any more.
  void Die() { dead_ = true; }
  bool dead() const { return dead_; }
  /// Empty while all is well.
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
