// SPDX-License-Identifier: Apache-2.0
#include "drivers/cable/cable_port.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/base/types.h"
#include "pipeline/port/frames.h"

namespace uroce::drivers {
namespace {

constexpr uint64_t kSpeedBps = 100'000'000'000;
constexpr uint16_t kMaxQueues = 64;  // As many as a word has bits.
/// The most room in a ring that is reported: senders need to know no more.
constexpr uint32_t kEnoughRoom = 64;

/// The frames that arrive at one end: a lane from each queue of the other end to each queue of this
/// end.
class Inlet {
 public:
  Inlet(uint16_t queues, uint32_t depth_frames) : queues_(queues), bells_(queues) {
    for (uint32_t i = 0; i < uint32_t{queues} * queues; ++i) {
      lanes_.push_back(std::make_unique<FrameQueue>(depth_frames));
    }
  }
  FrameQueue& Lane(uint16_t from, uint16_t to) { return *lanes_[uint32_t{from} * queues_ + to]; }
  Bell& BellOf(uint16_t queue) { return bells_[queue]; }

  /// Its end is gone. From now on only Drain takes frames.
  void Abandon() { is_abandoned_.store(true, std::memory_order_relaxed); }
  bool is_abandoned() const { return is_abandoned_.load(std::memory_order_relaxed); }
  /// Frees the frames that an abandoned inlet has got, and returns their number.
  uint64_t Drain();

 private:
  const uint16_t queues_;
  std::vector<std::unique_ptr<FrameQueue>> lanes_;
  std::vector<Bell> bells_;
  std::atomic<bool> is_abandoned_{false};
};

uint64_t Inlet::Drain() {
  std::array<rte_mbuf*, 32> frames;
  uint64_t freed = 0;
  for (const auto& lane : lanes_) {
    uint16_t got = 0;
    while ((got = lane->Take(frames.data(), frames.size())) != 0) {
      rte_pktmbuf_free_bulk(frames.data(), got);
      freed += got;
    }
  }
  return freed;
}

class CablePort final : public Port {
 public:
  CablePort(const CableEndConfig& config, uint16_t queues, std::shared_ptr<Inlet> out,
            std::shared_ptr<Inlet> in)
      : config_(config),
        queues_(queues),
        out_(std::move(out)),
        in_(std::move(in)),
        first_lane_(queues) {}
  ~CablePort() override { in_->Abandon(); }

  uint16_t queues() const override { return queues_; }
  uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitRoom(uint16_t queue) const override;
  const void* outlet(uint16_t) const override { return out_.get(); }
  const void* inlet(uint16_t) const override { return in_.get(); }
  bool IsOutletEmpty(uint16_t queue) const override { return out_->Lane(queue, queue).empty(); }
  int wait_fd(uint16_t queue) const override {
    return wakes_itself() ? -1 : in_->BellOf(queue).fd();
  }
  /// With one queue, one worker drives both ends, or threads that do not sleep drive them.
  bool wakes_itself() const override { return queues_ == 1; }
  bool BeforeSleep(uint16_t queue) override;
  void AfterSleep(uint16_t queue) override;
  void UseOwners(const QpnOwners& owners) override { owners_ = &owners; }
  PortInfo Info() const override;
  PortCounters counters() const override {
    return {.tx_discards = lost_.load(std::memory_order_relaxed)};
  }
  void Maintain(WhileIdle while_idle) override;

 private:
  void Wake(uint64_t queues);
  uint16_t Taken(rte_mbuf** frames, uint16_t sent, uint16_t count);

  struct alignas(64) FirstLane {
    uint16_t from = 0;
  };

  uint32_t QueueOf(Qpn qpn) const {
    return owners_ == nullptr ? OwnerOf(qpn, queues_) : owners_->OwnerOf(qpn);
  }

  const CableEndConfig config_;
  const uint16_t queues_;
  const std::shared_ptr<Inlet> out_;
  const std::shared_ptr<Inlet> in_;
  const QpnOwners* owners_ = nullptr;  ///< Null: numbers say the queues.
  std::vector<FirstLane> first_lane_;  ///< Of each queue: the lane that it reads first.
  std::atomic<uint64_t> lost_{0};      ///< Frames for an end that is gone.
};

PortInfo CablePort::Info() const {
  const bool is_cut = out_->is_abandoned();
  return {.mac = config_.mac,
          .mtu_bytes = config_.mtu_bytes,
          .link_up = !is_cut,
          .why_down = is_cut ? "the other end of the wire was removed" : "",
          .speed_bps = kSpeedBps,
          .driver = "wire",
          .interface = "",
          .ifindex = 0};
}

/// Reads all lanes of the queue; they take turns at being the first.
uint16_t CablePort::ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos) {
  if (queues_ == 1) return in_->Lane(0, 0).Take(frames, count);
  uint16_t from = first_lane_[queue].from;
  uint16_t got = 0;
  for (uint16_t i = 0; i < queues_ && got < count; ++i) {
    got += in_->Lane(from, queue).Take(frames + got, count - got);
    from = from + 1u < queues_ ? from + 1u : 0;
  }
  first_lane_[queue].from = from + 1u < queues_ ? from + 1u : 0;
  return got;
}

/// Sends frames for the same queue together. The first frame that does not fit ends the burst.
uint16_t CablePort::TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos) {
  if (queues_ == 1) return Taken(frames, out_->Lane(0, 0).Put(frames, count), count);
  const auto target = [&](uint16_t i) { return QueueOf(DestinationOf(*frames[i])); };
  uint64_t reached = 0;
  uint16_t sent = 0;
  bool fits = true;
  while (fits && sent < count) {
    const uint32_t to = target(sent);
    uint16_t run = 1;
    while (sent + run < count && target(sent + run) == to) ++run;
    const uint16_t put = out_->Lane(queue, static_cast<uint16_t>(to)).Put(frames + sent, run);
    if (put != 0) reached |= uint64_t{1} << to;
    fits = put == run;
    sent += put;
  }
  Wake(reached & ~(uint64_t{1} << queue));
  return Taken(frames, sent, count);
}

/// How many of `count` frames are taken when `sent` have found room: all of them if the other end
/// has gone.
uint16_t CablePort::Taken(rte_mbuf** frames, uint16_t sent, uint16_t count) {
  if (sent == count || !out_->is_abandoned()) return sent;
  rte_pktmbuf_free_bulk(frames + sent, static_cast<unsigned>(count - sent));
  lost_.fetch_add(static_cast<uint64_t>(count - sent), std::memory_order_relaxed);
  return count;
}

void CablePort::Maintain(WhileIdle) {
  if (out_->is_abandoned()) lost_.fetch_add(out_->Drain(), std::memory_order_relaxed);
}

/// The room of the fullest lane, since a frame may be for any lane.
uint16_t CablePort::TransmitRoom(uint16_t queue) const {
  uint32_t room = UINT16_MAX;
  for (uint16_t to = 0; to < queues_; ++to) {
    room = std::min(room, out_->Lane(queue, to).Room(kEnoughRoom));
  }
  if (room == 0 && out_->is_abandoned()) room = kEnoughRoom;
  return static_cast<uint16_t>(room);
}

void CablePort::Wake(uint64_t queues) {
  for (; queues != 0; queues &= queues - 1) {
    out_->BellOf(static_cast<uint16_t>(std::countr_zero(queues))).Ring();
  }
}

bool CablePort::BeforeSleep(uint16_t queue) {
  if (wakes_itself()) return true;
  in_->BellOf(queue).Announce();
  for (uint16_t from = 0; from < queues_; ++from) {
    if (!in_->Lane(from, queue).empty()) return false;
  }
  return true;
}

void CablePort::AfterSleep(uint16_t queue) {
  if (!wakes_itself()) in_->BellOf(queue).TakeBack();
}

}  // namespace

absl::StatusOr<Cable> MakeCable(const CableEndConfig& first, const CableEndConfig& second,
                                const CableConfig& config) {
  if (config.depth_frames == 0 || config.depth_frames > FrameQueue::kMaxDepthFrames) {
    return absl::InvalidArgumentError(absl::StrCat("wire: depth of ", config.depth_frames,
                                                   " frames, 1 to ", FrameQueue::kMaxDepthFrames));
  }
  if (config.queues == 0 || config.queues > kMaxQueues) {
    return absl::InvalidArgumentError(
        absl::StrCat("wire: ", config.queues, " queues, 1 to ", kMaxQueues));
  }
  const auto forth = std::make_shared<Inlet>(config.queues, config.depth_frames);
  const auto back = std::make_shared<Inlet>(config.queues, config.depth_frames);
  Cable cable;
  cable.first = std::make_unique<CablePort>(first, config.queues, forth, back);
  cable.second = std::make_unique<CablePort>(second, config.queues, back, forth);
  return cable;
}

}  // namespace uroce::drivers
