// SPDX-License-Identifier: Apache-2.0
#include "pipeline/wire/icrc.h"

#include <bit>
#include <cstring>
#include <vector>

#include "pipeline/wire/crc/kernel.h"
#include "pipeline/wire/layout.h"

namespace uroce::wire {
namespace {

static_assert(std::endian::native == std::endian::little);

const std::vector<CrcKernel>& Kernels() {
  static const std::vector<CrcKernel> kernels = FindCrcKernels();
  return kernels;
}

/// A copy, so that a call is one load and one jump. Set before main; nothing computes CRCs earlier.
const CrcKernel chosen_kernel = Kernels().front();

// Masks of the fields that routers may change: docs/protocol/wire-format.md, section 7.1.
constexpr HeaderMask BuildIpv4Mask() {
  constexpr size_t kUdp = sizeof(Ipv4Header);
  constexpr size_t kBth = kUdp + sizeof(UdpHeader);
  HeaderMask mask;
  // Traffic class, TTL, header checksum; UDP checksum; FECN, BECN and the reserved bits with them.
  for (const size_t at :
       {size_t{1}, size_t{8}, size_t{10}, size_t{11}, kUdp + 6, kUdp + 7, kBth + 4}) {
    mask.bytes[at] = 0xff;
  }
  return mask;
}

constexpr HeaderMask BuildIpv6Mask() {
  constexpr size_t kUdp = sizeof(Ipv6Header);
  constexpr size_t kBth = kUdp + sizeof(UdpHeader);
  HeaderMask mask;
  mask.bytes[0] = 0x0f;  // The version is not masked.
  // Traffic class and flow label, hop limit; UDP checksum; as above.
  for (const size_t at :
       {size_t{1}, size_t{2}, size_t{3}, size_t{7}, kUdp + 6, kUdp + 7, kBth + 4}) {
    mask.bytes[at] = 0xff;
  }
  return mask;
}

constexpr HeaderMask kIpv4Mask = BuildIpv4Mask();
constexpr HeaderMask kIpv6Mask = BuildIpv6Mask();

}  // namespace

std::span<const CrcKernel> AvailableCrcKernels() { return Kernels(); }

uint32_t Crc32Update(uint32_t state, std::span<const uint8_t> bytes) {
  return chosen_kernel.update(state, bytes.data(), bytes.size());
}

uint32_t CopyCrc32(uint32_t state, void* destination, const void* source, size_t length) {
  return chosen_kernel.copy(state, static_cast<uint8_t*>(destination),
                            static_cast<const uint8_t*>(source), length);
}

uint32_t MaskedHeaderCrc32(const uint8_t* ip, size_t length, bool is_ipv6) {
  return chosen_kernel.masked(kIcrcSeed, ip, length, is_ipv6 ? kIpv6Mask : kIpv4Mask);
}

void StoreIcrc(uint8_t* at, uint32_t state) {
  const uint32_t icrc = IcrcFromState(state);
  std::memcpy(at, &icrc, sizeof icrc);
}

bool IcrcIsRight(std::span<const uint8_t> frame, const FrameView& view) {
  const uint8_t* ip = frame.data() + view.ip_offset;
  const size_t length = static_cast<size_t>(view.icrc_offset - view.ip_offset);
  uint32_t received;
  std::memcpy(&received, frame.data() + view.icrc_offset, sizeof received);
  return received == IcrcFromState(MaskedHeaderCrc32(ip, length, view.is_ipv6));
}

const char* CrcKernelName() { return chosen_kernel.name; }

}  // namespace uroce::wire
