// SPDX-License-Identifier: Apache-2.0
// Management datagrams of all devices: turns a MAD and its route into a frame, and back.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "nic/base/event_loop.h"
#include "nic/cm/types.h"
#include "nic/net/followed_paths.h"
#include "nic/net/net_device.h"
#include "nic/paths/host_stack.h"
#include "nic/paths/neighbours.h"
#include "pipeline/wire/gsi.h"

namespace uroce::nic {

using Mad = std::array<uint8_t, wire::kMadBytes>;

/// Sums over all devices.
struct GsiCounters {
  uint64_t no_neighbour = 0;   ///< Datagrams dropped: the next hop does not answer,
  uint64_t no_room = 0;        ///< or too many datagrams wait for its answer.
  uint64_t unknown_class = 0;  ///< Received MADs of a class without a handler.
};

/// Control thread. The worker has checked the received frames
/// (pipeline/datapath/worker/receiver.cc).
class Gsi {
 public:
  using Handler = std::function<void(const cm::Route&, std::span<const uint8_t> mad)>;

  /// A device and the channel of its datagrams.
  struct Port {
    const NetDevice* device = nullptr;
    FrameChannel* channel = nullptr;
  };

  /// `ports`: one for each device. Devices and channels outlive this object, or their RemovePort.
  Gsi(Timers& timers, Neighbours& neighbours, const std::vector<Port>& ports);
  ~Gsi();
  Gsi(const Gsi&) = delete;
  Gsi& operator=(const Gsi&) = delete;

  void AddPort(const Port& port);
  /// Datagrams of the device that wait are dropped, and so are those that are sent from now on.
  void RemovePort(const NetDevice& device);

  /// Sets the reader of the MADs of a management class; it may call Send. Null removes it.
  void SetHandler(uint8_t management_class, Handler handler);
  /// Sends a MAD, after resolving its next hop if that is unknown. False: the device's queue is
  /// full.
  [[nodiscard]] bool Send(const cm::Route& route, const Mad& mad);
  /// Whether all datagrams sent have left for the ports.
  bool is_idle() const;
  const GsiCounters& counters() const { return counters_; }

 private:
  static constexpr size_t kMostPaths = 4096;
  /// Addresses may not exist. Existing neighbours answer soon, so the oldest lookup is dropped.
  static constexpr size_t kMostLookups = 256;
  static constexpr size_t kMostWaiting = 64;  ///< For one path.
  static constexpr Nanos kForgetAfter{30'000'000'000};

  struct Waiting {
    cm::Route route;
    Mad mad;
  };
  /// A path; the kernel or the port's own host has resolved its next hop, or is doing so.
  struct Path {
    FollowedPaths::Holder followed;  ///< Null while it is not resolved.
    Neighbours::Id lookup = 0;
    std::vector<Waiting> waiting;
    bool used = true;  ///< Since the last ForgetUnused.
  };

  void OnFrame(const NetDevice& device, std::span<const uint8_t> frame);
  bool SendTo(const Mac& mac, const cm::Route& route, const Mad& mad);
  bool SendByPath(const PathKey& key, const cm::Route& route, const Mad& mad);
  void Await(const PathKey& key, const cm::Route& route, const Mad& mad);
  void StartLookup(const PathKey& key);
  void GiveUpOldestLookup();
  void OnNeighbour(const PathKey& key, const absl::StatusOr<Mac>& mac);
  void ForgetUnused();

  Timers& timers_;
  Neighbours& neighbours_;
  std::map<uint32_t, Port> ports_;       ///< By the index of the device.
  std::map<uint8_t, Handler> handlers_;  ///< By management class.
  Timers::Id forget_timer_ = 0;
  std::map<PathKey, Path> paths_;
  std::map<Neighbours::Id, PathKey> lookups_;  ///< Oldest first.
  uint32_t psn_ = 0;
  uint16_t identification_ = 0;
  GsiCounters counters_;
};

}  // namespace uroce::nic
