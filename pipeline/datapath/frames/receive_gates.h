// SPDX-License-Identifier: Apache-2.0
// Tells peers in the same daemon which queue pairs take no more packets for now.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "pipeline/base/types.h"

namespace uroce::datapath {

/// One gate per queue pair number, open unless the owning worker has closed it. While a gate is
/// closed, a peer in the same daemon holds its packets back (those of a remote peer would be lost),
/// and the wire between them stays free for others. The worker that owns the queue pair closes and
/// opens the gate. Any worker reads it, and may see a change late.
class ReceiveGates {
 public:
  bool IsClosed(Qpn qpn) const {
    return (WordOf(qpn).load(std::memory_order_relaxed) & Bit(qpn)) != 0;
  }
  void Close(Qpn qpn) { WordOf(qpn).fetch_or(Bit(qpn), std::memory_order_relaxed); }
  void Open(Qpn qpn) { WordOf(qpn).fetch_and(~Bit(qpn), std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kNumbers = 1u << 24;
  static constexpr uint32_t kBits = 64;

  static uint64_t Bit(Qpn qpn) { return uint64_t{1} << qpn.value() % kBits; }
  std::atomic<uint64_t>& WordOf(Qpn qpn) const { return words_[qpn.value() % kNumbers / kBits]; }

  std::unique_ptr<std::atomic<uint64_t>[]> words_ =
      std::make_unique<std::atomic<uint64_t>[]>(kNumbers / kBits);
};

}  // namespace uroce::datapath
