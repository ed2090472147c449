// SPDX-License-Identifier: Apache-2.0
// From a captured frame to the RoCEv2 packet in it: link layers, VLANs and tunnels are taken off,
// cut frames are read as far as they go, and the ICRC is checked.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"
#include "tools/analyze/input/capture_file.h"

namespace uroce::tools::analyze {

/// What a frame holds.
enum class FrameKind : uint8_t {
  kRoce,       ///< A packet; `decode` is kOk.
  kOther,      ///< Another protocol.
  kPause,      ///< A pause of a link or of priorities (docs/protocol/congestion.md, section 9).
  kMalformed,  ///< RoCEv2 that no receiver accepts; `decode` says why.
  kCut,        ///< RoCEv2 whose headers the capture has cut.
  kOffloaded,  ///< Many packets in one, before the kernel or an adapter cuts them.
};

enum class IcrcState : uint8_t { kUnknown, kRight, kWrong };  ///< kUnknown: the frame is cut.

/// A packet, and what of its frame the analysis uses.
struct CapturedPacket {
  uint64_t number = 0;
  int64_t time_ns = 0;
  uint32_t file = 0;
  uint32_t point = 0;  ///< See CapturePoints.
  Direction direction = Direction::kUnknown;
  uint32_t wire_bytes = 0;
  FrameKind kind = FrameKind::kOther;
  wire::DecodeResult decode = wire::DecodeResult::kOk;
  // The rest is valid if `kind` is kRoce.
  wire::Packet packet;  ///< The payload of a cut frame has the right length and wrong bytes.
  wire::FrameView view;
  std::span<const uint8_t> frame;  ///< From Ethernet on, without tunnels.
  IcrcState icrc = IcrcState::kUnknown;
  uint32_t icrc_bytes = 0;  ///< The ICRC as it stands in the frame; 0 if cut.
  uint16_t identification = 0;
  uint16_t source_port = 0;
  uint8_t traffic_class = 0;
  bool is_cut = false;
  uint32_t inner_interface = 0;  ///< On "any": the interface that the frame passed.
};

/// Has room for one frame that is not used in place. One thread.
class PacketReader {
 public:
  PacketReader() : room_(kRoomBytes) {}

  /// Fills in all but `file` and `point`. `captured` refers to the bytes of `frame` and of this
  /// reader, until the next call.
  void Read(const FileFrame& frame, CapturedPacket& captured);

 private:
  static constexpr size_t kRoomBytes = 14 + 65536 + 64;

  void DecodeAt(std::span<const uint8_t> bytes, size_t ip, uint16_t ether_type,
                CapturedPacket& captured);
  std::span<const uint8_t> Copy(std::span<const uint8_t> from_ip, size_t whole_bytes,
                                uint16_t ether_type);
  void Finish(CapturedPacket& captured) const;

  std::vector<uint8_t> room_;
};

}  // namespace uroce::tools::analyze
