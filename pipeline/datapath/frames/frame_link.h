// SPDX-License-Identifier: Apache-2.0
// Links by which a worker and another thread of the daemon exchange frames: those of the connection
// manager (GSI) and those of the host's own traffic.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/wire/decode.h"

namespace uroce::datapath {

// Passes copies of frames from one thread to another. Mbufs stay with their worker, so no other
// thread can empty or delay its pool.

enum class PutResult : uint8_t { kPut, kFull, kTooLong };

/// A ring with one producer thread and one consumer thread. Pages are touched when first used.
class FrameRing {
 public:
  /// `depth_frames` is a power of two.
  FrameRing(uint32_t depth_frames, uint32_t slot_bytes);

  // ---- producer ----
  [[nodiscard]] PutResult Put(std::span<const uint8_t> frame);
  /// Returns the next slot to fill, empty when all are taken. Commit says how long its frame is.
  std::span<uint8_t> Reserve();
  void Commit(uint32_t length_bytes);

  // ---- consumer ----
  /// The oldest frame, empty when there is none; it stays until Pop.
  std::span<const uint8_t> Front() const;
  void Pop();

  // ---- any thread ----
  bool empty() const {
    return produced_.load(std::memory_order_acquire) == consumed_.load(std::memory_order_acquire);
  }

 private:
  uint8_t* Slot(uint32_t index) const { return bytes_.get() + size_t{index & mask_} * slot_bytes_; }

  const uint32_t mask_;
  const uint32_t slot_bytes_;
  std::unique_ptr<uint8_t[]> bytes_;
  std::unique_ptr<uint32_t[]> lengths_;
  alignas(64) std::atomic<uint32_t> produced_{0};
  alignas(64) std::atomic<uint32_t> consumed_{0};
};

// A link between a worker and a thread that answers frames which are for no queue pair: the network
// stack of a port, or the general service interface.

/// Each counter is written with relaxed stores by one thread, which its comment names.
struct FrameLinkCounters {
  std::atomic<uint64_t> received{0};     ///< Frames handed to the stack. Worker.
  std::atomic<uint64_t> rx_discards{0};  ///< Dropped: stack behind, or frame too long. Worker.
  std::atomic<uint64_t> sent{0};         ///< Frames of the stack that went to the port. Worker.
  std::atomic<uint64_t> too_long{0};     ///< Dropped: longer than an mbuf. Worker.
  std::atomic<uint64_t> tx_discards{0};  ///< Dropped: the worker was behind. Stack.
  /// Refused frames: by the stack; on the link of the general service interface by the worker.
  std::atomic<uint64_t> rx_refused{0};
};

/// Two rings between one worker and one thread of the stack. A stack that does not keep up, or that
/// sends too fast, loses frames, which are counted. It never delays the worker.
class FrameLink {
 public:
  /// Frames of the stack that a worker sends per turn: half a burst, so that RoCE has its share.
  static constexpr uint32_t kFramesPerTurn = 16;

  FrameLink(uint32_t depth_frames, uint32_t slot_bytes);
  ~FrameLink();
  FrameLink(const FrameLink&) = delete;
  FrameLink& operator=(const FrameLink&) = delete;

  // ---- the one worker that serves it ----
  /// Copies a frame for the stack. False: the stack is behind; the loss is counted.
  bool Hand(std::span<const uint8_t> frame);
  /// Called at the end of a burst: wakes a sleeping stack if the burst had a frame for it.
  void Flush();
  FrameRing& outbound() { return outbound_; }
  const FrameRing& outbound() const { return outbound_; }

  // ---- stack ----
  /// Becomes readable when frames come after PrepareSleep, until ClearWake. A stack that has not
  /// called PrepareSleep since is not woken: it looks on its own.
  int wait_fd() const { return wait_fd_; }
  void ClearWake();
  FrameRing& inbound() { return inbound_; }
  /// Called before waiting for `wait_fd`. False: frames are there, so do not wait.
  bool PrepareSleep();
  /// Queues a frame. False: it was dropped and counted. Then wake the worker (Worker::Wake).
  bool Send(std::span<const uint8_t> frame);

  // ---- any thread ----
  FrameLinkCounters& counters() { return counters_; }
  const FrameLinkCounters& counters() const { return counters_; }

 private:
  FrameRing inbound_;
  FrameRing outbound_;
  int wait_fd_;
  bool handed_ = false;  ///< A frame was handed over in this burst. Worker.
  std::atomic<bool> asleep_{true};
  FrameLinkCounters counters_;
};

// A link for datagrams of queue pair 1, between a device's worker and the thread that answers them.

/// Carries whole frames. The worker has checked all parts of them but the MAD. One worker serves
/// the links of all devices: the owner of queue pair 1.
class GsiLink : public FrameLink {
 public:
  /// Thousands of connection requests come at once, and a lost one is repeated seconds later.
  static constexpr uint32_t kDepthFrames = 4096;
  /// Room for the longest frame: tag, IPv6, BTH, DETH, MAD and ICRC have 346 bytes. Only shorter
  /// frames are padded by Ethernet.
  static constexpr uint32_t kSlotBytes = 384;

  GsiLink() : FrameLink(kDepthFrames, kSlotBytes) {}
};

// A link between a worker and the network stack of a port, which handles all frames but RoCE.

/// Chooses the frames of a port that its stack gets, and carries them to the stack.
class HostLink : public FrameLink {
 public:
  /// Longest frame: Ethernet with a tag and an MTU of 9600, rounded up.
  static constexpr uint32_t kSlotBytes = 9664;

  enum class Takes : uint8_t {
    kHostProtocols,  ///< ARP, ICMP, IGMP, ICMPv6.
    kEverything,     ///< Whatever is no RoCE packet.
  };
  HostLink(Takes takes, uint32_t depth_frames)
      : FrameLink(depth_frames, kSlotBytes), takes_(takes) {}

  /// Whether the stack takes a frame that was decoded as `result`, which is not kOk. Any worker.
  bool Wants(wire::DecodeResult result, std::span<const uint8_t> frame, const Mac& mac) const;
  /// Offers a frame that was decoded as `result`, which is not kOk. True: the stack wants it, and
  /// got a copy unless it is behind. Called by the one worker that serves the link.
  bool Offer(wire::DecodeResult result, std::span<const uint8_t> frame, const Mac& mac);

 private:
  const Takes takes_;
};

/// Whether the IP stack of a host has to see the frame: ARP, ICMP, IGMP, ICMPv6, also behind
/// hop-by-hop options, with or without a tag.
bool IsHostProtocol(std::span<const uint8_t> frame);

}  // namespace uroce::datapath
