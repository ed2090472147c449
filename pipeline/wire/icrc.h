// SPDX-License-Identifier: Apache-2.0
// The invariant CRC of RoCEv2, the fused copy that computes it, and how it changes when a field of
// 16 bits changes (docs/protocol/wire-format.md, section 7). The fastest kernel that the CPU can
// run is chosen when the program starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"
#include "pipeline/wire/superframe.h"

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

// How an ICRC changes when a field of 16 bits changes, and which change of the field explains that
// of an ICRC: docs/protocol/wire-format.md, section 7.4.

/// The most bytes between the end of a field and the ICRC.
inline constexpr size_t kMostBytesBehindField = 16383;

/// The exclusive or of two ICRCs, as IcrcFromState gives them, of packets that differ in one field
/// alone. `field_change`: the exclusive or of the two values, in host order. `bytes_behind`: from
/// the end of the field to the ICRC, up to kMostBytesBehindField.
uint32_t IcrcChange(uint16_t field_change, size_t bytes_behind);
/// The inverse. Nothing: no change of the field explains it, as for all but one of 65536 changes.
std::optional<uint16_t> FieldChange(uint32_t icrc_change, size_t bytes_behind);

/// Headers of packets that follow each other in one message: they differ in PSN, AckReq and
/// identification alone, and so do the ICRC registers behind them.
class HeaderRun {
 public:
  /// `headers` are those of one of the packets up to BTH or further, and outlive this object. The
  /// checksum of an IPv4 header has no meaning.
  HeaderRun(size_t ip_offset, size_t bth_offset, bool is_ipv6, std::span<uint8_t> headers);
  /// Makes the headers those of another packet, and returns the ICRC register behind them.
  /// `identification`: IPv4 only.
  uint32_t Next(Psn psn, bool ack_request, uint16_t identification);

 private:
  /// What the register is computed from.
  struct Base {
    uint32_t state = 0;
    uint32_t psn = 0;
    uint16_t identification = 0;
    bool ack_request = false;
  };

  uint8_t* ip_;
  uint8_t* bth_;
  size_t length_;  ///< From the IP header on.
  bool is_ipv6_;
  bool has_base_ = false;
  Base base_;
};

/// What Renumber changes. The identification of IPv6 is 0.
struct FlowNumbers {
  uint16_t source_port = 0;
  uint16_t identification = 0;
};
FlowNumbers NumbersOf(std::span<const uint8_t> frame, const UdpFrame& places);

/// Gives an untagged RoCE frame another source port, and over IPv4 another identification, and an
/// ICRC that fits them if the former one fitted. `frame` ends with the ICRC. The checksum of the
/// IPv4 header is not changed.
void Renumber(std::span<uint8_t> frame, const UdpFrame& places, uint16_t source_port,
              uint16_t identification);

/// Does the same for a superframe, which begins with its first packet's frame: the packets get the
/// identifications from 0 on. Theirs rise by one, too. Each but the last has `segment_bytes` of UDP
/// payload.
void RenumberSegments(std::span<uint8_t> superframe, const UdpFrame& places, uint16_t segment_bytes,
                      uint16_t source_port);

/// How the identifications in a superframe of RoCE packets follow each other, so that all its ICRCs
/// are right. Nothing: some ICRC is wrong, or the identifications follow no rule. `superframe` is
/// that of `cutter`.
std::optional<Identifications> FindIdentifications(std::span<const uint8_t> superframe,
                                                   const SuperframeCutter& cutter);

/// Stores an identification in an untagged frame over IPv4, with the header's checksum.
void SetIdentification(std::span<uint8_t> frame, uint16_t identification);

/// The identification for which the ICRC at the end of an untagged RoCE frame over IPv4 is right,
/// that of the frame or another one. Nothing: the frame is damaged, too short, or IPv6.
std::optional<uint16_t> FindIdentification(std::span<const uint8_t> frame, const UdpFrame& places);

}  // namespace uroce::wire
