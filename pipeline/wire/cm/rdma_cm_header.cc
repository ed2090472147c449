// SPDX-License-Identifier: Apache-2.0
#include "pipeline/wire/cm/rdma_cm_header.h"

#include <algorithm>
#include <cstring>

#include "pipeline/wire/cm/layout.h"

namespace uroce::wire {
namespace {

using Field = std::array<uint8_t, 16>;
static_assert(sizeof(RdmaCmHeaderLayout) == kRdmaCmHeaderBytes);

/// The address in `field`. An IPv4 address is in the last four bytes; the others have no meaning.
Gid AddressIn(const Field& field, bool ipv6) {
  if (ipv6) return {field};
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  std::copy_n(field.begin() + 12, 4, gid.bytes.begin() + 12);
  return gid;
}

Field FieldOf(const Gid& gid) {
  if (!gid.is_ipv4()) return gid.bytes;
  Field field{};
  std::copy_n(gid.bytes.begin() + 12, 4, field.begin() + 12);
  return field;
}

}  // namespace

RdmaCmHeaderResult DecodeRdmaCmHeader(std::span<const uint8_t> private_data, RdmaCmHeader& header) {
  RdmaCmHeaderLayout layout;
  if (private_data.size() < sizeof layout) return RdmaCmHeaderResult::kTooShort;
  std::memcpy(&layout, private_data.data(), sizeof layout);
  if (layout.version >> 4 != 0) return RdmaCmHeaderResult::kBadVersion;
  const int ip_version = layout.ip_version >> 4;
  if (ip_version != 4 && ip_version != 6) return RdmaCmHeaderResult::kBadIpVersion;
  header.source_port = layout.source_port.value();
  header.source = AddressIn(layout.source, ip_version == 6);
  header.destination = AddressIn(layout.destination, ip_version == 6);
  return RdmaCmHeaderResult::kOk;
}

void EncodeRdmaCmHeader(const RdmaCmHeader& header, std::span<uint8_t> private_data) {
  const RdmaCmHeaderLayout layout = {
      .version = 0,
      .ip_version = static_cast<uint8_t>(header.destination.is_ipv4() ? 0x40 : 0x60),
      .source_port = Be<2>(header.source_port),
      .source = FieldOf(header.source),
      .destination = FieldOf(header.destination)};
  std::memcpy(private_data.data(), &layout, sizeof layout);
}

}  // namespace uroce::wire
