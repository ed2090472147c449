// SPDX-License-Identifier: Apache-2.0
// What a queue pair has asked its shell to keep (Effect::Kind::kKeep), in tests and benchmarks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// A packet that owns its bytes.
struct PacketCopy {
  explicit PacketCopy(const wire::Packet& original)
      : bytes(original.payload.begin(), original.payload.end()), packet(original) {
    packet.payload = bytes;
  }
  PacketCopy(const PacketCopy&) = delete;
  PacketCopy& operator=(const PacketCopy&) = delete;

  std::vector<uint8_t> bytes;
  wire::Packet packet;
};

/// Packets by PSN.
class KeptCopies {
 public:
  bool empty() const { return copies_.empty(); }
  void Keep(const wire::Packet& packet) {
    copies_.insert_or_assign(packet.header.psn.value(), std::make_unique<PacketCopy>(packet));
  }
  /// Null: it is not there.
  std::unique_ptr<PacketCopy> Take(wire::Psn psn) {
    auto node = copies_.extract(psn.value());
    return node.empty() ? nullptr : std::move(node.mapped());
  }
  void Clear() { copies_.clear(); }

 private:
  std::map<uint32_t, std::unique_ptr<PacketCopy>> copies_;
};

}  // namespace uroce::transport
