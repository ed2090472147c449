// SPDX-License-Identifier: Apache-2.0
// Runs rdma_cm's service on the control thread: its Environment, and the files of programs that use
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "nic/base/event_loop.h"
#include "nic/base/reply.h"
#include "nic/base/user_limits.h"
#include "nic/net/netlink.h"
#include "nic/objects/resources.h"
#include "nic/paths/gsi.h"
#include "nic/paths/neighbours.h"
#include "nic/paths/source_choice.h"
#include "nic/rdma_cm/service.h"
#include "nic/ucma/files.h"
#include "pipeline/os/fd.h"
#include "pipeline/shm/abi/uroce_cm_commands.h"

namespace uroce::nic {

class Nic;
class NicDevice;
struct Limits;

/// Gives rdma_cm's service the time, devices, neighbours and datagrams. Control thread.
class RdmaCmHost final : private rdma_cm::Environment {
 public:
  /// Receives the connection manager's MADs from `gsi`.
  RdmaCmHost(EventLoop& loop, Nic& nic, KernelRouting& kernel, Neighbours& neighbours, Gsi& gsi,
             const rdma_cm::ServiceConfig& config);
  ~RdmaCmHost() override;

  rdma_cm::Service& service() { return service_; }
  const rdma_cm::Service& service() const { return service_; }
  /// Combines the daemon's limits with the kernel's range of local ports.
  static rdma_cm::ServiceConfig MakeConfig(const Limits& limits);
  const Gsi& gsi() const { return gsi_; }
  void AddDevice(const NicDevice& device);
  /// The device is no longer there: its endpoints are told.
  void RemoveDevice(const NicDevice& device);
  /// Whether messages to peers are still to be sent after the last program has gone.
  bool has_farewells() const { return service_.has_farewells() || !gsi_.is_idle(); }

 private:
  // ---- rdma_cm::Environment ----
  Nanos Now() override;
  void SetDeadline(Nanos when) override;
  std::optional<rdma_cm::Attachment> FindAddress(const Gid& address, uint32_t scope_id) override;
  cm::Result ChooseSource(uint32_t client, const Gid& destination, uint32_t scope_id,
                          rdma_cm::Attachment& source) override;
  LookupId FindNeighbour(const rdma_cm::Attachment& source, const Gid& destination, uint32_t user,
                         Nanos timeout, LookupHandler handler) override;
  void Cancel(LookupId lookup) override { lookups_.Cancel(lookup); }
  rdma_cm::DeviceFacts Facts(uint32_t device) override;
  std::optional<uint8_t> GidIndex(const rdma_cm::Attachment& source) override;
  bool Send(const cm::Route& route, const Mad& mad) override { return gsi_.Send(route, mad); }
  cm::Result Join(const rdma_cm::Attachment& source, const Gid& group) override;
  void Leave(const rdma_cm::Attachment& source, const Gid& group) override;

  void OnTimer();
  /// The devices on which a program has a protection domain. Programs also open devices that they
  /// do not use.
  std::vector<const NetDevice*> UsedDevices(uint32_t client) const;

  EventLoop& loop_;
  Nic& nic_;
  SourceChoice sources_;
  NeighbourLookups lookups_;
  Nanos deadline_ = kNever;
  Nanos timer_at_ = kNever;  ///< Not later than `deadline_`.
  EventLoop::Id timer_ = 0;
  rdma_cm::Service service_;
  Gsi& gsi_;
};

/// A program's open files of rdma_cm, and the sockets that represent them. Control thread. The
/// program holds one end of each socket pair; bytes sent to it say that events
/// wait. The daemon's end receives nothing: its hang-up means that the file is closed.
class CmFiles {
 public:
  CmFiles(EventLoop& loop, UserTurns& turns, Nic& nic, rdma_cm::Service& service,
          const rdma_cm::Owner& owner, rdma_cm::HasQueuePair has_queue_pair);
  ~CmFiles();
  CmFiles(const CmFiles&) = delete;
  CmFiles& operator=(const CmFiles&) = delete;

  /// Errors: ResourceExhausted; Internal: no sockets.
  absl::StatusOr<uint32_t> Open(Fd& program_end);
  /// Closes files at the program's end, until `is_over`. Returns whether none is left; false: call
  /// it again.
  bool EndSome(absl::FunctionRef<bool()> is_over);
  /// Executes a command. `bytes`: as described at UROCE_WRITE_CM. The reply has the result.
  void Write(const uroce_write_cm& request, std::span<const uint8_t> bytes, Reply& reply);

 private:
  struct OpenFile {
    UserSocket socket;
    EventLoop::Id watch = 0;
  };
  /// Destroys ids of a file that the program has closed, for the user's share of this turn. The
  /// loop reports the closed file in each turn until none is left.
  void CloseSome(uint32_t handle);
  bool Signal(uint32_t handle);
  void Forget(uint32_t handle);

  /// Identifies the files among the connections of their user.
  uint64_t id() const { return uint64_t{2} << 32 | owner_.client; }

  EventLoop& loop_;
  UserTurns& turns_;
  const rdma_cm::Owner owner_;
  UserAccount& user_;
  HandleTable<OpenFile> sockets_;
  ucma::Files files_;
};

}  // namespace uroce::nic
