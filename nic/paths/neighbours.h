// SPDX-License-Identifier: Apache-2.0
// Finds the next hop of a path and its MAC, from the kernel or from the port's own host, and
// follows changes; look-ups for programs, with limits for each user.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/base/event_loop.h"
#include "nic/net/followed_paths.h"
#include "nic/net/net_device.h"
#include "nic/net/netlink.h"
#include "nic/paths/host_stack.h"
#include "pipeline/base/limits.h"

namespace uroce::nic {

/// The MACs of next hops. Devices of the daemon, and devices on its in-process wires, know each
/// other. Beside a kernel interface, the kernel's routes and neighbours decide, as if the kernel
/// sent each packet: when they change, the paths of live queue pairs change. A port that is its own
/// host resolves neighbours by its HostStack, which this class runs. Control thread.
class Neighbours {
 public:
  using Id = uint64_t;
  using Callback = std::function<void(const absl::StatusOr<Mac>&)>;
  /// docs/protocol/verbs-semantics.md, section 4, says 1 s. The kernel repeats a lost question
  /// after exactly 1 s; half a second more lets the answer to the second question arrive.
  static constexpr Nanos kPatience{1'500'000'000};

  /// Has live queue pairs and address handles on these paths use the MACs in the paths.
  using MovePaths = std::function<void(std::span<const FollowedPath>)>;
  /// Gets a host's usable addresses when these have changed.
  using AddressListener = std::function<void(std::vector<InterfaceAddress>)>;

  Neighbours(Timers& timers, KernelRouting& kernel, NetDevices devices, MovePaths move_paths)
      : timers_(timers),
        kernel_(kernel),
        devices_(std::move(devices)),
        move_paths_(std::move(move_paths)) {}
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
  /// Devices come and go. With a device end its host stack and the lookups on its paths, by
  /// Cancelled. It is removed before it is destroyed, after it has no interface any more.
  void AddDevice(const NetDevice& device) { devices_.push_back(&device); }
  void RemoveDevice(const NetDevice& device);
  /// Starts the host stack of `device`, one of the given devices, for which is_host() is true.
  /// `channel` outlives this object.
  void StartHost(const NetDevice& device, FrameChannel& channel, const HostConfig& config,
                 AddressListener listener);
  /// Reports that a device that is a host itself joined or left the group.
  void SetGroup(const NetDevice& device, const Gid& group, bool joined);
  /// Whether an address is still being probed while the link of its port is up.
  bool has_tentative_address() const;
  /// Reports that the link of a port came or went.
  void OnLink(const NetDevice& device);

  /// Returns the MAC if it is known without waiting; nothing if the kernel has to be asked. Errors:
  /// DeadlineExceeded when no host can have the address, Unavailable without a route.
  std::optional<absl::StatusOr<Mac>> Find(const PathKey& path);
  /// Asks the kernel, for up to `patience`. The callback is called once, unless cancelled, and
  /// never from within this call. Errors: as for Find.
  Id Resolve(const PathKey& path, Callback callback, Nanos patience = kPatience);
  void Cancel(Id id);

  /// Follows `path`, whose next hop was just resolved, for its queue pairs while the result is
  /// held. Null if the kernel has no influence on the path.
  FollowedPaths::Holder Follow(const PathKey& path, const Mac& mac);
  /// Takes news from netlink. News of neighbours wait for the next pass over all paths.
  void OnNews(const NetlinkNews& news);
  /// The time between two such passes, at least. Any host of the network can cause as much news as
  /// it likes, and a pass takes the longer, the more paths and queue pairs there are.
  static constexpr Nanos kBetweenPasses{20'000'000};
  /// The neighbours of which news wait, at most. For the news of others all paths are looked at.
  static constexpr size_t kMostNews = 4096;

 private:
  /// A neighbour of the kernel, or of the host stack of `host`.
  struct Neighbourhood {
    const NetDevice* host = nullptr;
    int ifindex = 0;
    uint16_t vlan_id = 0;
    Gid address;
    friend auto operator<=>(const Neighbourhood&, const Neighbourhood&) = default;
  };
  struct Lookup {
    PathKey path;
    Gid next_hop;
    Nanos deadline;
    Nanos probe_at;  ///< Probe again: the kernel gives up by itself, and may lose questions before.
    Nanos pause;     ///< Until the next check.
    Callback callback;
    Timers::Id timer;
  };

  void Continue(Id id);
  void Finish(Id id, const absl::StatusOr<Mac>& mac);
  /// The device that has the destination of `path` and is reached inside the daemon: the device
  /// itself, the other end of its in-process wire, or another port on a kernel interface. Or null.
  const NetDevice* OwnerOf(const PathKey& path) const;
  HostStack* HostOf(const PathKey& path) const;
  // Answers from the kernel, or from the port's own host.
  bool CanAsk(const PathKey& path) const;
  std::optional<absl::StatusOr<Mac>> MacOfAnyPeer(const PathKey& path);
  absl::StatusOr<Gid> NextHop(const PathKey& path);
  std::optional<Mac> Neighbour(const PathKey& path, const Gid& hop);
  void Probe(const PathKey& path, const Gid& hop);
  Neighbourhood NeighbourhoodOf(const FollowedPath& path) const;
  void Tell(const Neighbourhood& neighbour, const NeighbourNews& news);
  void Pass();
  /// Takes the news that have come, and returns the paths that they move.
  std::vector<FollowedPath> TakeNews();
  void OnUsedNeighbour(const NeighbourNews& news);
  /// Checks the routes and neighbours of all followed paths again soon, also of those that a check
  /// under way has passed.
  void CheckAll();
  /// Checks them some per turn; goes on with a check under way.
  void CheckAfter(Nanos delay);
  void CheckSome();
  void Check(FollowedPath& path);

  Timers& timers_;
  KernelRouting& kernel_;
  NetDevices devices_;
  const MovePaths move_paths_;
  std::map<const NetDevice*, std::unique_ptr<HostStack>> hosts_;
  Id next_id_ = 1;
  std::map<Id, Lookup> lookups_;
  FollowedPaths paths_;
  std::vector<FollowedPaths::Holder> to_check_;
  bool check_again_ = false;  ///< When all of `to_check_` are checked.
  Timers::Id check_timer_ = 0;
  Nanos check_at_ = kNever;
  std::map<Neighbourhood, NeighbourNews> news_;  ///< The newest of each neighbour.
  std::vector<FollowedPath> moved_;              ///< Queue pairs do not know yet.
  Timers::Id pass_timer_ = 0;
  Nanos next_pass_{0};
};

// ---- look-ups for programs ----

/// A thousand connections to one host share one lookup. Control thread.
class NeighbourLookups {
 public:
  using Id = uint64_t;
  /// The status is OK, or the error of Neighbours::Find.
  using Handler = std::function<void(const absl::Status&)>;
  /// Destinations that are looked up at a time, shared fairly between users; each costs the control
  /// thread some 20 us per check. Requests above that fail at once, as if no host answered.
  static constexpr size_t kMostPaths = 1536;

  NeighbourLookups(Timers& timers, Neighbours& neighbours)
      : timers_(timers), neighbours_(neighbours) {}
  ~NeighbourLookups();
  NeighbourLookups(const NeighbourLookups&) = delete;
  NeighbourLookups& operator=(const NeighbourLookups&) = delete;

  /// `user`: the user on whose behalf the lookup is. The handler is called once, unless cancelled,
  /// and never from within this call.
  Id Start(const PathKey& path, uint32_t user, Nanos timeout, Handler handler);
  void Cancel(Id id);

 private:
  static constexpr Nanos kSweep{10'000'000};  ///< The most that a timeout is late.
  static constexpr Nanos kPatience{60'000'000'000};

  struct Waiter {
    PathKey path;
    Nanos deadline;
    Handler handler;
    bool answered = false;  ///< Its answer is in `answers_`.
  };
  struct Asked {
    uint32_t user = 0;  ///< The user who asked first.
    Neighbours::Id lookup = 0;
    std::set<Id> waiters;
  };

  void Ask(const PathKey& path, uint32_t user, Id id);
  void Answer(Id id, const absl::Status& status);
  void Deliver();
  void OnAnswer(const PathKey& path, const absl::Status& status);
  void Leave(const Waiter& waiter, Id id);
  void SweepLater();
  void Sweep();

  Timers& timers_;
  Neighbours& neighbours_;
  Id last_id_ = 0;
  std::map<Id, Waiter> waiters_;
  std::map<PathKey, Asked> asked_;
  FairShare<uint32_t> shares_{kMostPaths};  ///< Of the entries in `asked_`, by user.
  std::set<std::pair<Nanos, Id>> deadlines_;
  std::map<Id, absl::Status> answers_;  ///< To be delivered in the next turn.
  Timers::Id delivery_ = 0;
  Timers::Id sweep_ = 0;
};

}  // namespace uroce::nic
