// SPDX-License-Identifier: Apache-2.0
// The objects of one program. Each counts what still needs it; whoever made it may not unmake it
// before those are gone. Control thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "drivers/mapping_guard.h"
#include "nic/net/followed_paths.h"
#include "nic/peers/types.h"
#include "nic/resources/domain.h"
#include "nic/resources/fd.h"
#include "nic/resources/modify_rules.h"
#include "nic/resources/nic_device.h"
#include "nic/resources/user_account.h"
#include "nic/resources/xrc_file.h"
#include "pipeline/datapath/address_table.h"
#include "pipeline/datapath/completion_queue.h"
#include "pipeline/datapath/event_records.h"
#include "pipeline/datapath/memory_region.h"
#include "pipeline/datapath/memory_window.h"
#include "pipeline/datapath/queue_pair.h"
#include "pipeline/datapath/shared_receive_queue.h"
#include "verbs-shim/abi/uroce_arena.h"
#include "verbs-shim/abi/uroce_commands.h"

namespace uroce::nic {

/// Another program's object, which may be gone.
struct ForeignObject {
  uint32_t program = 0;  ///< Its number; none is given out again.
  uint32_t handle = 0;
};

struct Context {
  NicDevice* device = nullptr;
  Fd events;  ///< Where its asynchronous events are sent.
  uint32_t users = 0;
  uroce_context_name name{};            ///< Who knows it may import the context.
  std::optional<ForeignObject> origin;  ///< Of an imported context.
};

struct ProtectionDomain {
  Context* context = nullptr;
  std::shared_ptr<Domain> domain;
  Domain::Use share;  ///< Of one that another program made.
  uint32_t users = 0;
  uint32_t number() const { return domain->number(); }
};

/// Memory that the program maps too: what a page range of it was swapped for, or part of a file of
/// its own. Regions share it, and the last one to go unmaps it.
struct Segment {
  drivers::GuardedMapping mapping;
  UserAccount* account = nullptr;  ///< Counts it, while set.
  bool is_own_file = false;        ///< The program's, which it can shrink.
  bool may_write = true;           ///< The file allows it.
  bool is_writable = false;        ///< Mapped so: once a region needs it.
};

struct MemoryObject {
  ProtectionDomain* pd = nullptr;
  datapath::MemoryRegion region;
  uint64_t addr = 0;
  std::unique_ptr<QuotaShare> parts;               ///< How many of its user's parts it takes.
  std::shared_ptr<Quota> program_quota;            ///< The program may go before it.
  std::unique_ptr<QuotaShare> parts_of_program;    ///< The same of its program's.
  std::vector<std::shared_ptr<Segment>> segments;  ///< Those that region.segments point into.
  Domain::Use copied;              ///< Where its program's helper reaches parts of it, or did.
  uint32_t replaces = UROCE_NONE;  ///< Handle of the region that this one is to become.
  /// Grants nothing; keeps the key's place while `region` is being replaced.
  std::unique_ptr<datapath::MemoryRegion> stand_in;
  const datapath::MemoryRegion* published() const { return stand_in ? stand_in.get() : &region; }
  /// Set by BeginDereg: Session::CopiesDone must confirm so many before the memory is free.
  uint64_t copies_begun = 0;
  /// Counted by workers. Here and not in `region`, which is copied.
  std::unique_ptr<std::atomic<uint32_t>> bound_windows = std::make_unique<std::atomic<uint32_t>>(0);
};

struct WindowObject {
  WindowObject(ProtectionDomain* its_pd, datapath::MemoryWindow::Type type, uint32_t key);
  ProtectionDomain* pd;
  datapath::MemoryWindow window;
  datapath::MemoryRegion entry;  ///< In the table of keys.
};

struct Channel {
  Context* context = nullptr;
  Fd records;  ///< Where they are sent.
  uint32_t users = 0;
};

/// A range of the program's arena.
struct ArenaRange {
  uint64_t offset = 0;
  uint64_t length_bytes = 0;
};

struct CompletionQueueObject {
  Context* context = nullptr;
  Channel* channel = nullptr;  ///< Or null.
  ArenaRange page;
  uint64_t user_handle = 0;
  uint32_t depth = 0;                    ///< Of each ring. A power of two.
  std::map<uint32_t, ArenaRange> rings;  ///< By worker.
  datapath::CompletionQueue queue;
  uint32_t users = 0;
};

class XrcDomain;
class XrcTarget;

struct XrcdObject {
  Context* context = nullptr;
  std::shared_ptr<XrcDomain> domain;
  uint32_t users = 0;
};

/// A target queue pair as one program has it.
struct OpenedTarget {
  XrcdObject* xrcd = nullptr;
  std::shared_ptr<XrcTarget> target;
  datapath::EventRecords events;
  uint64_t user_handle = 0;
};

struct SharedReceiveObject {
  ProtectionDomain* pd = nullptr;
  XrcdObject* xrcd = nullptr;           ///< Or null.
  CompletionQueueObject* cq = nullptr;  ///< Of XRC, or null.
  uint32_t worker = 0;                  ///< On which the queue pairs live that use it.
  ArenaRange range;
  uint32_t users = 0;
  datapath::SharedReceiveQueue queue;
};

/// Of one program, or an XRC target, which has nothing of any program.
struct QueuePairObject {
  NicDevice* device = nullptr;
  ProtectionDomain* pd = nullptr;  ///< From here on to `srq` null for a target.
  CompletionQueueObject* send_cq = nullptr;
  CompletionQueueObject* receive_cq = nullptr;
  SharedReceiveObject* srq = nullptr;  ///< Or null.
  uint32_t qp_type = 0;                ///< enum ibv_qp_type
  ArenaRange range;
  uroce_qp_attr attr{};  ///< As last set; the mask is meaningless.
  FollowedPaths::Holder followed;
  peers::Holder agreement;  ///< With the NIC at the other end, of a reliable connection; or null.
  std::set<Gid> groups;     ///< That it is attached to.
  datapath::QueuePair queue_pair;
};

struct AddressHandle {
  ProtectionDomain* pd = nullptr;
  FollowedPaths::Holder followed;
  datapath::AddressVector vector;
};

/// An address handle that passed its checks and waits for the MAC of its next hop.
struct AddressPlan {
  uroce_create_ah request{};
  PathKey path;
};

/// What a shared receive queue is to belong to, checked.
struct SrqPlan {
  ProtectionDomain* pd = nullptr;
  XrcdObject* xrcd = nullptr;  ///< Of XRC, or null, like `cq`.
  CompletionQueueObject* cq = nullptr;
};

/// What only the worker knows of a queue pair.
struct QueuePairLive {
  transport::QpState state = transport::QpState::kReset;
  bool draining = false;
  uint32_t next_send_psn = 0;
  uint32_t expected_psn = 0;
};

/// A modify that passed its checks. `path` is set when the path changes.
struct ModifyPlan {
  uroce_modify_qp request{};
  std::optional<PathKey> path;
  bool is_reliable = false;  ///< Of a reliable connection, which may agree on more with its peer.
};

}  // namespace uroce::nic
