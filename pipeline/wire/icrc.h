// SPDX-License-Identifier: Apache-2.0
// The invariant CRC of RoCEv2 and the fused copy that computes it (docs/protocol/wire-format.md,
// section 7). The fastest kernel that the CPU can run is chosen when the program starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pipeline/wire/decode.h"

namespace uroce::wire {

/// State after the eight bytes 0xff that stand in for the LRH.
inline constexpr uint32_t kIcrcSeed = 0xdebb20e3;

/// CRC-32 register (reflected, not complemented) after `bytes`, when it was `state` before.
uint32_t Crc32Update(uint32_t state, std::span<const uint8_t> bytes);

/// Copies `length` bytes and returns the register after them. Any length and alignment. If the
/// source changes meanwhile, the register fits the bytes written. The ranges do not overlap.
uint32_t CopyCrc32(uint32_t state, void* destination, const void* source, size_t length);

/// The register after the headers that start at `ip`, with the fields that routers may change set
/// to ones. `length` covers at least IP, UDP and BTH, and may reach into the payload.
uint32_t MaskedHeaderCrc32(const uint8_t* ip, size_t length, bool is_ipv6);

/// The four bytes of an ICRC in the frame, loaded in host order, for comparisons. The complement
/// of the state is stored least significant byte first.
constexpr uint32_t IcrcFromState(uint32_t state) { return ~state; }
void StoreIcrc(uint8_t* at, uint32_t state);

/// Whether the ICRC of a decoded frame is right.
[[nodiscard]] bool IcrcIsRight(std::span<const uint8_t> frame, const FrameView& view);

/// Name of the kernel in use: "vpclmul512", "vpclmul256", "pclmul128", "portable".
const char* CrcKernelName();

}  // namespace uroce::wire
