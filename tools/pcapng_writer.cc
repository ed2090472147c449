// SPDX-License-Identifier: Apache-2.0
#include "tools/pcapng_writer.h"

#include <cstring>

namespace uroce::tools {
namespace {

// Block types, option codes and link types of draft-ietf-opsawg-pcapng.
constexpr uint32_t kSectionHeaderBlock = 0x0a0d0d0a;
constexpr uint32_t kInterfaceDescriptionBlock = 1;
constexpr uint32_t kInterfaceStatisticsBlock = 5;
constexpr uint32_t kEnhancedPacketBlock = 6;
constexpr uint32_t kByteOrderMagic = 0x1a2b3c4d;
constexpr uint16_t kLinkTypeEthernet = 1;
constexpr uint16_t kOptionEnd = 0;
constexpr uint16_t kOptionShbUserApplication = 4;
constexpr uint16_t kOptionIfName = 2;
constexpr uint16_t kOptionIfMacAddress = 6;
constexpr uint16_t kOptionIfTimeResolution = 9;
constexpr uint16_t kOptionEpbFlags = 2;
constexpr uint16_t kOptionIsbEndTime = 3;
constexpr uint16_t kOptionIsbReceived = 4;
constexpr uint16_t kOptionIsbDropped = 5;
constexpr uint8_t kNanoseconds = 9;  // Time stamps count units of 10^-9 s.

std::span<const uint8_t> AsBytes(const auto& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof(value)};
}

/// pcapng stores a time stamp as two words, the upper one first, in either byte order.
struct TimeStamp {
  explicit TimeStamp(uint64_t time_ns)
      : upper(static_cast<uint32_t>(time_ns >> 32)), lower(static_cast<uint32_t>(time_ns)) {}
  uint32_t upper;
  uint32_t lower;
};

}  // namespace

void PcapngWriter::AddSection(std::string_view application) {
  const size_t start = BeginBlock(kSectionHeaderBlock);
  Put(kByteOrderMagic);
  Put(uint16_t{1});   // Major version.
  Put(uint16_t{0});   // Minor version.
  Put(~uint64_t{0});  // Length of the section: not known, it is written live.
  PutOption(kOptionShbUserApplication, application);
  PutOption(kOptionEnd, std::string_view());
  EndBlock(start);
}

void PcapngWriter::AddInterface(const uroce_capture_interface& interface,
                                uint32_t snap_length_bytes) {
  const size_t start = BeginBlock(kInterfaceDescriptionBlock);
  Put(kLinkTypeEthernet);
  Put(uint16_t{0});
  Put(snap_length_bytes);
  PutOption(kOptionIfName,
            std::string_view(interface.name, strnlen(interface.name, sizeof(interface.name))));
  PutOption(kOptionIfMacAddress, AsBytes(interface.mac));
  PutOption(kOptionIfTimeResolution, AsBytes(kNanoseconds));
  PutOption(kOptionEnd, std::string_view());
  EndBlock(start);
}

void PcapngWriter::AddFrame(const CapturedFrame& frame) {
  const size_t start = BeginBlock(kEnhancedPacketBlock);
  Put(frame.interface_index);
  Put(TimeStamp(frame.time_ns));
  Put(static_cast<uint32_t>(frame.bytes.size()));
  Put(frame.wire_length_bytes);
  PutPadded(frame.bytes);
  // Bits 1:0 of the flags: 1 inbound, 2 outbound; the ABI's values are the same.
  static_assert(UROCE_CAPTURE_INBOUND == 1 && UROCE_CAPTURE_OUTBOUND == 2);
  PutOption(kOptionEpbFlags, AsBytes(frame.direction));
  PutOption(kOptionEnd, std::string_view());
  EndBlock(start);
}

void PcapngWriter::AddStatistics(uint32_t interface_index, uint64_t time_ns,
                                 uint64_t received_frames, uint64_t lost_frames) {
  const size_t start = BeginBlock(kInterfaceStatisticsBlock);
  Put(interface_index);
  Put(TimeStamp(time_ns));
  PutOption(kOptionIsbEndTime, AsBytes(TimeStamp(time_ns)));
  PutOption(kOptionIsbReceived, AsBytes(received_frames));
  PutOption(kOptionIsbDropped, AsBytes(lost_frames));
  PutOption(kOptionEnd, std::string_view());
  EndBlock(start);
}

size_t PcapngWriter::BeginBlock(uint32_t type) {
  const size_t start = buffer_.size();
  Put(type);
  Put(uint32_t{0});  // The block's length, set by EndBlock.
  return start;
}

void PcapngWriter::EndBlock(size_t start) {
  const auto length_bytes = static_cast<uint32_t>(buffer_.size() - start + sizeof(uint32_t));
  Put(length_bytes);
  memcpy(&buffer_[start + sizeof(uint32_t)], &length_bytes, sizeof(length_bytes));
}

void PcapngWriter::PutOption(uint16_t code, std::span<const uint8_t> value) {
  Put(code);
  Put(static_cast<uint16_t>(value.size()));
  PutPadded(value);
}

void PcapngWriter::PutOption(uint16_t code, std::string_view value) {
  PutOption(code, std::span(reinterpret_cast<const uint8_t*>(value.data()), value.size()));
}

void PcapngWriter::PutPadded(std::span<const uint8_t> value) {
  buffer_.insert(buffer_.end(), value.begin(), value.end());
  buffer_.resize((buffer_.size() + 3) & ~size_t{3});
}

template <typename Value>
void PcapngWriter::Put(Value value) {
  const std::span<const uint8_t> bytes = AsBytes(value);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

}  // namespace uroce::tools
