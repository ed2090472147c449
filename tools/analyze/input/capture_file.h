// SPDX-License-Identifier: Apache-2.0
// Reads the frames of one pcap or pcapng file, which is not trusted. libpcap has no interface of a
// pcapng frame and no direction: without both, a frame that was captured at two interfaces looks
// like a duplicate.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/analyze/input/byte_source.h"

namespace uroce::tools::analyze {

enum class Direction : uint8_t { kUnknown, kInbound, kOutbound };

/// One frame as the file has it.
struct FileFrame {
  uint64_t number = 0;  ///< From 1, as Wireshark counts the frames of the file.
  int64_t time_ns = 0;  ///< Since 1970.
  uint32_t interface_index = 0;
  uint16_t link_type = 0;  ///< A LINKTYPE_ of pcap-linktype(7).
  Direction direction = Direction::kUnknown;
  uint32_t wire_bytes = 0;         ///< Of the frame before it was cut.
  std::span<const uint8_t> bytes;  ///< Valid until the next frame is read.
};

struct FileInterface {
  std::string name;  ///< "" when the file has none.
  uint16_t link_type = 0;
  int64_t ticks_per_second = 1'000'000;
  int64_t offset_s = 0;
};

/// Reads one file from its start to its end. A file that ends within a frame, as that of a capture
/// which still runs, ends before this frame.
class CaptureFile {
 public:
  /// `path` "-" is stdin. Errors, which say `name`: kInvalidArgument when the file cannot be opened
  /// or is no capture.
  static absl::StatusOr<std::unique_ptr<CaptureFile>> Open(const std::string& path,
                                                           const std::string& name);
  explicit CaptureFile(std::string name, std::unique_ptr<ByteStream> stream);

  /// False: the end, or an error.
  bool Next(FileFrame& frame);

  const std::string& name() const { return name_; }
  const std::vector<FileInterface>& interfaces() const { return interfaces_; }
  /// Whether the last frame of the file is incomplete.
  bool is_cut() const { return is_cut_; }
  /// Frames that the capture dropped, as statistics blocks tell.
  uint64_t dropped() const { return dropped_; }
  /// An error names the file and the place in it.
  const absl::Status& status() const { return status_; }

 private:
  enum class Format : uint8_t { kPcap, kPcapng };
  struct Block {
    uint32_t type = 0;
    std::span<const uint8_t> body;
  };

  absl::Status ReadHead();
  bool NextOfPcap(FileFrame& frame);
  bool NextOfPcapng(FileFrame& frame);
  bool ReadBlock(Block& block);
  bool BeginSection(std::span<const uint8_t> head);
  bool TakeBlock(const Block& block, FileFrame& frame);
  void AddInterface(std::span<const uint8_t> body);
  bool TakeEnhancedPacket(std::span<const uint8_t> body, FileFrame& frame);
  bool TakeSimplePacket(std::span<const uint8_t> body, FileFrame& frame);
  void TakeStatistics(std::span<const uint8_t> body);
  bool Fail(const char* reason);
  uint16_t Load16(const uint8_t* at) const;
  uint32_t Load32(const uint8_t* at) const;
  /// Calls `take(code, value)` for each option in `bytes`.
  template <typename Take>
  void EachOption(std::span<const uint8_t> bytes, Take take) const;

  std::string name_;
  ByteWindow window_;
  Format format_ = Format::kPcap;
  bool is_swapped_ = false;
  size_t held_bytes_ = 0;  // Of the last frame or block, which its user may still look at.
  uint64_t count_ = 0;
  std::vector<FileInterface> interfaces_;
  size_t section_start_ = 0;  // The first interface of the current section.
  bool is_cut_ = false;
  uint64_t dropped_ = 0;
  absl::Status status_;
};

}  // namespace uroce::tools::analyze
