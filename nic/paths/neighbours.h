// SPDX-License-Identifier: Apache-2.0
// Finds the MAC of the next hop of a path, and follows it for as long as the path is in use.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/base/timers.h"
#include "nic/net/followed_paths.h"
#include "nic/net/kernel_routing.h"
#include "nic/net/net_device.h"
#include "nic/net/netlink_message.h"
#include "nic/paths/frame_channel.h"
#include "nic/paths/host_stack.h"

namespace uroce::nic {

/// Within the daemon and on its in-process wires, devices know each other; beside a kernel
/// interface, the kernel's routes and neighbours decide, for each packet as if the kernel sent it:
/// when they change, the paths of live queue pairs change. A port that is a host of its own asks
/// and answers by its HostStack, which is run from here. Control thread.
class Neighbours {
 public:
  using Id = uint64_t;
  using Callback = std::function<void(const absl::StatusOr<Mac>&)>;
  /// docs/protocol/verbs-semantics.md, section 4, has 1 s; the kernel repeats a question that was
  /// lost after just that time, so half a second more lets its answer in.
  static constexpr Nanos kPatience{1'500'000'000};

  /// Has live queue pairs and address handles on these paths send to the MACs that are given there.
  using MovePaths = std::function<void(std::span<const FollowedPath>)>;
  /// Told of those of a host's addresses that may be used, when they have changed.
  using AddressListener = std::function<void(std::vector<InterfaceAddress>)>;

  Neighbours(Timers& timers, KernelRouting& kernel, NetDevices devices, MovePaths move_paths)
      : timers_(timers),
        kernel_(kernel),
        devices_(std::move(devices)),
        move_paths_(std::move(move_paths)) {}
  /// Makes a host of `device`, one of those given that is to be its own. `channel` outlives this
  /// object.
  void StartHost(const NetDevice& device, FrameChannel& channel, const HostConfig& config,
                 AddressListener listener);
  /// A device that is a host of its own joined the group, or left it.
  void SetGroup(const NetDevice& device, const Gid& group, bool joined);
  /// Whether some address is still being probed for, and the link of its port is up.
  bool has_tentative_address() const;
  /// The link of a port came or went.
  void OnLink(const NetDevice& device);

  /// The answer, where it takes no waiting; nothing where the kernel has to be asked.
  /// Errors: DeadlineExceeded when nobody can have it, Unavailable without a way there.
  std::optional<absl::StatusOr<Mac>> Find(const PathKey& path);
  /// Asks the kernel, for as long as `patience`. The callback comes once, unless cancelled, and
  /// never from within this call. Errors: as of Find.
  Id Resolve(const PathKey& path, Callback callback, Nanos patience = kPatience);
  void Cancel(Id id);

  /// Keeps the queue pairs of `path`, whose next hop was just resolved, on their way for as long as
  /// the result is held. Null where the kernel has no say.
  FollowedPaths::Holder Follow(const PathKey& path, const Mac& mac);
  /// What netlink told.
  void OnNews(const NetlinkNews& news);

 private:
  struct Lookup {
    PathKey path;
    Gid next_hop;
    Nanos deadline;
    Nanos probe_at;  ///< Again: the kernel gives up by itself, and before that loses questions.
    Nanos pause;     ///< Until the next look.
    Callback callback;
    Timers::Id timer;
  };

  void Continue(Id id);
  void Finish(Id id, const absl::StatusOr<Mac>& mac);
  /// Who has the destination of `path` and is reached without the world outside: the device itself,
  /// another end of the same in-process wire, or another port on a kernel interface. Null: nobody.
  const NetDevice* OwnerOf(const PathKey& path) const;
  HostStack* HostOf(const PathKey& path) const;
  // Answers of the kernel, or of the port's own host.
  bool CanAsk(const PathKey& path) const;
  absl::StatusOr<Gid> NextHop(const PathKey& path);
  std::optional<Mac> Neighbour(const PathKey& path, const Gid& hop);
  void Probe(const PathKey& path, const Gid& hop);
  void OnNeighbour(const NeighbourNews& news);
  /// Looks at the routes and neighbours of all followed paths again, some per turn.
  void CheckAfter(Nanos delay);
  void CheckSome();
  void Check(FollowedPath& path);

  Timers& timers_;
  KernelRouting& kernel_;
  const NetDevices devices_;
  const MovePaths move_paths_;
  std::map<const NetDevice*, std::unique_ptr<HostStack>> hosts_;
  Id next_id_ = 1;
  std::map<Id, Lookup> lookups_;
  FollowedPaths paths_;
  std::vector<FollowedPaths::Holder> to_check_;
  Timers::Id check_timer_ = 0;
  Nanos check_at_ = kNever;
};

}  // namespace uroce::nic
