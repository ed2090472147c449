// SPDX-License-Identifier: Apache-2.0
// Extended connection (XRC) domains, which several programs share, their target queue pairs, and
// the part of each program in them.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/objects/contexts.h"
#include "nic/objects/lifetimes.h"
#include "nic/objects/program_core.h"
#include "nic/objects/queue_pair_object.h"
#include "nic/objects/resources.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/queue/work_queues.h"
#include "pipeline/os/fd.h"
#include "pipeline/shm/abi/uroce_commands.h"

namespace uroce::datapath {
class Worker;
}

namespace uroce::nic {

class Nic;
class NicDevice;
class XrcDomain;

// ---- what programs share ----

/// A file that identifies a domain which programs share. Opened with O_PATH: its contents are not
/// accessed, and its inode number is not reused. A side thread closes it, because closing a file
/// may free all its contents.
struct XrcFile {
  std::shared_ptr<const Fd> path;
  uint64_t file_system = 0;  ///< st_dev
  uint64_t inode = 0;
};

/// A target queue pair, which exists while a program has it open. It belongs to no program: the
/// daemon owns the memory of its page, and it uses the session of its domain.
class XrcTarget {
 public:
  XrcTarget(std::shared_ptr<XrcDomain> domain, Qpn qpn);
  ~XrcTarget();
  XrcTarget(const XrcTarget&) = delete;
  XrcTarget& operator=(const XrcTarget&) = delete;

  QueuePairObject& object() { return object_; }
  Qpn qpn() const { return object_.queue_pair.qpn(); }
  /// Adds a program that has opened the target and gets its events.
  void AddOpener(datapath::EventRecords* events);
  void RemoveOpener(datapath::EventRecords* events);

 private:
  std::shared_ptr<XrcDomain> domain_;
  std::unique_ptr<uroce_qp_page> page_ = std::make_unique<uroce_qp_page>();
  QueuePairObject object_;
};

/// A domain, which exists while a program holds it. Its target queue pairs and its shared receive
/// queues live on one worker, which treats the domain like a program that never rings a doorbell.
class XrcDomain {
 public:
  /// `uid` is the user who makes it. Errors: ResourceExhausted (no fd).
  static absl::StatusOr<std::shared_ptr<XrcDomain>> Make(Nic& nic, NicDevice& device,
                                                         std::optional<XrcFile> file, uint32_t uid);
  XrcDomain(Nic& nic, NicDevice& device, std::optional<XrcFile> file, uint32_t uid, Fd wake_fd);
  ~XrcDomain();
  XrcDomain(const XrcDomain&) = delete;
  XrcDomain& operator=(const XrcDomain&) = delete;

  Nic& nic() { return nic_; }
  NicDevice& device() { return device_; }
  uint32_t worker_index() const { return worker_index_; }
  datapath::Worker& worker();
  datapath::Session& session() { return session_; }
  datapath::XrcQueues& queues() { return queues_; }

  /// Makes a new target of `domain`. Errors: ResourceExhausted.
  static absl::StatusOr<std::shared_ptr<XrcTarget>> MakeTarget(
      const std::shared_ptr<XrcDomain>& domain);
  /// Errors: InvalidArgument when no target has this number.
  absl::StatusOr<std::shared_ptr<XrcTarget>> FindTarget(uint32_t qpn) const;
  uint32_t target_count() const { return static_cast<uint32_t>(targets_.size()); }
  /// For ~XrcTarget.
  void ForgetTarget(Qpn qpn) { targets_.erase(qpn.value()); }

 private:
  std::vector<datapath::SessionLink> Links();

  Nic& nic_;
  NicDevice& device_;
  const std::optional<XrcFile> file_;  ///< Kept open so that no other file gets its inode number.
  const uint32_t worker_index_;
  Fd wake_fd_;
  std::unique_ptr<uroce_doorbells> doorbells_ = std::make_unique<uroce_doorbells>();
  datapath::Session session_;
  datapath::XrcQueues queues_;
  std::map<uint32_t, std::weak_ptr<XrcTarget>> targets_;
};

/// The domains that are identified by a file. Control thread.
class XrcDomains {
 public:
  /// Opens the domain of `device` and `file` by the rules of ibv_open_xrcd(3): creates it if it
  /// does not exist and O_CREAT is set. `uid` is the user who opens it. Errors: Aborted (it does
  /// not exist), InvalidArgument (it exists, and O_EXCL is set), ResourceExhausted.
  absl::StatusOr<std::shared_ptr<XrcDomain>> Open(Nic& nic, NicDevice& device, XrcFile file,
                                                  uint32_t oflags, uint32_t uid);

 private:
  struct Key {
    const NicDevice* device;
    uint64_t file_system;
    uint64_t inode;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::weak_ptr<XrcDomain>> domains_;
};

// ---- one program ----

/// A domain that one program has opened.
struct XrcdObject {
  Use<Context> context;
  std::shared_ptr<XrcDomain> domain;
  Users users;
};

/// A target queue pair that one program has opened.
struct OpenedTarget {
  Use<XrcdObject> xrcd;
  std::shared_ptr<XrcTarget> target;
  datapath::EventRecords events;
  uint64_t user_handle = 0;
};

/// The domains of one program, and the targets that it has opened. Control thread.
class Xrc : public ProgramPart {
 public:
  Xrc(ProgramCore& core, const Contexts& contexts);

  /// Adds a file for one call of OpenDomain.
  absl::StatusOr<uint32_t> AddFile(XrcFile file);
  absl::StatusOr<uint32_t> OpenDomain(const uroce_open_xrcd& request);
  /// Errors: InvalidArgument; Cancelled: its device was removed.
  absl::StatusOr<XrcdObject*> FindDomain(uint32_t handle) const;
  absl::Status CloseDomain(uint32_t handle);
  /// Closes its domains, which have no objects any more.
  bool EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) override;
  bool EndSome(absl::FunctionRef<bool()> is_over) override {
    return xrcds_.EndAll(is_over) && files_.EndAll(is_over);
  }

  /// The target's handle is a queue pair handle: Modify, query and destroy commands accept it.
  absl::StatusOr<uroce_target_reply> CreateTarget(const uroce_create_target& request);
  absl::StatusOr<uroce_target_reply> OpenTarget(const uroce_open_target& request);
  /// Whether the handle of a queue pair is that of a target.
  static bool IsTarget(uint32_t handle);
  absl::StatusOr<OpenedTarget*> FindTarget(uint32_t handle) const;
  bool HasTarget(Qpn qpn) const { return open_counts_.contains(qpn.value()); }
  /// Closes one handle. The target exists while any program has it open.
  absl::StatusOr<uroce_destroy_qp_reply> CloseTarget(uint32_t handle);
  /// As EndSomeOf, for the targets that it has opened.
  bool CloseSomeTargetsOf(const Context& context, absl::FunctionRef<bool()> is_over);
  /// As EndSome.
  bool CloseSomeTargets(absl::FunctionRef<bool()> is_over);

  /// For dumps.
  const HandleTable<OpenedTarget>& targets() const { return targets_; }

 private:
  uroce_target_reply AddTarget(XrcdObject& xrcd, std::shared_ptr<XrcTarget> target,
                               uint64_t user_handle);

  ProgramCore& core_;
  const Contexts& contexts_;
  HandleTable<XrcFile> files_;
  HandleTable<XrcdObject> xrcds_;
  HandleTable<OpenedTarget> targets_;
  absl::flat_hash_map<uint32_t, uint32_t> open_counts_;  ///< Handles in `targets_`, by QPN.
};

}  // namespace uroce::nic
