// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/input/capture_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace uroce::tools::analyze {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr uint32_t kMostFrameBytes = 16 << 20;
constexpr size_t kMostInterfaces = 1 << 16;

// The pcap format (pcap-savefile(5)).
constexpr uint32_t kPcapMicros = 0xa1b2c3d4;
constexpr uint32_t kPcapNanos = 0xa1b23c4d;
constexpr size_t kPcapHeadBytes = 24;
constexpr size_t kPcapFrameHeadBytes = 16;

// The pcapng format (draft-ietf-opsawg-pcapng): types of blocks, and codes of options.
constexpr uint32_t kSection = 0x0a0d0d0a;
constexpr uint32_t kByteOrder = 0x1a2b3c4d;
constexpr uint32_t kInterface = 1;
constexpr uint32_t kPacket = 2;  // The former form of kEnhancedPacket.
constexpr uint32_t kSimplePacket = 3;
constexpr uint32_t kStatistics = 5;
constexpr uint32_t kEnhancedPacket = 6;
constexpr uint16_t kOptionName = 2;
constexpr uint16_t kOptionFlags = 2;
constexpr uint16_t kOptionResolution = 9;
constexpr uint16_t kOptionOffset = 14;
constexpr uint16_t kOptionDropped = 5;
constexpr size_t kBlockFrameBytes = 12;  // Type and both lengths.

int64_t TicksPerSecond(uint8_t code) {
  const int exponent = code & 0x7f;
  if ((code & 0x80) != 0) return int64_t{1} << std::min(exponent, 40);
  int64_t ticks = 1;
  for (int i = 0; i < std::min(exponent, 12); ++i) ticks *= 10;
  return ticks;
}

constexpr int64_t kMostSeconds = int64_t{1} << 32;

/// Divisions by a constant are fast, and nearly all files have one of two resolutions.
template <uint64_t kPerSecond>
int64_t NanosOf(uint64_t ticks) {
  const auto seconds = static_cast<int64_t>(
      std::min<uint64_t>(ticks / kPerSecond, static_cast<uint64_t>(kMostSeconds)));
  return seconds * kNanosPerSecond +
         static_cast<int64_t>(ticks % kPerSecond * (kNanosPerSecond / kPerSecond));
}

/// Within bounds in which times can be subtracted: files may say anything.
int64_t NanosOf(uint64_t ticks, const FileInterface& interface) {
  if (interface.offset_s == 0 && interface.ticks_per_second == kNanosPerSecond) {
    return NanosOf<kNanosPerSecond>(ticks);
  }
  if (interface.offset_s == 0 && interface.ticks_per_second == 1'000'000) {
    return NanosOf<1'000'000>(ticks);
  }
  const auto per_second = static_cast<uint64_t>(interface.ticks_per_second);
  const auto whole = static_cast<int64_t>(std::min<uint64_t>(ticks / per_second, kMostSeconds));
  const int64_t offset = std::clamp(interface.offset_s, -kMostSeconds, kMostSeconds);
  const int64_t seconds = std::clamp<int64_t>(whole + offset, 0, kMostSeconds);
  const uint64_t rest = ticks % per_second;
  const bool is_fine = per_second > kNanosPerSecond;  // Then the product could overflow.
  const uint64_t part =
      is_fine
          ? static_cast<uint64_t>(static_cast<double>(rest) * 1e9 / static_cast<double>(per_second))
          : rest * kNanosPerSecond / per_second;
  return seconds * kNanosPerSecond + static_cast<int64_t>(part);
}

/// Goes to terminals: without the bytes that steer them.
std::string NameOf(std::span<const uint8_t> value) {
  constexpr size_t kMostBytes = 64;
  std::string name(value.begin(), value.begin() + std::min(value.size(), kMostBytes));
  std::ranges::replace_if(
      name, [](char c) { return static_cast<uint8_t>(c) < ' ' || c == 0x7f; }, '?');
  return name;
}

Direction DirectionOf(uint32_t flags) {
  if ((flags & 3) == 1) return Direction::kInbound;
  return (flags & 3) == 2 ? Direction::kOutbound : Direction::kUnknown;
}

}  // namespace

CaptureFile::CaptureFile(std::string name, std::unique_ptr<ByteStream> stream)
    : name_(std::move(name)), window_(std::move(stream)) {
  status_ = ReadHead();
}

absl::StatusOr<std::unique_ptr<CaptureFile>> CaptureFile::Open(const std::string& path,
                                                               const std::string& name) {
  absl::StatusOr<std::unique_ptr<ByteStream>> stream = OpenStream(path);
  if (!stream.ok()) return stream.status();
  auto file = std::make_unique<CaptureFile>(name, *std::move(stream));
  if (!file->status().ok()) return absl::InvalidArgumentError(file->status().message());
  return file;
}

uint16_t CaptureFile::Load16(const uint8_t* at) const {
  uint16_t value;
  memcpy(&value, at, sizeof value);
  return is_swapped_ ? __builtin_bswap16(value) : value;
}

uint32_t CaptureFile::Load32(const uint8_t* at) const {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return is_swapped_ ? __builtin_bswap32(value) : value;
}

bool CaptureFile::Fail(const char* reason) {
  status_ =
      window_.status().ok()
          ? absl::DataLossError(absl::StrCat(name_, ", byte ", window_.offset(), ": ", reason))
          : window_.status();
  return false;
}

// ---- pcap ----

absl::Status CaptureFile::ReadHead() {
  const std::span<const uint8_t> head = window_.Look(kPcapHeadBytes);
  if (!window_.status().ok()) return window_.status();
  const auto none = [&] {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": neither pcap nor pcapng"));
  };
  if (head.size() < kPcapHeadBytes) return none();
  const uint32_t magic = Load32(head.data());
  if (magic == kSection) {
    format_ = Format::kPcapng;
    return absl::OkStatus();
  }
  is_swapped_ = magic == __builtin_bswap32(kPcapMicros) || magic == __builtin_bswap32(kPcapNanos);
  const uint32_t order = Load32(head.data());
  if (order != kPcapMicros && order != kPcapNanos) return none();
  interfaces_.push_back({.link_type = static_cast<uint16_t>(Load32(head.data() + 20)),
                         .ticks_per_second = order == kPcapNanos ? kNanosPerSecond : 1'000'000});
  window_.Skip(kPcapHeadBytes);
  return absl::OkStatus();
}

bool CaptureFile::NextOfPcap(FileFrame& frame) {
  const std::span<const uint8_t> head = window_.Look(kPcapFrameHeadBytes);
  is_cut_ = !head.empty() && head.size() < kPcapFrameHeadBytes;
  if (head.size() < kPcapFrameHeadBytes) return window_.status().ok() ? false : Fail("");
  const uint32_t bytes = Load32(head.data() + 8);
  if (bytes > kMostFrameBytes) return Fail("a frame has an impossible length");
  const uint64_t seconds = Load32(head.data());
  const uint64_t ticks =
      static_cast<uint64_t>(interfaces_[0].ticks_per_second) * seconds + Load32(head.data() + 4);
  frame.time_ns = NanosOf(ticks, interfaces_[0]);
  frame.wire_bytes = Load32(head.data() + 12);
  const std::span<const uint8_t> whole = window_.Look(kPcapFrameHeadBytes + bytes);
  is_cut_ = whole.size() < kPcapFrameHeadBytes + bytes;
  if (is_cut_) return window_.status().ok() ? false : Fail("");
  frame.bytes = whole.subspan(kPcapFrameHeadBytes);
  frame.interface_index = 0;
  frame.link_type = interfaces_[0].link_type;
  frame.direction = Direction::kUnknown;
  held_bytes_ = whole.size();
  return true;
}

// ---- pcapng ----

/// The byte order of a section stands in its first block.
bool CaptureFile::BeginSection(std::span<const uint8_t> head) {
  is_swapped_ = false;
  if (Load32(head.data() + 8) == __builtin_bswap32(kByteOrder)) is_swapped_ = true;
  if (Load32(head.data() + 8) != kByteOrder) return Fail("no byte order of a section");
  section_start_ = interfaces_.size();
  return true;
}

bool CaptureFile::ReadBlock(Block& block) {
  const std::span<const uint8_t> head = window_.Look(kBlockFrameBytes);
  is_cut_ = !head.empty() && head.size() < kBlockFrameBytes;
  if (head.size() < kBlockFrameBytes) return window_.status().ok() ? false : Fail("");
  block.type = Load32(head.data());
  if (block.type == kSection && !BeginSection(head)) return false;
  const uint32_t length = Load32(head.data() + 4);
  if (length < kBlockFrameBytes || length % 4 != 0 || length > kMostFrameBytes) {
    return Fail("a block has an impossible length");
  }
  const std::span<const uint8_t> whole = window_.Look(length);
  is_cut_ = whole.size() < length;
  if (is_cut_) return window_.status().ok() ? false : Fail("");
  block.body = whole.subspan(8, length - kBlockFrameBytes);
  held_bytes_ = length;
  return true;
}

template <typename Take>
void CaptureFile::EachOption(std::span<const uint8_t> bytes, Take take) const {
  while (bytes.size() >= 4) {
    const uint16_t code = Load16(bytes.data());
    const size_t length = Load16(bytes.data() + 2);
    const size_t padded = (length + 3) / 4 * 4;
    if (code == 0 || padded > bytes.size() - 4) return;
    take(code, bytes.subspan(4, length));
    bytes = bytes.subspan(4 + padded);
  }
}

void CaptureFile::AddInterface(std::span<const uint8_t> body) {
  if (body.size() < 8 || interfaces_.size() == kMostInterfaces) return;
  FileInterface interface { .link_type = Load16(body.data()) };
  EachOption(body.subspan(8), [&](uint16_t code, std::span<const uint8_t> value) {
    if (code == kOptionName) interface.name = NameOf(value);
    if (code == kOptionResolution && !value.empty()) {
      interface.ticks_per_second = TicksPerSecond(value[0]);
    }
    if (code == kOptionOffset && value.size() == 8) {
      const uint64_t high = Load32(value.data() + (is_swapped_ ? 0 : 4));
      const uint64_t low = Load32(value.data() + (is_swapped_ ? 4 : 0));
      interface.offset_s = static_cast<int64_t>(high << 32 | low);
    }
  });
  interfaces_.push_back(std::move(interface));
}

bool CaptureFile::TakeEnhancedPacket(std::span<const uint8_t> body, FileFrame& frame) {
  if (body.size() < 20) return Fail("a block of a frame is too short");
  const uint64_t index = section_start_ + uint64_t{Load32(body.data())};
  if (index >= interfaces_.size()) return Fail("a frame is of no interface");
  const uint64_t ticks = uint64_t{Load32(body.data() + 4)} << 32 | Load32(body.data() + 8);
  const uint32_t bytes = Load32(body.data() + 12);
  if (bytes > body.size() - 20) return Fail("a frame is longer than its block");
  const FileInterface& interface = interfaces_[index];
  frame.interface_index = static_cast<uint32_t>(index);
  frame.link_type = interface.link_type;
  frame.time_ns = NanosOf(ticks, interface);
  frame.wire_bytes = Load32(body.data() + 16);
  frame.bytes = body.subspan(20, bytes);
  frame.direction = Direction::kUnknown;
  const size_t options = 20 + (size_t{bytes} + 3) / 4 * 4;
  if (options >= body.size()) return true;
  EachOption(body.subspan(options), [&](uint16_t code, std::span<const uint8_t> value) {
    if (code == kOptionFlags && value.size() == 4) {
      frame.direction = DirectionOf(Load32(value.data()));
    }
  });
  return true;
}

/// Such frames have no time: they keep that of the frame before.
bool CaptureFile::TakeSimplePacket(std::span<const uint8_t> body, FileFrame& frame) {
  if (body.size() < 4) return Fail("a block of a frame is too short");
  if (section_start_ >= interfaces_.size()) return Fail("a frame is of no interface");
  frame.interface_index = static_cast<uint32_t>(section_start_);
  frame.link_type = interfaces_[section_start_].link_type;
  frame.direction = Direction::kUnknown;
  frame.wire_bytes = Load32(body.data());
  frame.bytes = body.subspan(4, std::min<size_t>(frame.wire_bytes, body.size() - 4));
  return true;
}

void CaptureFile::TakeStatistics(std::span<const uint8_t> body) {
  if (body.size() < 12) return;
  EachOption(body.subspan(12), [&](uint16_t code, std::span<const uint8_t> value) {
    if (code != kOptionDropped || value.size() != 8) return;
    dropped_ += Load32(value.data() + (is_swapped_ ? 4 : 0));
  });
}

/// Whether the block is a frame.
bool CaptureFile::TakeBlock(const Block& block, FileFrame& frame) {
  switch (block.type) {
    case kInterface:
      AddInterface(block.body);
      return false;
    case kStatistics:
      TakeStatistics(block.body);
      return false;
    case kEnhancedPacket:
      return TakeEnhancedPacket(block.body, frame);
    case kSimplePacket:
      return TakeSimplePacket(block.body, frame);
    case kPacket:
      Fail("a block of the obsolete type 2: please convert the file by editcap(1)");
      return false;
    default:
      return false;
  }
}

bool CaptureFile::NextOfPcapng(FileFrame& frame) {
  for (Block block; ReadBlock(block);) {
    if (TakeBlock(block, frame)) return true;
    if (!status_.ok()) return false;
    window_.Skip(std::exchange(held_bytes_, 0));
  }
  return false;
}

bool CaptureFile::Next(FileFrame& frame) {
  window_.Skip(std::exchange(held_bytes_, 0));
  if (!status_.ok()) return false;
  if (!(format_ == Format::kPcap ? NextOfPcap(frame) : NextOfPcapng(frame))) return false;
  frame.number = ++count_;
  return true;
}

}  // namespace uroce::tools::analyze
