// SPDX-License-Identifier: Apache-2.0
// A model of hosts joined by switches, in the caller's time: each frame waits in the queue of each
// egress port on its path and occupies the line for the time of its bits. Switches mark, drop and
// pause frames as real ones do. Pure.
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

/// The configuration and counters of a switch.
struct Switch {
  SwitchConfig config;
  std::vector<uint32_t>
      egress;  ///< The links that leave it: its ports, in the order of their making.
  uint64_t buffered_bytes = 0;
  uint64_t peak_buffered_bytes = 0;
  uint64_t lost_ways = 0;  ///< Frames dropped because no path leads to their host. Cumulative.
};

/// Switches forward whole frames on shortest paths; a hash of the frame's flow chooses among equal
/// paths. Switches know each host by the MAC that AddHost takes. Frames to a group or to an unknown
/// MAC go to all other hosts. Rules of a port:
/// - Frames of priority 6 and 7 go first. Frames of the same kind stay in order.
/// - A frame waits until its first bit leaves; the frame on the line is not part of the queue.
/// - RED uses the bytes that wait when a frame arrives. It marks frames that are ECN capable and
///   drops other frames; a switch with PFC drops no frame early.
/// - A frame that finds the buffer full is dropped.
/// - PFC pauses travel as frames with the line's rate and delay, ahead of waiting frames, and hold
///   back all priorities but 6 and 7.
/// A cable has two links, one per direction: `cable * 2` leaves its first end, `cable * 2 + 1` its
/// second end. A host is the first end of its cable. One thread. Time never goes back.
class Fabric {
 public:
  /// `surroundings` outlives the fabric.
  Fabric(Surroundings& surroundings, const FabricConfig& config);
  /// Frees the frames that are still in the fabric.
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // ---- construction, before the first frame ----
  uint32_t AddSwitch(const SwitchConfig& config);
  /// Adds a host at the next port of `switch_index`. Returns the host's number: 0, 1, 2 ...
  uint32_t AddHost(uint32_t switch_index, const Mac& mac, const LinkConfig& config);
  /// Joins two switches and returns the cable. Two switches may have several.
  uint32_t Join(uint32_t first_switch, uint32_t second_switch, const LinkConfig& config);

  // ---- frames ----
  /// How many frames the host's queue and the fabric can take; 0 when there is no room. The queue
  /// takes at least one frame more than the full packets that fit in what is left of it.
  uint32_t SendRoom(uint32_t host) const;
  /// Takes `frame`. A frame for which the fabric has no room is dropped and counted.
  void Send(uint32_t host, const Frame& frame, Nanos now);
  /// Runs all events that are due by `now`, each at its own time; arriving frames are delivered.
  void Advance(Nanos now) {
    while (events_.next() <= now) RunNext();
  }
  /// The time of the next event; kNever when no frame is on its way.
  Nanos NextEvent() const { return events_.next(); }

  // ---- changes, while frames are on their way ----
  void SetSwitch(uint32_t switch_index, const SwitchConfig& config, Nanos now);
  void SetLink(uint32_t cable, const LinkConfig& config);
  /// Sets a cable up or down. Down: frames that wait for it or are on it are lost; paths change.
  void SetUp(uint32_t cable, bool is_up, Nanos now);
  /// Puts another host in the place of `host`. Frames to the former one that are still on their way
  /// find no path. Range: the cable is down.
  void SetHost(uint32_t host, const Mac& mac);

  // ---- queries ----
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
  // Each link has two events: an arrival at its end, and the end of the line's use. Of events with
  // the same time arrivals come first.
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
  uint32_t reserve_ = 0;  ///< Slots that only PFC pauses may take.
  EventHeap events_;
  std::vector<Switch> switches_;
  std::vector<Link> links_;
  std::vector<Host> hosts_;
  std::map<Mac, uint32_t> host_of_mac_;
  Routes routes_;
  bool are_routes_known_ = false;  ///< Computed at the first frame, and when a link changes.
  std::mt19937_64 random_;
  uint64_t lost_slots_ = 0;
};

}  // namespace uroce::fabric
