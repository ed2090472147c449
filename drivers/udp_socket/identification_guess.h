// SPDX-License-Identifier: Apache-2.0
// The IPv4 identifications of received packets, which a UDP socket does not tell.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "pipeline/wire/superframe.h"

namespace uroce::drivers {

/// The ICRC covers the identification (docs/protocol/wire-format.md, section 7.4). Expected are 0,
/// the flow's last one, and that plus one. Else the identification is the one that the ICRC fits:
/// of 65,536 damaged packets one has such. Ports by UDP sockets, and who always sends 0, stay below
/// kSegments: in a flow that has done so for kSure packets, nothing else fits. One thread.
class IdentificationGuess {
 public:
  static constexpr uint16_t kSegments = wire::kMaxSegments;
  /// A counter leaves the identifications below kSegments earlier.
  static constexpr uint8_t kSure = 2 * kSegments;

  enum class Found : uint8_t {
    kExpected,
    kFitted,   ///< By the ICRC alone.
    kDamaged,  ///< None fits: the identification stays an expected one. Or the flow has no such.
  };
  /// Stores the identification in `frame`, an untagged RoCE frame that ends with its ICRC. IPv6 has
  /// none: kExpected.
  Found Store(std::span<uint8_t> frame, const wire::UdpFrame& places);

 private:
  static constexpr uint32_t kFlows = 1024;
  struct Flow {
    uint32_t key = 0;
    uint16_t last = 0;
    uint8_t segments = 0;  ///< Packets in a row with identifications below kSegments, up to kSure.
  };

  std::array<Flow, kFlows> flows_{};
};

}  // namespace uroce::drivers
