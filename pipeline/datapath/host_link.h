// SPDX-License-Identifier: Apache-2.0
// Between a worker and the stack that speaks everything but RoCE on a port of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/datapath/frame_ring.h"
#include "pipeline/wire/decode.h"

namespace uroce::datapath {

/// Counters of a host link, each written by one thread with relaxed stores.
struct HostLinkCounters {
  std::atomic<uint64_t> received{0};     ///< Frames handed to the stack. Worker.
  std::atomic<uint64_t> rx_discards{0};  ///< It was behind, or the frame too long. Worker.
  std::atomic<uint64_t> sent{0};         ///< Frames of the stack that went to the port. Worker.
  std::atomic<uint64_t> too_long{0};     ///< Lost: longer than an mbuf. Worker.
  std::atomic<uint64_t> tx_discards{0};  ///< The worker was behind. Stack.
  std::atomic<uint64_t> rx_refused{0};   ///< Malformed, as the stack found. Stack.
};

/// Two rings, one worker, and one thread of the stack. A stack that does not keep up, or that
/// sends too fast, loses frames, counted; it never holds the worker up.
class HostLink {
 public:
  /// Longest frame: Ethernet with a tag and an MTU of 9600, rounded up.
  static constexpr uint32_t kSlotBytes = 9664;
  /// Frames of the stack that a worker sends per turn: half a burst, so that RoCE has its share.
  static constexpr uint32_t kFramesPerTurn = 16;

  enum class Takes : uint8_t {
    kHostProtocols,  ///< ARP, ICMP, ICMPv6.
    kEverything,     ///< Whatever is no RoCE packet.
  };
  HostLink(Takes takes, uint32_t depth_frames);
  ~HostLink();
  HostLink(const HostLink&) = delete;
  HostLink& operator=(const HostLink&) = delete;

  /// Whether a frame that was decoded as `result`, not kOk, is the stack's affair. Any worker.
  bool Wants(wire::DecodeResult result, std::span<const uint8_t> frame, const Mac& mac) const;

  // ---- the one worker that serves it ----
  /// A frame that was decoded as `result`, not kOk. True: the stack wants it, and has got a copy
  /// unless it is behind.
  bool Offer(wire::DecodeResult result, std::span<const uint8_t> frame, const Mac& mac);
  /// At the end of a burst: wakes a stack that sleeps, if there was a frame for it.
  void Flush();
  FrameRing& outbound() { return outbound_; }
  const FrameRing& outbound() const { return outbound_; }

  // ---- stack ----
  /// Readable when frames have come since PrepareSleep, until ClearWake. A stack that has not
  /// called PrepareSleep since is not woken: it looks on its own.
  int wait_fd() const { return wait_fd_; }
  void ClearWake();
  FrameRing& inbound() { return inbound_; }
  /// Before waiting for `wait_fd`. False: frames are there.
  bool PrepareSleep();
  /// Queues a frame; false: dropped and counted. Then wake the worker (Worker::Wake).
  bool Send(std::span<const uint8_t> frame);

  // ---- any thread ----
  HostLinkCounters& counters() { return counters_; }
  const HostLinkCounters& counters() const { return counters_; }

 private:
  const Takes takes_;
  FrameRing inbound_;
  FrameRing outbound_;
  int wait_fd_;
  bool offered_ = false;  ///< In this burst. Worker.
  std::atomic<bool> asleep_{true};
  HostLinkCounters counters_;
};

/// Whether a host of its own has to see the frame: ARP, ICMP, ICMPv6, also behind hop-by-hop
/// options, with or without a tag.
bool IsHostProtocol(std::span<const uint8_t> frame);

}  // namespace uroce::datapath
