// SPDX-License-Identifier: Apache-2.0
// Hosts joined by switches, in the time of whoever calls: each frame waits for its turn at each
// egress port on its way, takes the line for as long as its bits need, and may be marked, dropped
// or held back there as real switches do. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "pipeline/fabric/event_heap.h"
#include "pipeline/fabric/fabric_config.h"
#include "pipeline/fabric/frame.h"
#include "pipeline/fabric/frame_store.h"
#include "pipeline/fabric/link.h"
#include "pipeline/fabric/routes.h"

namespace uroce::fabric {

/// A switch as its user sees it.
struct Switch {
  SwitchConfig config;
  std::vector<uint32_t>
      egress;  ///< The links that leave it: its ports, in the order of their making.
  uint64_t buffered_bytes = 0;
  uint64_t peak_buffered_bytes = 0;
  uint64_t lost_ways = 0;  ///< Frames dropped since no path leads to their host. Cumulative.
};

/// Switches forward whole frames, by shortest paths; among equal ones a hash of the frame's flow
/// chooses. Hosts are known by the MACs that they are added with; frames to a group or to an
/// unknown MAC go to all other hosts. Rules of a port:
/// - Frames of priority 6 and 7 go first. Those of the same kind stay in order.
/// - A frame waits until its first bit leaves; the one on the line is not part of the queue.
/// - RED looks at the bytes that wait when a frame arrives. It marks what is ECN capable and drops
///   what is not; a switch with PFC drops nothing early.
/// - What finds the buffer full is dropped.
/// - PFC pauses travel as frames of the line's rate and delay, ahead of what waits, and hold back
///   all but priority 6 and 7.
/// A link has two directions, `cable * 2` from its first end and `cable * 2 + 1` to it; a host is
/// the first end of its own. One thread. Time never goes back.
class Fabric {
 public:
  /// `surroundings` outlives it.
  Fabric(Surroundings& surroundings, const FabricConfig& config);
  /// Frees what it still has.
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // ---- making it, before the first frame ----
  uint32_t AddSwitch(const SwitchConfig& config);
  /// At `switch_index`'s next port. Returns the number of the host: 0, 1, 2 ...
  uint32_t AddHost(uint32_t switch_index, const Mac& mac, const LinkConfig& config);
  /// Joins two switches and returns the cable. Two switches may have several.
  uint32_t Join(uint32_t first_switch, uint32_t second_switch, const LinkConfig& config);

  // ---- frames ----
  /// Whether another frame of the host fits its queue, and how many at least.
  uint32_t SendRoom(uint32_t host) const;
  /// Takes `frame`. Where there is no room for it in the fabric it is dropped and counted.
  void Send(uint32_t host, const Frame& frame, Nanos now);
  /// Does all that is due by `now`, each event at its own time: what arrives is delivered.
  void Advance(Nanos now) {
    while (events_.next() <= now) RunNext();
  }
  /// When Advance has something to do; kNever: nothing is on its way.
  Nanos NextEvent() const { return events_.next(); }

  // ---- changes, while frames are on their way ----
  void SetSwitch(uint32_t switch_index, const SwitchConfig& config, Nanos now);
  void SetLink(uint32_t cable, const LinkConfig& config);
  /// Down: what waits for it or is on it is lost, and paths lead elsewhere.
  void SetUp(uint32_t cable, bool is_up, Nanos now);

  // ---- what there is ----
  uint32_t switches() const { return static_cast<uint32_t>(switches_.size()); }
  uint32_t hosts() const { return static_cast<uint32_t>(hosts_.size()); }
  const Switch& switch_at(uint32_t index) const { return switches_[index]; }
  const Link& link(uint32_t index) const { return links_[index]; }
  uint32_t CableOf(uint32_t host) const { return hosts_[host].cable; }
  /// Frames that found no slot, or no memory for a copy. Cumulative.
  uint64_t lost_slots() const { return lost_slots_; }

 private:
  struct Host {
    Mac mac{};
    uint32_t cable = 0;
    uint32_t switch_index = 0;
  };

  uint32_t AddCable(uint32_t first_switch, uint32_t second_switch, uint32_t host,
                    const LinkConfig& config);
  void FindRoutes();
  // Of each link, an arrival at its end and the end of the line's use. At one time arrivals come
  // first.
  uint32_t ArrivalEvent(uint32_t link) const { return link; }
  uint32_t TransmitEvent(uint32_t link) const {
    return static_cast<uint32_t>(links_.size()) + link;
  }
  void RunNext();
  // ---- at the head of a link ----
  void Queue(uint32_t link, uint32_t slot, Nanos now);
  void Kick(uint32_t link, Nanos now);
  void Transmit(uint32_t link, Nanos now);
  void Launch(uint32_t link, uint32_t slot);
  // ---- at the end of a link ----
  void OnArrival(uint32_t link, Nanos now);
  void OnPause(uint32_t link, bool pause, Nanos now);
  // ---- in a switch ----
  void Forward(uint32_t switch_index, uint32_t slot, Nanos now);
  void ForwardToAll(uint32_t switch_index, uint32_t slot, Nanos now);
  uint32_t CopyOf(uint32_t slot);
  uint32_t EgressFor(uint32_t switch_index, const Slot& slot) const;
  void EnterSwitch(uint32_t link, uint32_t slot, Nanos now);
  bool PassesRed(Link& link, Slot& slot);
  bool Happens(double probability);
  void Admit(uint32_t link, uint32_t slot, Nanos now);
  void LeaveSwitch(uint32_t switch_index, const Slot& slot, Nanos now);
  void Regulate(uint32_t link, Nanos now);
  void TellPause(uint32_t link, bool pause, Nanos now);

  void Drop(uint32_t slot);
  void Clear(FrameList& list);
  void Empty(uint32_t link, Nanos now);

  Surroundings& surroundings_;
  const FabricConfig config_;
  FrameStore store_;
  uint32_t reserve_ = 0;  ///< Slots that only pauses take.
  EventHeap events_;
  std::vector<Switch> switches_;
  std::vector<Link> links_;
  std::vector<Host> hosts_;
  std::map<Mac, uint32_t> host_of_mac_;
  Routes routes_;
  bool are_routes_known_ = false;  ///< Found out with the first frame, and when a link changes.
  std::mt19937_64 random_;
  uint64_t lost_slots_ = 0;
};

}  // namespace uroce::fabric
