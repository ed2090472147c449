// SPDX-License-Identifier: Apache-2.0
// How rdma_cm carries IP addresses and ports over the connection manager: a header at the start of
// the private data of a REQ or SIDR_REQ holds addresses and source port, and the service ID holds
// the destination port (IBTA annex A11; docs/protocol/cm.md, section 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "pipeline/base/types.h"

namespace uroce::wire {

/// Port spaces of rdma_cm. The values are those on the wire and in <rdma/rdma_cm.h>.
enum class PortSpace : uint16_t {
  kIpoib = 0x0002,
  kTcp = 0x0106,
  kUdp = 0x0111,
  kIb = 0x013f,
};

struct RdmaCmService {
  PortSpace space = PortSpace::kTcp;
  uint16_t port = 0;
  friend constexpr auto operator<=>(const RdmaCmService&, const RdmaCmService&) = default;
};

constexpr uint64_t ServiceIdOf(const RdmaCmService& service) {
  return uint64_t{static_cast<uint16_t>(service.space)} << 16 | service.port;
}
/// The port space and port in a service ID; nullopt when the ID is not of rdma_cm.
constexpr std::optional<RdmaCmService> ServiceOf(uint64_t service_id) {
  const uint64_t prefix = service_id >> 16;
  if (prefix != static_cast<uint16_t>(PortSpace::kTcp) &&
      prefix != static_cast<uint16_t>(PortSpace::kUdp) &&
      prefix != static_cast<uint16_t>(PortSpace::kIb)) {
    return std::nullopt;
  }
  return RdmaCmService{static_cast<PortSpace>(prefix), static_cast<uint16_t>(service_id)};
}

inline constexpr size_t kRdmaCmHeaderBytes = 36;

struct RdmaCmHeader {
  uint16_t source_port = 0;
  Gid source;  ///< Both IPv4 (::ffff:a.b.c.d) or both IPv6.
  Gid destination;
  friend bool operator==(const RdmaCmHeader&, const RdmaCmHeader&) = default;
};

enum class RdmaCmHeaderResult : uint8_t {
  kOk,
  kTooShort,
  kBadVersion,    ///< Major version is not 0.
  kBadIpVersion,  ///< Neither 4 nor 6.
};

/// Decodes the start of `private_data`. `header` is valid only on kOk.
[[nodiscard]] RdmaCmHeaderResult DecodeRdmaCmHeader(std::span<const uint8_t> private_data,
                                                    RdmaCmHeader& header);
/// Writes kRdmaCmHeaderBytes to the start of `private_data`, which has room for them.
void EncodeRdmaCmHeader(const RdmaCmHeader& header, std::span<uint8_t> private_data);

}  // namespace uroce::wire
