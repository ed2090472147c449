// SPDX-License-Identifier: Apache-2.0
// How an ICRC changes when a field of 16 bits changes, and which change of the field explains that
// of an ICRC: docs/protocol/wire-format.md, section 7.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "pipeline/wire/superframe.h"

namespace uroce::wire {

/// The most bytes between the end of a field and the ICRC.
inline constexpr size_t kMostBytesBehindField = 16383;

/// The exclusive or of two ICRCs, as IcrcFromState gives them, of packets that differ in one field
/// alone. `field_change`: the exclusive or of the two values, in host order. `bytes_behind`: from
/// the end of the field to the ICRC, up to kMostBytesBehindField.
uint32_t IcrcChange(uint16_t field_change, size_t bytes_behind);
/// The inverse. Nothing: no change of the field explains it, as for all but one of 65536 changes.
std::optional<uint16_t> FieldChange(uint32_t icrc_change, size_t bytes_behind);

/// Gives an untagged RoCE frame another source port, and over IPv4 another identification, and an
/// ICRC that fits them if the former one fitted. `frame` ends with the ICRC. The checksum of the
/// IPv4 header is not changed.
void Renumber(std::span<uint8_t> frame, const UdpFrame& places, uint16_t source_port,
              uint16_t identification);

/// Stores an identification in an untagged frame over IPv4, with the header's checksum.
void SetIdentification(std::span<uint8_t> frame, uint16_t identification);

/// The identification for which the ICRC at the end of an untagged RoCE frame over IPv4 is right,
/// that of the frame or another one. Nothing: the frame is damaged, too short, or IPv6.
std::optional<uint16_t> FindIdentification(std::span<const uint8_t> frame, const UdpFrame& places);

}  // namespace uroce::wire
