// SPDX-License-Identifier: Apache-2.0
#include "nic/net/host/checksum.h"

#include "nic/net/host/headers.h"
#include "pipeline/wire/internet_checksum.h"

namespace uroce::nic {

uint16_t InternetChecksum(std::span<const uint8_t> bytes) {
  return wire::ChecksumOfSum(wire::SumOfWords(bytes));
}

uint16_t Icmpv6Checksum(const Gid& source, const Gid& destination,
                        std::span<const uint8_t> message) {
  using wire::SumOfWords;
  return wire::ChecksumOfSum(SumOfWords(source.bytes) + SumOfWords(destination.bytes) +
                             message.size() + kIpProtocolIcmpv6 + SumOfWords(message));
}

}  // namespace uroce::nic
