// SPDX-License-Identifier: Apache-2.0
// The flight recorder's part in the worker: the newest packets of one queue pair, kept in memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/transport/report.h"
#include "verbs-shim/abi/uroce_capture.h"

namespace uroce::datapath {

inline constexpr uint32_t kFlightSnapBytes = 128;

/// One packet: its head, and what was made of it.
struct FlightPacket {
  uint64_t time_ns = 0;  ///< Since 1970.
  uint32_t wire_length_bytes = 0;
  uint16_t captured_bytes = 0;
  uint16_t direction = 0;  ///< UROCE_CAPTURE_INBOUND or _OUTBOUND.
  uroce_capture_note note{};
  std::array<uint8_t, kFlightSnapBytes> bytes{};
};

/// Of one queue pair, which owns it; the worker's thread. Adding allocates nothing.
class FlightRing {
 public:
  /// `packets` > 0. Takes all its memory here.
  explicit FlightRing(uint32_t packets) : packets_(packets) {}
  void Add(uint16_t direction, std::span<const uint8_t> frame, Nanos time,
           const uroce_capture_note& note);
  /// The oldest first.
  std::vector<FlightPacket> InOrder() const;

 private:
  std::vector<FlightPacket> packets_;
  uint64_t added_ = 0;
};

/// Why a flight ended.
enum class FlightEnd : uint8_t { kTransport, kCompletionQueue, kSendQueue, kReceiveQueue };

/// What is left of a queue pair that went to error by itself.
struct Flight {
  Qpn qpn;
  Qpn remote_qpn;
  uint32_t device_index = 0;
  Nanos time;  ///< Since 1970.
  FlightEnd end = FlightEnd::kTransport;
  transport::Failure failure;  ///< kTransport.
  std::unique_ptr<FlightRing> ring;
};

/// Takes flights from the worker, on its thread, once per failed queue pair: must not block.
class FlightSink {
 public:
  virtual ~FlightSink() = default;
  virtual void Take(Flight flight) = 0;
};

}  // namespace uroce::datapath
