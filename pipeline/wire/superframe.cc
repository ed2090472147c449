// SPDX-License-Identifier: Apache-2.0
#include "pipeline/wire/superframe.h"

#include <algorithm>
#include <cstring>

#include "pipeline/wire/packet.h"

namespace uroce::wire {
namespace {

constexpr uint16_t kIp = UdpFrame::kIpOffset;
constexpr uint16_t kFragmentBits = 0x3fff;  // More fragments, and the offset.

template <typename Header>
Header Load(const uint8_t* at) {
  Header header;
  std::memcpy(&header, at, sizeof header);
  return header;
}

template <typename Header>
void Store(uint8_t* at, const Header& header) {
  std::memcpy(at, &header, sizeof header);
}

/// Sets the lengths of the IP header at `ip` to those of `udp_bytes`, and completes it.
void FinishIp(uint8_t* ip, bool is_ipv6, uint32_t udp_bytes) {
  if (is_ipv6) {
    auto header = Load<Ipv6Header>(ip);
    header.payload_length = Be<2>(static_cast<uint16_t>(udp_bytes));
    return Store(ip, header);
  }
  auto header = Load<Ipv4Header>(ip);
  header.total_length = Be<2>(static_cast<uint16_t>(sizeof header + udp_bytes));
  header.checksum = Be<2>(0);
  Store(ip, header);
  header.checksum = Be<2>(ChecksumOfSum(SumOfWords({ip, sizeof header})));
  Store(ip, header);
}

uint16_t PseudoHeaderSum(const uint8_t* ip, bool is_ipv6, uint32_t udp_bytes) {
  const size_t addresses = is_ipv6 ? offsetof(Ipv6Header, source) : offsetof(Ipv4Header, source);
  const size_t length = is_ipv6 ? 32 : 8;
  return FoldSum(SumOfWords({ip + addresses, length}) + kIpProtocolUdp + udp_bytes);
}

uint16_t IdentificationOf(const uint8_t* frame) {
  return Load<Ipv4Header>(frame + kIp).identification.value();
}

/// Whether the headers are equal but for lengths, checksums and the IPv4 identification.
bool IsSameFlow(const uint8_t* a, const uint8_t* b, const UdpFrame& places) {
  const auto equal = [&](size_t begin, size_t end) {
    return std::memcmp(a + begin, b + begin, end - begin) == 0;
  };
  const size_t ports_end = places.udp_offset() + offsetof(UdpHeader, length);
  if (places.is_ipv6) {
    return equal(0, kIp + offsetof(Ipv6Header, payload_length)) &&
           equal(kIp + offsetof(Ipv6Header, next_header), ports_end);
  }
  return equal(0, kIp + offsetof(Ipv4Header, total_length)) &&
         equal(kIp + offsetof(Ipv4Header, fragment), kIp + offsetof(Ipv4Header, checksum)) &&
         equal(kIp + offsetof(Ipv4Header, source), ports_end);
}

}  // namespace

std::optional<UdpFrame> FindUdp(std::span<const uint8_t> frame) {
  if (frame.size() < kIp + sizeof(Ipv4Header) + sizeof(UdpHeader)) return std::nullopt;
  const uint16_t type = Load<EthernetHeader>(frame.data()).ether_type.value();
  if (type == kEtherTypeIpv4) {
    const auto ip = Load<Ipv4Header>(frame.data() + kIp);
    const bool is_fragment = (ip.fragment.value() & kFragmentBits) != 0;
    if (ip.version_ihl != 0x45 || ip.protocol != kIpProtocolUdp || is_fragment) return std::nullopt;
    return UdpFrame{.payload_offset = kIp + sizeof(Ipv4Header) + sizeof(UdpHeader)};
  }
  constexpr uint16_t kIpv6Payload = kIp + sizeof(Ipv6Header) + sizeof(UdpHeader);
  if (type != kEtherTypeIpv6 || frame.size() < kIpv6Payload) return std::nullopt;
  if (Load<Ipv6Header>(frame.data() + kIp).next_header != kIpProtocolUdp) return std::nullopt;
  return UdpFrame{.payload_offset = kIpv6Payload, .is_ipv6 = true};
}

SuperframeBuilder::SuperframeBuilder(std::span<const uint8_t> frame)
    : first_(frame), places_(FindUdp(frame)) {
  is_complete_ = !places_ || frame.size() == places_->payload_offset;
  if (places_) payload_bytes_ = segment_bytes();
}

SuperframeBuilder::SuperframeBuilder(std::span<const uint8_t> superframe, uint16_t segment_bytes)
    : places_(FindUdp(superframe)) {
  if (!places_) {
    first_ = superframe;
    is_complete_ = true;
    return;
  }
  payload_bytes_ = static_cast<uint32_t>(superframe.size() - places_->payload_offset);
  segments_ = std::max(1U, (payload_bytes_ + segment_bytes - 1) / segment_bytes);
  first_ =
      superframe.first(places_->payload_offset + std::min<size_t>(segment_bytes, payload_bytes_));
  is_complete_ = segments_ > 1 || payload_bytes_ == 0;
}

SuperframeBuilder::Added SuperframeBuilder::Add(std::span<const uint8_t> frame) {
  if (!places_ || frame.size() <= places_->payload_offset) return Added::kOtherFlow;
  if (!IsSameFlow(first_.data(), frame.data(), *places_)) return Added::kOtherFlow;
  const auto payload = static_cast<uint32_t>(frame.size() - places_->payload_offset);
  const uint32_t bytes = places_->payload_offset - kIp + payload_bytes_ + payload;
  const auto next = static_cast<uint16_t>(IdentificationOf(first_.data()) + segments_);
  const bool is_next = places_->is_ipv6 || IdentificationOf(frame.data()) == next;
  const bool fits = frame.size() <= first_.size() && bytes <= kMaxSuperframeBytes;
  if (is_complete_ || segments_ == kMaxSegments || !is_next || !fits) return Added::kDoesNotFit;
  ++segments_;
  payload_bytes_ += payload;
  is_complete_ = frame.size() < first_.size();
  return Added::kYes;
}

bool SuperframeBuilder::HasRoom() const {
  if (is_complete_ || segments_ == kMaxSegments) return false;
  return places_->payload_offset - kIp + payload_bytes_ + segment_bytes() <= kMaxSuperframeBytes;
}

size_t SuperframeBuilder::WriteHeaders(uint8_t* out) const {
  const uint32_t udp_bytes = sizeof(UdpHeader) + payload_bytes_;
  std::copy_n(first_.data(), places_->payload_offset, out);
  FinishIp(out + kIp, places_->is_ipv6, udp_bytes);
  auto udp = Load<UdpHeader>(out + places_->udp_offset());
  udp.length = Be<2>(static_cast<uint16_t>(udp_bytes));
  udp.checksum = Be<2>(PseudoHeaderSum(out + kIp, places_->is_ipv6, udp_bytes));
  Store(out + places_->udp_offset(), udp);
  return places_->payload_offset;
}

std::optional<SuperframeCutter> SuperframeCutter::Make(std::span<const uint8_t> superframe,
                                                       uint16_t segment_bytes) {
  const std::optional<UdpFrame> places = FindUdp(superframe);
  if (!places || segment_bytes == 0 || superframe.size() <= places->payload_offset) {
    return std::nullopt;
  }
  return SuperframeCutter(superframe, *places, segment_bytes);
}

SuperframeCutter::SuperframeCutter(std::span<const uint8_t> superframe, const UdpFrame& places,
                                   uint16_t segment_bytes)
    : superframe_(superframe), places_(places), segment_bytes_(segment_bytes) {
  const auto payload = static_cast<uint32_t>(superframe.size() - places.payload_offset);
  segments_ = (payload + segment_bytes - 1) / segment_bytes;
  std::copy_n(superframe.data(), places.payload_offset, headers_.bytes.data());
  uint8_t* const udp_at = headers_.bytes.data() + places.udp_offset();
  auto udp = Load<UdpHeader>(udp_at);
  udp.checksum = Be<2>(0);
  Store(udp_at, udp);
  if (places.is_ipv6) return;
  auto ip = Load<Ipv4Header>(headers_.bytes.data() + kIp);
  headers_.identification = ip.identification.value();
  ip.total_length = ip.identification = ip.checksum = Be<2>(0);
  Store(headers_.bytes.data() + kIp, ip);
  headers_.sum = SumOfWords({headers_.bytes.data() + kIp, sizeof ip});
}

uint32_t SuperframeCutter::FrameBytes(uint32_t index) const {
  const auto payload = static_cast<uint32_t>(superframe_.size() - places_.payload_offset);
  return places_.payload_offset +
         std::min<uint32_t>(segment_bytes_, payload - index * segment_bytes_);
}

// The headers are those of all frames: each needs its lengths, and what follows from its index.
uint16_t SuperframeCutter::WriteHeaders(uint32_t index, Identifications identifications,
                                        uint8_t* out) const {
  const uint32_t payload = FrameBytes(index) - places_.payload_offset;
  const auto udp_bytes = static_cast<uint16_t>(sizeof(UdpHeader) + payload);
  std::copy_n(headers_.bytes.data(), places_.payload_offset, out);
  const auto store = [out](size_t at, uint32_t value) {
    Store(out + at, Be<2>(static_cast<uint16_t>(value)));
  };
  store(places_.udp_offset() + offsetof(UdpHeader, length), udp_bytes);
  if (places_.is_ipv6) {
    store(kIp + offsetof(Ipv6Header, payload_length), udp_bytes);
  } else {
    const bool rises = identifications == Identifications::kRising;
    const auto identification =
        static_cast<uint16_t>(headers_.identification + (rises ? index : 0));
    const uint32_t total = sizeof(Ipv4Header) + udp_bytes;
    store(kIp + offsetof(Ipv4Header, total_length), total);
    store(kIp + offsetof(Ipv4Header, identification), identification);
    store(kIp + offsetof(Ipv4Header, checksum),
          ChecksumOfSum(headers_.sum + total + identification));
  }
  return places_.payload_offset;
}

void SuperframeCutter::Write(uint32_t index, Identifications identifications, uint8_t* out) const {
  const uint16_t headers = WriteHeaders(index, identifications, out);
  std::memcpy(out + headers, superframe_.data() + PayloadOffset(index),
              FrameBytes(index) - headers);
}

SegmentRun SuperframeCutter::FindRun(uint32_t index) const {
  constexpr uint8_t kReserved = 0x7f;
  SegmentRun run{.stride_bytes = segment_bytes_};
  const uint8_t* at = superframe_.data() + PayloadOffset(index);
  const uint8_t* const end = superframe_.data() + superframe_.size();
  if (segment_bytes_ < sizeof(BthLayout) || end - at < segment_bytes_) return run;
  const auto first = Load<BthLayout>(at);
  if (!InfoOf(static_cast<Opcode>(first.opcode)).is_middle()) return run;
  for (; end - at >= segment_bytes_; at += segment_bytes_, ++run.packets) {
    const auto bth = Load<BthLayout>(at);
    const bool is_same = std::memcmp(&bth, &first, offsetof(BthLayout, ack_request)) == 0 &&
                         ((bth.ack_request ^ first.ack_request) & kReserved) == 0;
    if (!is_same || Psn(bth.psn.value()) != Psn(first.psn.value()) + run.packets) break;
    run.asks_for_ack |= (bth.ack_request & ~kReserved) != 0;
  }
  return run;
}

bool CompleteChecksum(std::span<uint8_t> frame, size_t start, size_t offset) {
  if (start >= frame.size() || offset + 2 > frame.size() - start) return false;
  // The field holds the sum of the pseudo header.
  const uint16_t sum = ChecksumOfSum(SumOfWords(frame.subspan(start)));
  Store(frame.data() + start + offset, Be<2>(sum == 0 ? 0xffff : sum));
  return true;
}

}  // namespace uroce::wire
