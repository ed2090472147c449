// SPDX-License-Identifier: Apache-2.0
// Selective repeat at a responder: whether the requester has agreed to it, and what is kept behind
// a hole in the PSNs.
#pragma once

#include <memory>
#include <span>

#include "pipeline/transport/kept_packets.h"

namespace uroce::transport {

/// A KeptPackets, allocated when selective repeat is offered, and copies of the two facts that each
/// packet needs to know of it. Pure, owned by a Responder.
class BehindHole {
 public:
  /// `offered`: the requester may agree to selective repeat. Otherwise nothing is ever kept.
  explicit BehindHole(bool offered) : kept_(offered ? std::make_unique<KeptPackets>() : nullptr) {}

  /// Sets whether the requester understands selective acknowledgements.
  void SetSelective(bool agreed) { selective_ = agreed && kept_ != nullptr; }
  bool is_selective() const { return selective_; }

  /// Whether a packet ahead of ePSN has come.
  bool is_open() const { return open_; }
  /// Whether the packet at ePSN is kept: its turn has come.
  bool is_next_kept() const { return next_kept_; }
  bool keeps() const { return kept_ != nullptr && kept_->any(); }

  /// Forgets what was kept; `expected` becomes ePSN.
  void Start(wire::Psn expected) {
    if (kept_ == nullptr) return;
    kept_->Start(expected);
    Look();
  }

  // ---- as KeptPackets has them; the requester may have agreed ----
  bool Contains(wire::Psn psn) const { return kept_->Contains(psn); }
  void Insert(wire::Psn psn, uint32_t packets) {
    kept_->Insert(psn, packets);
    Look();
  }
  void NoteSeen(wire::Psn psn) {
    kept_->NoteSeen(psn);
    Look();
  }
  void Erase(wire::Psn psn) {
    kept_->Erase(psn);
    Look();
  }
  void Advance(wire::Psn expected) {
    kept_->Advance(expected);
    Look();
  }
  std::span<const uint8_t> Map() { return kept_->Map(); }

 private:
  void Look() {
    open_ = kept_->active();
    next_kept_ = kept_->is_next_kept();
  }

  const std::unique_ptr<KeptPackets> kept_;
  bool selective_ = false;
  bool open_ = false;       ///< kept_->active()
  bool next_kept_ = false;  ///< kept_->is_next_kept()
};

}  // namespace uroce::transport
