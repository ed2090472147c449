// SPDX-License-Identifier: Apache-2.0
// A port around any other port: it drops, duplicates, delays, reorders, corrupts or marks the
// frames of each direction (FaultLane), by a seed and rates, and single packets by rules, or has no
// link.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "drivers/fault/fault_config.h"
#include "pipeline/base/types.h"
#include "pipeline/port/port.h"

struct rte_mbuf;
struct rte_mempool;

namespace uroce::drivers {

/// What a lane did, cumulative. Frames that left = taken - dropped + duplicated - frames still
/// held.
struct FaultCounters {
  uint64_t taken = 0;
  uint64_t dropped = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t corrupted = 0;
  uint64_t ce_marked = 0;
  FaultCounters& operator+=(const FaultCounters& other);
};

/// The rules that a lane applies. The port owns them.
using LaneRules = std::vector<ActiveFaultRule*>;

/// Owns the frames that it holds, and loses none except by a drop. Used by one thread. `now` never
/// goes back. A caller puts in at most room() frames.
class FaultLane {
 public:
  /// Duplicates are made in mbufs of `copies`; when it is null, no frame is duplicated.
  FaultLane(const FaultConfig& config, LaneRules rules, uint64_t seed, rte_mempool* copies);
  ~FaultLane();
  FaultLane(const FaultLane&) = delete;
  FaultLane& operator=(const FaultLane&) = delete;

  /// Applies to the next frame and those after it: the rates and the delay of `config`, and
  /// `rules`. Frames in the lane leave as they would have.
  void Set(const FaultConfig& config, LaneRules rules, uint64_t seed);

  /// Takes ownership of `frame`. room() must not be 0.
  void Put(rte_mbuf* frame, Nanos now);
  /// Yields up to `count` frames that are due, in the order in which they leave.
  uint16_t Take(rte_mbuf** frames, uint16_t count, Nanos now);
  /// Puts frames that the other end refused back to the front, in their order.
  void Untake(rte_mbuf* const* frames, uint16_t count);

  /// Whether frames may bypass the lane: it makes no faults and holds no frames.
  bool is_idle() const { return is_harmless_ && line_.empty() && held_.empty(); }
  /// How many frames fit even if each of them is duplicated.
  uint16_t room() const;
  /// When the next frame is due: in the past if one is waiting, kNever if none is held.
  Nanos NextDeadline() const;
  const FaultCounters& counters() const { return counters_; }

 private:
  struct Late {
    rte_mbuf* frame;
    Nanos due;
  };
  /// A frame that is held back, so that others pass it.
  struct Held {
    rte_mbuf* frame;
    Nanos due;         ///< The frame leaves then at the latest, even if no more frames pass.
    uint32_t passing;  ///< How many frames must still pass it.
  };

  /// How long a frame is held back at most.
  struct Hold {
    Nanos longest;
    uint32_t passing;  ///< Frames that may pass it.
  };
  /// What becomes of one frame.
  struct Fate {
    bool drop = false;
    bool duplicate = false;
    bool mark = false;
    bool corrupt = false;                ///< At a random place.
    std::optional<uint32_t> corrupt_at;  ///< At this byte.
    std::optional<Hold> hold;
  };

  bool Chance(double rate);
  Fate DrawFate();
  void ApplyRules(std::span<const uint8_t> frame, Fate& fate);
  void Line(rte_mbuf* frame, const std::optional<Hold>& hold, Nanos now);
  void Duplicate(const rte_mbuf* frame, Nanos now);
  void Corrupt(rte_mbuf* frame);
  void Change(rte_mbuf* frame, uint32_t at, uint8_t flip);
  rte_mbuf* TakeHeld(Nanos now);

  FaultConfig config_;
  LaneRules rules_;
  bool is_harmless_ = true;
  rte_mempool* const copies_;
  std::mt19937_64 random_;
  std::deque<Late> line_;  ///< In order of arrival, which is also the order of `due`.
  std::vector<Held> held_;
  FaultCounters counters_;
};

/// A port with faults in one or both directions. Each queue has its own faults: on a port of one
/// queue the same seed and frames give the same faults. Without faults the port passes bursts on
/// unchanged. ReceiveBurst also sends on the frames that wait in the port, so a worker that polls
/// needs to do nothing else. A worker that wants to sleep asks NextDeadline.
class FaultPort final : public Port {
 public:
  /// Duplicates, and packets of superframes that faults may meet, are copied into mbufs of
  /// `copies`, which outlives this port.
  FaultPort(std::unique_ptr<Port> port, const FaultConfig& config, rte_mempool* copies);

  uint16_t queues() const override { return port_->queues(); }
  uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t ReceiveWhole(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitRoom(uint16_t queue) const override;
  const void* outlet(uint16_t queue) const override {
    return lanes_[queue]->transmit.is_idle() ? port_->outlet(queue) : nullptr;
  }
  const void* inlet(uint16_t queue) const override {
    return lanes_[queue]->receive.is_idle() ? port_->inlet(queue) : nullptr;
  }
  bool IsOutletEmpty(uint16_t queue) const override {
    return lanes_[queue]->transmit.is_idle() && port_->IsOutletEmpty(queue);
  }
  bool takes_superframes(uint16_t queue) const override {
    return lanes_[queue]->transmit.is_idle() && port_->takes_superframes(queue);
  }
  TurnLimit turn_limit() const override { return port_->turn_limit(); }
  int wait_fd(uint16_t queue) const override { return port_->wait_fd(queue); }
  bool wakes_itself() const override { return port_->wakes_itself(); }
  bool BeforeSleep(uint16_t queue) override { return port_->BeforeSleep(queue); }
  void AfterSleep(uint16_t queue) override { port_->AfterSleep(queue); }
  Nanos NextDeadline(uint16_t queue) const override;
  Nanos Lag(Nanos now) const override { return port_->Lag(now); }
  bool may_lag() const override { return port_->may_lag(); }
  uint64_t receive_buffer_bytes() const override { return port_->receive_buffer_bytes(); }
  void UseOwners(const QpnOwners& owners) override { port_->UseOwners(owners); }
  PortInfo Info() const override;
  PortCounters counters() const override;
  void Maintain(WhileIdle while_idle) override { port_->Maintain(while_idle); }
  int maintain_fd() const override { return port_->maintain_fd(); }

  // ---- while no worker is inside ----
  /// Applies from now on. Each queue starts its random numbers from the new seed.
  void Set(const FaultConfig& config);
  /// The counters, summed over all queues.
  FaultCounters receive_counters() const;
  FaultCounters transmit_counters() const;
  /// The rules with their counts; Set replaces both. Also while workers are inside.
  const std::vector<std::unique_ptr<ActiveFaultRule>>& rules() const { return rules_; }

 private:
  /// Both directions of one queue.
  struct alignas(64) Lanes {
    FaultLane receive;
    FaultLane transmit;
  };

  LaneRules RulesOf(FaultDirection lane) const;
  /// Puts a frame, or the packets of a superframe, into the lane. False: it has no room.
  bool PutFrames(FaultLane& lane, rte_mbuf* frame, Nanos now);
  void SendOn(uint16_t queue, Nanos now);
  void TakeIn(uint16_t queue, Nanos now);

  const std::unique_ptr<Port> port_;
  rte_mempool* const copies_;
  bool is_harmless_ = true;
  bool is_link_down_ = false;
  std::vector<std::unique_ptr<ActiveFaultRule>> rules_;
  std::vector<std::unique_ptr<Lanes>> lanes_;
  std::atomic<uint64_t> lost_{0};  ///< Packets of superframes that there was no mbuf for.
};

}  // namespace uroce::drivers
