// SPDX-License-Identifier: Apache-2.0
// Frames on their way through the daemon: what is marked on a frame's mbuf, the ring by which one
// thread gives frames to another, and the fds that wake a worker that sleeps.
#pragma once

#include <poll.h>
#include <rte_debug.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/os/fd.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/icrc.h"
#include "pipeline/wire/packet.h"

namespace uroce::drivers {

// What the daemon marks on a frame's mbuf: flags, the queue pair that the frame is sent to, an ICRC
// that is still to be written.

/// A mark that a frame carries while it is in the daemon: a dynamic flag of mbufs, allotted by
/// DPDK once per name; drivers clear it in received frames.
class FrameFlag {
 public:
  /// DPDK has been started. `name` has fewer than RTE_MBUF_DYN_NAMESIZE characters.
  explicit FrameFlag(const char* name) : bit_(Register(name)) {}

  bool IsSet(const rte_mbuf& frame) const { return (frame.ol_flags & bit_) != 0; }
  void Set(rte_mbuf& frame) const { frame.ol_flags |= bit_; }
  void Clear(rte_mbuf& frame) const { frame.ol_flags &= ~bit_; }

 private:
  static uint64_t Register(const char* name) {
    rte_mbuf_dynflag flag{};
    std::snprintf(flag.name, sizeof(flag.name), "%s", name);
    const int bit = rte_mbuf_dynflag_register(&flag);
    RTE_VERIFY(bit >= 0);
    return uint64_t{1} << static_cast<uint32_t>(bit);
  }

  const uint64_t bit_;
};

/// Every frame given to Port::TransmitBurst carries its destination. A port whose other end has
/// several queues chooses the queue by it, as a NIC does by a flow rule. Qpn(): not RoCE. The
/// number is in the mbuf's hash, which drivers write on receiving and do not read.
inline void SetDestination(rte_mbuf& frame, Qpn qpn) { frame.hash.rss = qpn.value(); }
inline Qpn DestinationOf(const rte_mbuf& frame) { return Qpn(frame.hash.rss); }

/// Marks frames that stay in the daemon's memory and do not carry their ICRC: the sender has not
/// computed it and the receiver need not check it, as with checksums of the kernel's loopback. Code
/// that shows a marked frame outside, or spoils it, fills its ICRC in first.
class PendingIcrc {
 public:
  bool IsSet(const rte_mbuf& frame) const { return flag_.IsSet(frame); }
  void Set(rte_mbuf& frame) const { flag_.Set(frame); }
  /// For a copy of the bytes of `from`.
  void Inherit(rte_mbuf& copy, const rte_mbuf& from) const {
    if (IsSet(from)) Set(copy);
  }
  /// Computes the ICRC of a marked frame, and leaves the mark: what is right needs no check.
  void Fill(const rte_mbuf& frame) const {
    if (!IsSet(frame)) return;
    wire::Packet packet;
    wire::FrameView view;
    const std::span<uint8_t> bytes{rte_pktmbuf_mtod(&frame, uint8_t*), frame.data_len};
    if (wire::Decode(bytes, packet, view) != wire::DecodeResult::kOk) return;
    const uint8_t* const ip = bytes.data() + view.ip_offset;
    const auto length = static_cast<size_t>(view.icrc_offset - view.ip_offset);
    wire::StoreIcrc(bytes.data() + view.icrc_offset,
                    wire::MaskedHeaderCrc32(ip, length, view.is_ipv6));
  }
  /// Fills the ICRC in, and has it checked.
  void Settle(rte_mbuf& frame) const {
    Fill(frame);
    flag_.Clear(frame);
  }

 private:
  const FrameFlag flag_{"uroce_pending_icrc"};
};

/// Marks received frames whose ICRC a port has found right. Code that spoils one removes the mark.
class CheckedIcrc : public FrameFlag {
 public:
  CheckedIcrc() : FrameFlag("uroce_checked_icrc") {}
};

/// Owns the frames in it. Neither end blocks. Each end reads the other's index only when its own
/// copy of that index says that there is nothing to do.
class FrameQueue {
 public:
  /// Holds exactly `depth_frames`, 1 to kMaxDepthFrames. Frames come from pools that outlive the
  /// queue.
  explicit FrameQueue(uint32_t depth_frames);
  ~FrameQueue();
  FrameQueue(const FrameQueue&) = delete;
  FrameQueue& operator=(const FrameQueue&) = delete;

  static constexpr uint32_t kMaxDepthFrames = 32768;

  // ---- producer ----
  /// Takes the first n frames and returns n: as many as fit.
  [[nodiscard]] uint16_t Put(rte_mbuf* const* frames, uint16_t count);
  /// How many frames fit. The number is exact when it is below `enough`.
  uint32_t Room(uint32_t enough);

  // ---- consumer ----
  /// Yields up to `count` frames, the oldest first; the caller owns them.
  uint16_t Take(rte_mbuf** frames, uint16_t count);
  bool empty() const { return produced_.load(std::memory_order_acquire) == taken_; }

 private:
  const uint32_t depth_;
  const uint32_t mask_;
  const std::unique_ptr<rte_mbuf*[]> slots_;
  alignas(64) std::atomic<uint32_t> produced_{0};
  uint32_t put_ = 0;  // The producer's own index.
  uint32_t seen_consumed_ = 0;
  alignas(64) std::atomic<uint32_t> consumed_{0};
  uint32_t taken_ = 0;  // The consumer's own index.
  uint32_t seen_produced_ = 0;
};

// The fds that wake a sleeping worker when frames arrive, from the kernel (ReceiveWake) or from
// another worker (Bell).

/// One fd that combines the fds of a device: an epoll set. The fds belong to a driver. ReceiveWake
/// waits on them and never reads them: an edge on one makes `fd` readable until the next Drain. A
/// worker that finds no frames after an edge was woken once in vain.
class ReceiveWake {
 public:
  ReceiveWake();
  ~ReceiveWake();
  ReceiveWake(const ReceiveWake&) = delete;
  ReceiveWake& operator=(const ReceiveWake&) = delete;

  int fd() const { return epoll_fd_; }
  /// Control thread, while no worker is inside the port. False: the fd cannot be waited on.
  bool Add(int fd);
  /// Like Add, for a driver that finds its frames only some time after the edge.
  bool AddLate(int fd);
  void RemoveAll();
  /// Whether frames wait behind an fd of AddLate: the edge may be drained before the driver has
  /// found them. Called by the worker before it sleeps.
  bool IsLate();
  /// Clears the edges so far. Called by the worker.
  void Drain();

 private:
  int epoll_fd_;
  std::vector<int> fds_;
  std::vector<pollfd> late_;
};

/// Wakes the worker that drives one queue of a port. A worker that puts a frame where another
/// worker looks calls Ring afterwards. A worker that is about to sleep calls Announce and then
/// looks for frames once more. Of these two atomic exchanges the later one sees the other: either
/// the worker sees the frame, or the ringer sees that the worker sleeps.
class alignas(64) Bell {
 public:
  Bell();
  int fd() const { return event_.get(); }

  /// Called by any worker.
  void Ring();
  // ---- the worker of the queue ----
  void Announce() { asleep_.exchange(true, std::memory_order_acq_rel); }
  /// Must follow each Announce.
  void TakeBack();

 private:
  std::atomic<bool> asleep_{false};
  Fd event_;
};

}  // namespace uroce::drivers
