// SPDX-License-Identifier: Apache-2.0
// The invariant CRC of RoCEv2, the fused copy that computes it, and how it changes when a field of
// 16 bits changes (docs/protocol/wire-format.md, section 7). The fastest kernel that the CPU can
// run is chosen when the program starts.
#include "pipeline/wire/icrc.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "pipeline/wire/crc/kernel.h"
#include "pipeline/wire/packet.h"

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

namespace {

// The register of a reflected CRC is a polynomial whose term x^0 is bit 31.
constexpr uint32_t kPolynomial = 0xedb88320;
constexpr uint32_t kOne = 1u << 31;

constexpr uint32_t TimesX(uint32_t value) {
  return (value & 1) != 0 ? (value >> 1) ^ kPolynomial : value >> 1;
}
constexpr uint32_t DividedByX(uint32_t value) {
  return (value & kOne) != 0 ? (value ^ kPolynomial) << 1 | 1 : value << 1;
}
/// Costs a step for each bit of `a` down to its lowest one.
constexpr uint32_t Product(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1, b = TimesX(b)) {
    if ((a & kOne) != 0) product ^= b;
  }
  return product;
}

/// Powers of x by the number of bytes behind a field.
struct Powers {
  /// By x^(8n + 32): the change of an ICRC from that of the field as the first 16 terms.
  std::array<uint32_t, kMostBytesBehindField + 1> forward;
  /// By x^-(8n + 32).
  std::array<uint32_t, kMostBytesBehindField + 1> back;
};

std::unique_ptr<const Powers> MakePowers() {
  auto powers = std::make_unique<Powers>();
  uint32_t forward = kOne;
  uint32_t back = kOne;
  for (int i = 0; i < 32; ++i) {
    forward = TimesX(forward);
    back = DividedByX(back);
  }
  for (size_t n = 0; n <= kMostBytesBehindField; ++n) {
    powers->forward[n] = forward;
    powers->back[n] = back;
    for (int i = 0; i < 8; ++i) {
      forward = TimesX(forward);
      back = DividedByX(back);
    }
  }
  return powers;
}

/// Made before main; nothing uses it earlier.
const std::unique_ptr<const Powers> powers = MakePowers();

// A message's bytes enter the register at its end with the terms x^31 ..., the first byte lowest:
// a field of two bytes is the last 16 bits. x^16 more makes them the first 16.
constexpr uint32_t TermsOf(uint16_t field) {
  const auto swapped = static_cast<uint16_t>(field >> 8 | field << 8);
  return uint32_t{swapped} << 16;
}

constexpr size_t kIp = UdpFrame::kIpOffset;
constexpr size_t kIdentification = kIp + offsetof(Ipv4Header, identification);

uint16_t Load16(const uint8_t* at) { return static_cast<uint16_t>(at[0] << 8 | at[1]); }
void Store16(uint8_t* at, uint16_t value) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}

/// Stores the field that begins at `offset`. Returns the change of the ICRC.
uint32_t Change16(std::span<uint8_t> frame, size_t offset, uint16_t value) {
  const auto change = static_cast<uint16_t>(Load16(frame.data() + offset) ^ value);
  if (change == 0) return 0;
  Store16(frame.data() + offset, value);
  return IcrcChange(change, frame.size() - kIcrcBytes - offset - 2);
}

bool IsRoce(std::span<const uint8_t> frame, const UdpFrame& places) {
  const size_t behind = frame.size() - kIdentification;
  return frame.size() >= places.payload_offset + sizeof(BthLayout) + kIcrcBytes &&
         behind <= kMostBytesBehindField;
}

}  // namespace

uint32_t IcrcChange(uint16_t field_change, size_t bytes_behind) {
  return Product(TermsOf(field_change), powers->forward[bytes_behind]);
}

std::optional<uint16_t> FieldChange(uint32_t icrc_change, size_t bytes_behind) {
  const uint32_t terms = Product(icrc_change, powers->back[bytes_behind]);
  if ((terms & 0xffff) != 0) return std::nullopt;
  const auto swapped = static_cast<uint16_t>(terms >> 16);
  return static_cast<uint16_t>(swapped >> 8 | swapped << 8);
}

FlowNumbers NumbersOf(std::span<const uint8_t> frame, const UdpFrame& places) {
  const uint16_t source_port = Load16(frame.data() + places.udp_offset());
  if (places.is_ipv6) return {.source_port = source_port};
  return {.source_port = source_port, .identification = Load16(frame.data() + kIdentification)};
}

void Renumber(std::span<uint8_t> frame, const UdpFrame& places, uint16_t source_port,
              uint16_t identification) {
  if (!IsRoce(frame, places)) return;
  uint32_t change = Change16(frame, places.udp_offset(), source_port);
  if (!places.is_ipv6) change ^= Change16(frame, kIdentification, identification);
  uint8_t* const at = frame.data() + frame.size() - kIcrcBytes;
  uint32_t icrc;
  std::memcpy(&icrc, at, sizeof icrc);
  icrc ^= change;
  std::memcpy(at, &icrc, sizeof icrc);
}

// The change of an ICRC depends on the change of the fields and on the length alone: packets of one
// length whose identifications change alike share it.
void RenumberSegments(std::span<uint8_t> superframe, const UdpFrame& places, uint16_t segment_bytes,
                      uint16_t source_port) {
  if (segment_bytes < sizeof(BthLayout) + kIcrcBytes) return;
  uint8_t* const port_at = superframe.data() + places.udp_offset();
  uint8_t* const identification_at = superframe.data() + kIdentification;
  const auto port_change = static_cast<uint16_t>(Load16(port_at) ^ source_port);
  const uint16_t first = places.is_ipv6 ? 0 : Load16(identification_at);
  Store16(port_at, source_port);
  if (!places.is_ipv6) Store16(identification_at, 0);
  size_t known_length = 0;
  uint16_t known_change = 0;
  uint32_t icrc_change = 0;
  uint16_t number = 0;
  for (size_t at = places.payload_offset; at < superframe.size(); at += segment_bytes, ++number) {
    const size_t length = std::min<size_t>(segment_bytes, superframe.size() - at);
    if (length < sizeof(BthLayout) + kIcrcBytes) return;
    const auto change =
        static_cast<uint16_t>(places.is_ipv6 ? 0 : static_cast<uint16_t>(first + number) ^ number);
    if (length != known_length || change != known_change) {
      const size_t covered = places.payload_offset + length - kIcrcBytes;
      icrc_change = IcrcChange(port_change, covered - places.udp_offset() - 2);
      if (change != 0) icrc_change ^= IcrcChange(change, covered - kIdentification - 2);
      known_length = length;
      known_change = change;
    }
    uint8_t* const icrc_at = superframe.data() + at + length - kIcrcBytes;
    uint32_t icrc;
    std::memcpy(&icrc, icrc_at, sizeof icrc);
    icrc ^= icrc_change;
    std::memcpy(icrc_at, &icrc, sizeof icrc);
  }
}

namespace {

/// How the register behind the headers of a connection's packet changes with a field. Fields that
/// rise by one packet after packet change in few bits.
struct HeaderChanges {
  static constexpr uint32_t kChanges = 64;

  HeaderChanges() {
    constexpr size_t kBehindIdentification = sizeof(Ipv4Header) -
                                             offsetof(Ipv4Header, identification) - 2 +
                                             sizeof(UdpHeader) + sizeof(BthLayout);
    for (uint16_t change = 0; change < kChanges; ++change) {
      psn[change] = IcrcChange(change, 0);
      identification[change] = IcrcChange(change, kBehindIdentification);
    }
    ack_request = IcrcChange(0x8000, 2);
  }

  std::array<uint32_t, kChanges> psn;
  std::array<uint32_t, kChanges> identification;
  uint32_t ack_request;
};

}  // namespace

HeaderRun::HeaderRun(size_t ip_offset, size_t bth_offset, bool is_ipv6, std::span<uint8_t> headers)
    : ip_(headers.data() + ip_offset),
      bth_(headers.data() + bth_offset),
      length_(headers.size() - ip_offset),
      is_ipv6_(is_ipv6) {}

uint32_t HeaderRun::Next(Psn psn, bool ack_request, uint16_t identification) {
  static const HeaderChanges changes;
  const Be<4> last_word((ack_request ? 0x80000000 : 0) | psn.value());
  std::memcpy(bth_ + offsetof(BthLayout, ack_request), &last_word, sizeof last_word);
  if (is_ipv6_) {
    identification = 0;
  } else {
    Store16(ip_ + offsetof(Ipv4Header, identification), identification);
  }
  const uint32_t psn_change = psn.value() ^ base_.psn;
  const uint32_t identification_change = identification ^ base_.identification;
  constexpr uint32_t kMost = HeaderChanges::kChanges;
  if (!has_base_ || psn_change >= kMost || identification_change >= kMost) {
    base_ = {MaskedHeaderCrc32(ip_, length_, is_ipv6_), psn.value(), identification, ack_request};
    has_base_ = ip_ + length_ == bth_ + sizeof(BthLayout);
    return base_.state;
  }
  return base_.state ^ changes.psn[psn_change] ^ changes.identification[identification_change] ^
         (ack_request != base_.ack_request ? changes.ack_request : 0);
}

namespace {

/// Checks the packets of a superframe as if each were a frame by itself.
class SegmentCheck {
 public:
  SegmentCheck(std::span<const uint8_t> superframe, const SuperframeCutter& cutter,
               Identifications identifications)
      : superframe_(superframe),
        cutter_(cutter),
        identifications_(identifications),
        first_identification_(
            cutter.places().is_ipv6 ? 0 : Load16(superframe.data() + kIdentification)) {}

  bool IsRight(uint32_t index) {
    const uint32_t length = cutter_.FrameBytes(index);
    const uint16_t headers_bytes = cutter_.places().payload_offset;
    if (length < headers_bytes + sizeof(BthLayout) + kIcrcBytes) return false;
    if (length > kMostBytesBehindField) return false;  // No path has such packets.
    const uint8_t* const at = superframe_.data() + cutter_.PayloadOffset(index);
    Begin(index, length, at);
    BthLayout bth;
    std::memcpy(&bth, at, sizeof bth);
    const bool rises = identifications_ == Identifications::kRising;
    const uint32_t state =
        run_->Next(Psn(bth.psn.value()), (bth.ack_request & ~kReserved) != 0,
                   static_cast<uint16_t>(first_identification_ + (rises ? index : 0)));
    const size_t covered = length - headers_bytes - kIcrcBytes;
    const auto rest = std::span(at, covered).subspan(sizeof bth);
    uint32_t received;
    std::memcpy(&received, at + covered, sizeof received);
    // Reserved bits are 0 when sent; the ICRC covers those of peers that use them.
    uint32_t change = 0;
    const auto reserved = static_cast<uint16_t>((bth.ack_request & kReserved) << 8);
    if (reserved != 0) [[unlikely]]
      change = IcrcChange(reserved, covered - offsetof(BthLayout, ack_request) - 2);
    return received == (IcrcFromState(Crc32Update(state, rest)) ^ change);
  }

 private:
  static constexpr uint8_t kReserved = 0x7f;
  static constexpr size_t kSame = offsetof(BthLayout, ack_request);

  /// Begins a run where the headers are not those of the packet before.
  void Begin(uint32_t index, uint32_t length, const uint8_t* bth) {
    const UdpFrame& places = cutter_.places();
    uint8_t* const its = headers_.data() + places.payload_offset;
    const bool goes_on = run_ && length == length_ && std::memcmp(its, bth, kSame) == 0;
    if (goes_on) return;
    length_ = length;
    cutter_.WriteHeaders(index, identifications_, headers_.data());
    std::memcpy(its, bth, sizeof(BthLayout));
    run_.emplace(kIp, places.payload_offset, places.is_ipv6,
                 std::span(headers_).first(places.payload_offset + sizeof(BthLayout)));
  }

  const std::span<const uint8_t> superframe_;
  const SuperframeCutter& cutter_;
  const Identifications identifications_;
  const uint16_t first_identification_;
  uint32_t length_ = 0;
  std::array<uint8_t, kMaxUdpHeaderBytes + sizeof(BthLayout)> headers_;
  std::optional<HeaderRun> run_;
};

}  // namespace

std::optional<Identifications> FindIdentifications(std::span<const uint8_t> superframe,
                                                   const SuperframeCutter& cutter) {
  for (const auto identifications : {Identifications::kRising, Identifications::kSame}) {
    SegmentCheck check(superframe, cutter, identifications);
    uint32_t index = 0;
    while (index < cutter.segments() && check.IsRight(index)) ++index;
    if (index == cutter.segments()) return identifications;
    if (index == 0) return std::nullopt;  // The first packet has its own identification.
  }
  return std::nullopt;
}

void SetIdentification(std::span<uint8_t> frame, uint16_t identification) {
  uint8_t* const ip = frame.data() + kIp;
  Store16(frame.data() + kIdentification, identification);
  Store16(ip + offsetof(Ipv4Header, checksum), 0);
  Store16(ip + offsetof(Ipv4Header, checksum), ChecksumOfSum(SumOfWords({ip, sizeof(Ipv4Header)})));
}

std::optional<uint16_t> FindIdentification(std::span<const uint8_t> frame, const UdpFrame& places) {
  if (places.is_ipv6 || !IsRoce(frame, places)) return std::nullopt;
  const size_t covered = frame.size() - kIcrcBytes;
  uint32_t received;
  std::memcpy(&received, frame.data() + covered, sizeof received);
  const uint32_t change =
      received ^ IcrcFromState(MaskedHeaderCrc32(frame.data() + kIp, covered - kIp, false));
  const uint16_t present = Load16(frame.data() + kIdentification);
  if (change == 0) return present;
  const auto field = FieldChange(change, covered - kIdentification - 2);
  if (!field) return std::nullopt;
  return static_cast<uint16_t>(present ^ *field);
}

}  // namespace uroce::wire
