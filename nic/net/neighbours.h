// SPDX-License-Identifier: Apache-2.0
// The MAC of the next hop of a path.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "absl/status/statusor.h"
#include "nic/control/event_loop.h"
#include "nic/net/netlink.h"
#include "nic/resources/nic.h"

namespace uroce::nic {

/// Within the daemon and on its in-process wires, devices know each other; beside a kernel
/// interface, the kernel's routes and neighbours decide. Control thread.
class Neighbours {
 public:
  using Id = uint64_t;
  using Callback = std::function<void(const absl::StatusOr<Mac>&)>;
  /// protocol/verbs-semantics.md, section 4, has 1 s; the kernel repeats a question that was lost
  /// after just that time, so half a second more lets its answer in.
  static constexpr Nanos kPatience{1'500'000'000};

  explicit Neighbours(EventLoop& loop) : loop_(loop) {}

  /// The answer, where it takes no waiting; nothing where the kernel has to be asked.
  /// Errors: DeadlineExceeded when nobody can have it, Unavailable without a way there.
  std::optional<absl::StatusOr<Mac>> Find(const Nic& nic, const NicDevice& device,
                                          const Gid& destination);
  /// Asks the kernel, for as long as kPatience. The callback comes once, unless cancelled, and
  /// never from within this call.
  Id Resolve(const NicDevice& device, const Gid& destination, Callback callback);
  void Cancel(Id id);

 private:
  struct Lookup {
    int ifindex;
    Gid destination;
    Gid next_hop;
    Nanos deadline;
    Callback callback;
    EventLoop::Id timer;
  };

  void Continue(Id id);
  void Finish(Id id, const absl::StatusOr<Mac>& mac);

  EventLoop& loop_;
  Netlink netlink_;
  Id next_id_ = 1;
  std::map<Id, Lookup> lookups_;
};

}  // namespace uroce::nic
