// SPDX-License-Identifier: Apache-2.0
// The MAC of the next hop of a path: found once, and followed for as long as it is in use.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "nic/control/event_loop.h"
#include "nic/net/followed_paths.h"
#include "nic/net/host_stack.h"
#include "nic/net/netlink.h"
#include "nic/resources/nic.h"

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

  Neighbours(EventLoop& loop, Nic& nic) : loop_(loop), nic_(nic) {}
  /// Makes hosts of the ports that are their own. `on_addresses` is told when the usable addresses
  /// of a device have changed.
  void StartHosts(const std::function<void(NicDevice&)>& on_addresses);
  /// Whether some address is still being probed for, and the link of its port is up.
  bool has_tentative_address() const;
  /// The link of a port came or went.
  void OnLink(const NicDevice& device);

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
    EventLoop::Id timer;
  };

  void Continue(Id id);
  void Finish(Id id, const absl::StatusOr<Mac>& mac);
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

  EventLoop& loop_;
  Nic& nic_;
  Netlink netlink_;
  std::map<const NicDevice*, std::unique_ptr<HostStack>> hosts_;
  Id next_id_ = 1;
  std::map<Id, Lookup> lookups_;
  FollowedPaths paths_;
  std::vector<FollowedPaths::Holder> to_check_;
  EventLoop::Id check_timer_ = 0;
  Nanos check_at_ = kNever;
};

}  // namespace uroce::nic
