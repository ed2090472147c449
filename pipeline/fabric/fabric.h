// SPDX-License-Identifier: Apache-2.0
// A model of hosts joined by switches, in the caller's time: each frame waits in the queue of each
// egress port on its path and occupies the line for the time of its bits. Switches mark, drop and
// pause frames as real ones do. Pure.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/fabric/event_queue.h"
#include "pipeline/fabric/fabric_config.h"
#include "pipeline/fabric/frame.h"

namespace uroce::fabric {

/// The number of each MAC. Open addressing; lookups of a frame's destination are frequent.
class HostTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// kNone for an unknown MAC.
  uint32_t Find(const Mac& mac) const;
  void Set(const Mac& mac, uint32_t host);

 private:
  struct Entry {
    Mac mac{};
    uint32_t host = kNone;
  };
  /// Where `mac` is, or would be.
  size_t PlaceOf(const Mac& mac) const;
  void Grow();

  std::vector<Entry> entries_ = std::vector<Entry>(16);  ///< A power of 2, at most half in use.
  size_t used_ = 0;
};

/// Shortest paths between the switches of a fabric.
/// One direction of a link between two switches.
struct RouteEdge {
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t link = 0;
};

/// Distance is the number of links. A value: it is computed again when a link goes down or up.
class Routes {
 public:
  Routes() = default;
  Routes(uint32_t switches, std::span<const RouteEdge> edges);

  /// The links from `at` on shortest paths to `target`, another switch; empty without a path.
  std::span<const uint32_t> NextLinks(uint32_t at, uint32_t target) const {
    return ways_[next_ways_[Index(at, target)]];
  }
  /// The links by which `at` forwards frames from `root` to all hosts: a tree for each root.
  std::span<const uint32_t> TreeLinks(uint32_t root, uint32_t at) const {
    return tree_links_[Index(root, at)];
  }

 private:
  size_t Index(uint32_t first, uint32_t second) const { return size_t{first} * switches_ + second; }
  /// The edges that enter or leave each switch, in their order.
  using EdgesOf = std::vector<std::vector<RouteEdge>>;
  std::vector<uint32_t> DistancesTo(uint32_t target, const EdgesOf& entering) const;
  void AddTree(uint32_t root, const EdgesOf& entering);

  uint32_t switches_ = 0;
  std::vector<uint32_t> next_ways_;  ///< Numbers of `ways_`: many targets have the same.
  std::vector<std::vector<uint32_t>> ways_;
  std::vector<std::vector<uint32_t>> tree_links_;
};

/// One direction of a cable: the queues at its head, and the frames on it.
/// The counters of a link. All are cumulative.
struct LinkCounters {
  uint64_t frames = 0;  ///< Sent.
  uint64_t bytes = 0;   ///< Sent, without FCS.
  uint64_t marks = 0;
  uint64_t early_drops = 0;  ///< Dropped by RED: not ECN capable.
  uint64_t tail_drops = 0;   ///< The buffer was full.
  uint64_t down_drops = 0;   ///< The link was down, or went down.
  uint64_t losses = 0;       ///< Lost on the line, by LinkConfig::loss. They are sent ones.
  uint64_t pauses = 0;       ///< How often the link was paused.
  Nanos paused;              ///< The time in past pauses, without the present one.
};

/// The state of a link. Only the fabric, its owner, changes it. What arrivals use is together in
/// one line of the cache, and what departures use in two more.
struct alignas(64) Link {
  static constexpr uint32_t kHost = UINT32_MAX;
  // ---- ends ----
  uint32_t from_switch = kHost;  ///< kHost: a host sends.
  uint32_t to_switch = kHost;
  uint32_t host = 0;  ///< The number of the host, if one end is a host.
  bool is_up = true;
  bool is_paused = false;   ///< The other end has paused `data`, not `control`.
  bool is_pausing = false;  ///< The switch at its end has sent a pause, and no resumption since.
  // ---- on the line ----
  FrameList flight;
  Nanos last_arrival;
  uint64_t share_bytes = 0;       ///< Data in the switch at its end that arrived by it.
  uint32_t pauses_in_flight = 0;  ///< The PFC frames among `flight`.
  // ---- at its head ----
  FrameList control;
  FrameList data;
  Nanos free_at;          ///< The line is in use until this time.
  uint64_t fraction = 0;  ///< Part of a ns by which `free_at` is early, in units of 1 / rate.
  LinkConfig config;
  uint32_t usual_bytes = 0;     ///< The last frame's; for these the line is in use
  int64_t usual_nanos = 0;      ///< so many ns, and
  uint64_t usual_fraction = 0;  ///< such a part of a ns.
  uint64_t peak_queue_bytes = 0;
  Nanos paused_at;
  LinkCounters counters;

  uint64_t queue_bytes() const { return control.bytes() + data.bytes(); }
  /// The queue that sends next, or null when none may send.
  FrameList* NextQueue() {
    if (!control.empty()) return &control;
    return data.empty() || is_paused ? nullptr : &data;
  }
  /// Occupies the line for `wire_bytes` from `start` on. Returns when the last bit has left.
  /// Rounding errors do not add up, at any rate.
  Nanos Occupy(uint32_t wire_bytes, Nanos start) {
    if (wire_bytes != usual_bytes) Measure(wire_bytes);
    free_at = start + Nanos(usual_nanos);
    fraction += usual_fraction;
    if (fraction >= config.rate_bps) {
      fraction -= config.rate_bps;
      free_at = free_at + Nanos(1);
    }
    return free_at;
  }

  /// Divides once for many frames of a size.
  void Measure(uint32_t wire_bytes) {
    constexpr uint64_t kNanosPerSecond = 1'000'000'000;
    const uint64_t units = uint64_t{wire_bytes} * 8 * kNanosPerSecond;
    usual_bytes = wire_bytes;
    usual_nanos = static_cast<int64_t>(units / config.rate_bps);
    usual_fraction = units % config.rate_bps;
  }
};

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
  /// A NIC pauses its switch, or resumes it, by a PFC frame.
  void PauseByHost(uint32_t host, bool pause, Nanos now) {
    TellPause(2 * hosts_[host].cable + 1, pause, now);
  }
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
  // ---- prefetching ----
  void PrefetchSoon();
  void PrefetchObjects(uint32_t event) const;
  void PrefetchFrame(uint32_t event) const;
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
  void ForgetEgress();
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
  EventQueue events_;
  std::vector<Switch> switches_;
  std::vector<Link> links_;
  std::vector<Host> hosts_;
  HostTable host_of_mac_;
  Routes routes_;
  bool are_routes_known_ = false;  ///< Computed at the first frame, and when a link changes.
  std::mt19937_64 random_;
  uint64_t lost_slots_ = 0;
};

}  // namespace uroce::fabric
