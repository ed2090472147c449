// SPDX-License-Identifier: Apache-2.0
// Writes captured frames as pcapng, the format of draft-ietf-opsawg-pcapng.
#include "pipeline/capture/pcapng_writer.h"

#include <cstring>

#include "pipeline/capture/note.h"

namespace uroce::capture {
namespace {

// Block types, option codes and link types of draft-ietf-opsawg-pcapng.
constexpr uint32_t kSectionHeaderBlock = 0x0a0d0d0a;
constexpr uint32_t kInterfaceDescriptionBlock = 1;
constexpr uint32_t kInterfaceStatisticsBlock = 5;
constexpr uint32_t kEnhancedPacketBlock = 6;
constexpr uint32_t kByteOrderMagic = 0x1a2b3c4d;
constexpr uint16_t kLinkTypeEthernet = 1;
constexpr uint16_t kOptionEnd = 0;
constexpr uint16_t kOptionComment = 1;
constexpr uint16_t kOptionShbUserApplication = 4;
constexpr uint16_t kOptionIfName = 2;
constexpr uint16_t kOptionIfMacAddress = 6;
constexpr uint16_t kOptionIfTimeResolution = 9;
constexpr uint16_t kOptionEpbFlags = 2;
constexpr uint16_t kOptionIsbEndTime = 3;
constexpr uint16_t kOptionIsbReceived = 4;
constexpr uint16_t kOptionIsbDropped = 5;
constexpr uint16_t kOptionIsbFilterAccepted = 6;
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

/// The part of a block before the bytes of a frame.
struct PacketHead {
  uint32_t type;
  uint32_t block_bytes;
  uint32_t interface_index;
  TimeStamp time;
  uint32_t captured_bytes;
  uint32_t wire_bytes;
};
static_assert(sizeof(PacketHead) == 28);

/// The part of a block behind the frame, its pad and its comment.
struct PacketEnd {
  uint16_t flags_code;
  uint16_t flags_bytes;
  uint32_t flags;
  uint32_t end_of_options;
  uint32_t block_bytes;
};
static_assert(sizeof(PacketEnd) == 16);

constexpr size_t Padded(size_t bytes) { return (bytes + 3) & ~size_t{3}; }

constexpr size_t kOptionHeadBytes = 4;
// An option's length is 16 bits.
constexpr size_t kMaxCommentBytes = 4096;

size_t OptionBytes(size_t value_bytes) {
  return value_bytes == 0 ? 0 : kOptionHeadBytes + Padded(value_bytes);
}

uint32_t PacketBlockBytes(const CapturedFrame& frame, size_t comment_bytes) {
  return static_cast<uint32_t>(sizeof(PacketHead) + Padded(frame.bytes.size()) +
                               OptionBytes(comment_bytes) + sizeof(PacketEnd));
}

PacketHead HeadOf(const CapturedFrame& frame, size_t comment_bytes) {
  return {.type = kEnhancedPacketBlock,
          .block_bytes = PacketBlockBytes(frame, comment_bytes),
          .interface_index = frame.interface_index,
          .time = TimeStamp(frame.time_ns),
          .captured_bytes = static_cast<uint32_t>(frame.bytes.size()),
          .wire_bytes = frame.wire_length_bytes};
}

PacketEnd EndOf(const CapturedFrame& frame, size_t comment_bytes) {
  // Bits 1:0 of the flags: 1 inbound, 2 outbound; the ABI's values are the same.
  static_assert(UROCE_CAPTURE_INBOUND == 1 && UROCE_CAPTURE_OUTBOUND == 2);
  return {.flags_code = kOptionEpbFlags,
          .flags_bytes = sizeof(uint32_t),
          .flags = frame.direction,
          .end_of_options = kOptionEnd,
          .block_bytes = PacketBlockBytes(frame, comment_bytes)};
}

std::string Comment(const CapturedFrame& frame, std::string_view more) {
  const bool says_nothing = frame.note.reason == UROCE_REASON_NONE && frame.note.flags == 0;
  if (says_nothing && more.empty()) return {};
  std::string comment = NoteText(frame.note);
  if (!more.empty()) comment.append(comment.empty() ? "" : "; ").append(more);
  if (comment.size() > kMaxCommentBytes) comment.resize(kMaxCommentBytes);
  return comment;
}

}  // namespace

void PcapngWriter::AddSection(std::string_view application, std::string_view comment) {
  const size_t start = BeginBlock(kSectionHeaderBlock);
  Put(kByteOrderMagic);
  Put(uint16_t{1});   // Major version.
  Put(uint16_t{0});   // Minor version.
  Put(~uint64_t{0});  // Length of the section: not known, it is written live.
  PutComment(comment);
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

void PcapngWriter::AddFrame(const CapturedFrame& frame, std::string_view comment) {
  const std::string text = Comment(frame, comment);
  if (text.empty()) return PutPlainFrame(frame);
  PutFrameHead(frame, text.size());
  buffer_.insert(buffer_.end(), frame.bytes.begin(), frame.bytes.end());
  PutFrameTail(frame, text);
}

/// Writes a frame without comment, as most are, in one step for the whole block.
void PcapngWriter::PutPlainFrame(const CapturedFrame& frame) {
  const PacketHead head = HeadOf(frame, 0);
  const PacketEnd end = EndOf(frame, 0);
  const size_t start = buffer_.size();
  buffer_.resize(start + head.block_bytes);
  uint8_t* const block = buffer_.data() + start;
  memcpy(block, &head, sizeof(head));
  memcpy(block + sizeof(head), frame.bytes.data(), frame.bytes.size());
  memcpy(block + head.block_bytes - sizeof(end), &end, sizeof(end));
}

void PcapngWriter::AddFrameHead(const CapturedFrame& frame) {
  PutFrameHead(frame, Comment(frame, {}).size());
}

void PcapngWriter::AddFrameTail(const CapturedFrame& frame) {
  PutFrameTail(frame, Comment(frame, {}));
}

void PcapngWriter::PutFrameHead(const CapturedFrame& frame, size_t comment_bytes) {
  Put(HeadOf(frame, comment_bytes));
}

void PcapngWriter::PutFrameTail(const CapturedFrame& frame, std::string_view comment) {
  Pad(frame.bytes.size());
  PutComment(comment);
  Put(EndOf(frame, comment.size()));
}

void PcapngWriter::AddStatistics(uint32_t interface_index, uint64_t time_ns,
                                 const InterfaceStatistics& statistics) {
  const size_t start = BeginBlock(kInterfaceStatisticsBlock);
  Put(interface_index);
  Put(TimeStamp(time_ns));
  PutComment(statistics.comment);
  PutOption(kOptionIsbEndTime, AsBytes(TimeStamp(time_ns)));
  PutOption(kOptionIsbReceived, AsBytes(statistics.received_frames));
  PutOption(kOptionIsbDropped, AsBytes(statistics.lost_frames));
  PutOption(kOptionIsbFilterAccepted, AsBytes(statistics.matching_frames));
  PutOption(kOptionEnd, std::string_view());
  EndBlock(start);
}

void PcapngWriter::PutComment(std::string_view comment) {
  if (!comment.empty()) PutOption(kOptionComment, comment.substr(0, kMaxCommentBytes));
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
  Pad(value.size());
}

void PcapngWriter::Pad(size_t length_bytes) {
  buffer_.resize(buffer_.size() + Padded(length_bytes) - length_bytes);
}

template <typename Value>
void PcapngWriter::Put(Value value) {
  const std::span<const uint8_t> bytes = AsBytes(value);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

}  // namespace uroce::capture
