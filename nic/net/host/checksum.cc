// SPDX-License-Identifier: Apache-2.0
#include "nic/net/host/checksum.h"

#include "nic/net/host/headers.h"

namespace uroce::nic {
namespace {

uint64_t Sum(std::span<const uint8_t> bytes) {
  uint64_t sum = 0;
  size_t at = 0;
  for (; at + 1 < bytes.size(); at += 2) sum += uint32_t{bytes[at]} << 8 | bytes[at + 1];
  if (at < bytes.size()) sum += uint32_t{bytes[at]} << 8;
  return sum;
}

uint16_t Fold(uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

}  // namespace

uint16_t InternetChecksum(std::span<const uint8_t> bytes) { return Fold(Sum(bytes)); }

uint16_t Icmpv6Checksum(const Gid& source, const Gid& destination,
                        std::span<const uint8_t> message) {
  return Fold(Sum(source.bytes) + Sum(destination.bytes) + message.size() + kIpProtocolIcmpv6 +
              Sum(message));
}

}  // namespace uroce::nic
