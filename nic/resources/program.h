// SPDX-License-Identifier: Apache-2.0
// Everything that one program made, and the rules by which it is made and unmade.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nic/resources/arena.h"
#include "nic/resources/handle_table.h"
#include "nic/resources/nic.h"
#include "nic/resources/objects.h"
#include "nic/resources/queue_layout.h"
#include "nic/resources/side_thread.h"
#include "pipeline/datapath/session.h"

namespace uroce::nic {

/// Where the rings of a completion queue are after a resize.
struct ResizedQueue {
  uint32_t cqe = 0;
  std::vector<uroce_cq_ring> rings;
};

/// Control thread. Handles are the program's word: each method checks them. Statuses map to the
/// errno values that verbs return (nic/control/message.h). At the end everything goes: queue pairs
/// first, then what they used, then the memory, after the workers have let go.
class Program {
 public:
  /// `files_thread` lets go of what the program lends.
  static absl::StatusOr<std::unique_ptr<Program>> Make(Nic& nic, uint32_t id, uint32_t uid,
                                                       std::shared_ptr<SideThread> files_thread);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const Arena& arena() const { return arena_; }
  /// The eventfd of each worker.
  const std::vector<Fd>& wake_fds() const { return wake_fds_; }
  uint32_t uid() const { return uid_; }
  /// Whether it is root's or the daemon's own user's.
  bool is_privileged() const;
  datapath::Session& datapath() { return session_; }

  // ---- contexts, protection domains (objects.cc) ----
  /// `name` is the file by which another program may import it.
  absl::StatusOr<uint32_t> OpenContext(uint32_t device_index, Fd& events, Fd& name);
  /// Everything that was made in it goes too, as the kernel does it: programs count on that. The
  /// regions are returned as by BeginDereg.
  absl::StatusOr<std::vector<std::unique_ptr<MemoryObject>>> CloseContext(uint32_t handle);
  absl::StatusOr<Context*> FindContext(uint32_t handle) const { return contexts_.Find(handle); }
  absl::StatusOr<uint32_t> AllocPd(uint32_t context);
  absl::Status DeallocPd(uint32_t handle);

  // ---- what programs share (imports.cc) ----
  /// The context of this name, if it is this program's.
  std::optional<uint32_t> ContextNamed(const uroce_context_name& name) const;
  /// A context for context `handle` of `maker`, which may be this program.
  absl::StatusOr<uroce_import_context_reply> ImportContext(const Program& maker, uint32_t handle,
                                                           Fd& events);
  /// Who made what an imported context or protection domain stands for. Errors: InvalidArgument.
  absl::StatusOr<uint32_t> MakerOfContext(uint32_t context) const;
  absl::StatusOr<uint32_t> MakerOfPd(uint32_t pd) const;
  /// `maker` is who MakerOf... says. Errors: InvalidArgument, Unimplemented (copied memory).
  absl::StatusOr<uint32_t> ImportPd(const Program& maker, const uroce_import& request);
  absl::StatusOr<uroce_import_mr_reply> ImportMr(const Program& maker,
                                                 const uroce_import& request) const;

  /// Tells every context of `device` of a port event.
  void RaisePortEvent(const NicDevice& device, uint32_t event_type);

  // ---- address handles (address_handles.cc) ----
  /// Checks all that can be checked, and says which path needs the MAC of its next hop.
  absl::StatusOr<AddressPlan> PlanAh(const uroce_create_ah& request) const;
  /// `destination` is that MAC, and `followed` what keeps it right from then on, if anything does.
  absl::StatusOr<uint32_t> CreateAh(const AddressPlan& plan, const Mac& destination,
                                    FollowedPaths::Holder followed);
  absl::Status DestroyAh(uint32_t handle);
  /// Whether there is such an address handle, or queue pair: before workers are asked about it.
  absl::Status CheckAh(uint32_t handle) const { return ahs_.Find(handle).status(); }
  absl::Status CheckQp(uint32_t handle) const { return FindQueuePair(handle).status(); }
  /// Whether datagrams were posted that are still to leave. An adapter begins with them at once,
  /// and programs (mckey) destroy what they need as soon as they have posted.
  bool HasUnsentDatagrams();

  // ---- memory (memory.cc) ----
  absl::StatusOr<uint32_t> CreateSegment(const uroce_create_segment& request, Fd& file);
  /// Makes a segment of a mapping of the program's own file. Returns its handle. One that is
  /// refused stays the caller's, to unmap where that may take long.
  absl::StatusOr<uint32_t> AddSharedSegment(Mapping&& mapping, bool writable);
  /// No region has been told of it any more, or will; afterwards none reaches memory by it.
  absl::Status DestroySegment(uint32_t handle);
  /// The same for some pages of a segment, of which the others stay.
  absl::Status TrimSegment(const uroce_trim_segment& request);
  /// Checks a region and finds its bytes.
  absl::StatusOr<std::unique_ptr<MemoryObject>> PlanRegion(const uroce_reg_mr& request,
                                                           const uroce_mr_segment* segments) const;
  /// Has older regions reach what they copy by the mappings of `memory`, where it has them. True:
  /// some do, and copies up to copies_begun() may still be under way; publish it when they are
  /// done.
  bool MapFollowers(const MemoryObject& memory);
  /// Hides the region that `memory` is to replace from peers and workers. Its copies up to
  /// copies_begun() may still be under way; publish `memory` when they are done.
  void HideReplaced(const MemoryObject& memory);
  uint64_t copies_begun() const { return session_.copies_begun(); }
  bool CopiesDone(uint64_t copies) const { return session_.CopiesDone(copies); }
  /// Makes it known to peers and workers; its pages are there (see PopulateRegion). One that
  /// replaces another takes its handle and key.
  absl::StatusOr<uroce_reg_mr_reply> PublishRegion(std::unique_ptr<MemoryObject> memory);
  /// Hides the region from peers and workers. The memory is the program's again once
  /// CopiesDone has said so, and the object has gone. Errors: FailedPrecondition while windows are
  /// bound to it.
  absl::StatusOr<std::unique_ptr<MemoryObject>> BeginDereg(uint32_t handle);
  /// False: a copy that began before is under way; ask again.
  bool CopiesDone(const MemoryObject& memory) const;
  bool CopiesDone(const std::vector<std::unique_ptr<MemoryObject>>& memory) const;

  // ---- memory windows (windows.cc) ----
  absl::StatusOr<uroce_alloc_mw_reply> AllocMw(const uroce_alloc_mw& request);
  absl::Status DeallocMw(uint32_t handle);

  // ---- channels and completion queues (completion_queues.cc) ----
  absl::StatusOr<uint32_t> CreateChannel(uint32_t context, Fd& records);
  absl::Status DestroyChannel(uint32_t handle);
  absl::StatusOr<uroce_create_cq_reply> CreateCq(const uroce_create_cq& request);
  /// Whether the resize makes the queue smaller while queue pairs that complete on it have posted
  /// what will be complete by being sent: whether that fits is not known yet.
  bool ShrinksUnderSends(const uroce_resize_cq& request);
  /// While the program polls none of the queue's rings, and makes or ends no queue pair.
  /// Errors: InvalidArgument when more CQEs wait than are asked for.
  absl::StatusOr<ResizedQueue> ResizeCq(const uroce_resize_cq& request);
  absl::Status ModifyCq(const uroce_modify_cq& request);
  absl::StatusOr<uroce_destroy_cq_reply> DestroyCq(uint32_t handle);

  // ---- shared receive queues (shared_receive_queues.cc) ----
  absl::StatusOr<uroce_create_srq_reply> CreateSrq(const uroce_create_srq& request);
  /// While the program posts nothing to it. Errors: InvalidArgument when more entries wait than are
  /// asked for.
  absl::StatusOr<uroce_srq_layout> ModifySrq(const uroce_modify_srq& request);
  absl::StatusOr<uroce_query_srq_reply> QuerySrq(uint32_t handle);
  absl::StatusOr<uroce_destroy_srq_reply> DestroySrq(uint32_t handle);

  // ---- extended connections (xrc.cc) ----
  /// For one OpenXrcd.
  absl::StatusOr<uint32_t> AddXrcFile(XrcFile file);
  absl::StatusOr<uint32_t> OpenXrcd(const uroce_open_xrcd& request);
  absl::Status CloseXrcd(uint32_t handle);
  /// A target is modified, queried and destroyed as a queue pair of the program's own.
  absl::StatusOr<uroce_target_reply> CreateTarget(const uroce_create_target& request);
  absl::StatusOr<uroce_target_reply> OpenTarget(const uroce_open_target& request);

  // ---- queue pairs (queues.cc) ----
  absl::StatusOr<uroce_create_qp_reply> CreateQp(const uroce_create_qp& request);
  /// Errors: FailedPrecondition while it is attached to a group.
  absl::StatusOr<uroce_destroy_qp_reply> DestroyQp(uint32_t handle);

  // ---- multicast (multicast.cc) ----
  /// Has a UD queue pair get what is sent to a group, too; the port joins the group. Again: nothing
  /// changes. Errors: InvalidArgument, ResourceExhausted, Unavailable.
  absl::Status AttachMcast(const uroce_mcast& request);
  absl::Status DetachMcast(const uroce_mcast& request);

  // ---- modify and query (modify.cc) ----
  /// Checks all that can be checked, and says which path needs the MAC of its next hop.
  absl::StatusOr<ModifyPlan> PlanModify(const uroce_modify_qp& wanted);
  /// Applies it. `destination` is the MAC that the plan asked for, `followed` what keeps it right
  /// from then on, if anything does, and `agreement` what is known of the NIC there.
  absl::StatusOr<uroce_modify_qp_reply> ApplyModify(const ModifyPlan& plan,
                                                    const std::optional<Mac>& destination,
                                                    FollowedPaths::Holder followed,
                                                    peers::Holder agreement);
  absl::StatusOr<uroce_qp_attr> QueryQp(uint32_t handle);
  /// Whether it has made the queue pair, or opened it: a target of its XRC domains.
  bool HasQueuePair(Qpn qpn) const { return qpns_.contains(qpn.value()); }

  // ---- for dumps ----
  const HandleTable<MemoryObject>& memory_regions() const { return mrs_; }
  const HandleTable<WindowObject>& memory_windows() const { return mws_; }
  const HandleTable<SharedReceiveObject>& shared_receive_queues() const { return srqs_; }
  const HandleTable<QueuePairObject>& queue_pairs() const { return qps_; }
  const HandleTable<OpenedTarget>& opened_targets() const { return targets_; }
  /// Its own and the targets that it has opened.
  void ForEachQueuePair(absl::FunctionRef<void(const QueuePairObject& queue_pair)> visit) const;

 private:
  /// For workers: `socket` is one that MakeOneWaySocket made for this program.
  datapath::RecordSocket RecordsOn(const Fd& socket) const;
  absl::StatusOr<uint32_t> AddContext(NicDevice& device, const uroce_context_name& name,
                                      std::optional<ForeignObject> origin, Fd& events);
  Program(Nic& nic, uint32_t id, uint32_t uid, std::shared_ptr<SideThread> files_thread,
          Arena arena, std::vector<Fd> wake_fds);

  /// Shows those queue pairs that are meant to `visit`, inside Run of the worker that owns them;
  /// the newest of each worker first.
  void VisitQueuePairs(absl::FunctionRef<bool(const QueuePairObject&)> is_meant,
                       absl::FunctionRef<void(datapath::Worker&, datapath::QueuePair&)> visit);
  void DetachAll(QueuePairObject& qp);
  absl::Status CheckMemory(uint64_t length) const;
  std::shared_ptr<Segment> MakeSegment(bool is_own_file);
  /// BeginDereg, whatever is bound to it.
  std::unique_ptr<MemoryObject> TakeRegion(uint32_t handle);
  static absl::Status CheckUnbound(const MemoryObject& memory);
  /// After its grace period.
  void EndWindow(const WindowObject& object);
  uroce_reg_mr_reply PublishReplacement(std::unique_ptr<MemoryObject> memory);
  void NoteFollower(MemoryObject& memory);
  /// Afterwards no worker uses what was unpublished or replaced before.
  void AwaitGrace() { nic_.workers().AwaitGrace(); }
  /// `segments` are those that it points into besides its own.
  void Replace(MemoryObject& follower, std::vector<datapath::MrSegment> parts,
               const std::vector<std::shared_ptr<Segment>>& segments);
  absl::StatusOr<uint32_t> AddSegment(Mapping&& mapping, std::shared_ptr<Segment> segment);
  absl::Status CountParts(uint32_t count, MemoryObject& memory) const;
  /// Has regions that reach what they copy by `mapping`, or a part of one, copy it again.
  void UnmapFollowers(std::span<const uint8_t> mapping);
  absl::Status CheckRegion(const uroce_reg_mr& request, const uroce_mr_segment* segments) const;
  absl::StatusOr<datapath::MrSegment> ResolveSegment(const uroce_reg_mr& request,
                                                     const uroce_mr_segment& segment,
                                                     MemoryObject& memory) const;
  absl::StatusOr<ArenaRange> TakeRing(uint32_t depth);
  /// For every ring of `cq` a fresh one. On an error none is taken.
  absl::Status TakeRings(const CompletionQueueObject& cq, uint32_t depth,
                         std::map<uint32_t, ArenaRange>& taken);
  void GiveRings(const std::map<uint32_t, ArenaRange>& rings);
  /// The queue's ring on `worker`, made if there is none. Errors: ResourceExhausted.
  absl::StatusOr<datapath::CompletionRing*> RingOn(uint32_t worker, CompletionQueueObject& cq);
  static uroce_cq_ring DescribeRing(uint32_t worker, const CompletionQueueObject& cq);
  absl::StatusOr<uroce_create_qp_reply> MakeQp(const uroce_create_qp& request,
                                               const QueuePairLayout& layout, uint64_t offset);
  absl::Status CheckCreateQp(const uroce_create_qp& request) const;
  absl::StatusOr<SrqPlan> PlanSrq(const uroce_create_srq& request) const;
  /// Gives a queue what makes it one of the plan's domain: a number and a completion ring.
  absl::Status JoinDomain(const SrqPlan& plan, datapath::SharedReceiveQueueConfig& config);
  uroce_create_srq_reply AddSrq(const SrqPlan& plan,
                                const datapath::SharedReceiveQueueConfig& config,
                                const ArenaRange& range, uint32_t limit);
  absl::StatusOr<uroce_srq_layout> ResizeSrq(SharedReceiveObject& srq, uint32_t max_wr);
  absl::StatusOr<ModifyPlan> PlanPath(const uroce_modify_qp& request,
                                      const QueuePairObject& object) const;
  QueuePairLive LiveState(const QueuePairObject& object);
  void ForgetQpn(Qpn qpn);
  static bool IsTarget(uint32_t handle);
  absl::StatusOr<OpenedTarget*> FindTarget(uint32_t handle) const;
  /// Of its own or a target.
  absl::StatusOr<QueuePairObject*> FindQueuePair(uint32_t handle) const;
  uroce_target_reply AddTarget(XrcdObject& xrcd, std::shared_ptr<XrcTarget> target,
                               uint64_t user_handle);
  absl::StatusOr<uroce_destroy_qp_reply> CloseTarget(uint32_t handle);

  Nic& nic_;
  uint32_t uid_;
  std::shared_ptr<SideThread> files_thread_;
  Arena arena_;
  std::vector<Fd> wake_fds_;
  datapath::Session session_;
  HandleTable<Context> contexts_;
  HandleTable<ProtectionDomain> pds_;
  HandleTable<std::shared_ptr<Segment>> segments_;
  std::shared_ptr<Quota> mr_parts_;  ///< Each region counts its own.
  HandleTable<MemoryObject> mrs_;
  HandleTable<WindowObject> mws_;
  std::set<MemoryObject*> followers_;  ///< Those with parts that follow addresses.
  HandleTable<Channel> channels_;
  HandleTable<CompletionQueueObject> cqs_;
  HandleTable<XrcFile> xrc_files_;
  HandleTable<XrcdObject> xrcds_;
  HandleTable<OpenedTarget> targets_;
  HandleTable<SharedReceiveObject> srqs_;
  HandleTable<QueuePairObject> qps_;
  absl::flat_hash_map<uint32_t, uint32_t> qpns_;  ///< Of `qps_` and `targets_`: times there.
  HandleTable<AddressHandle> ahs_;
  QuotaShare attachments_;  ///< To multicast groups.
};

/// Has a segment mapped so that a region with these rights may use it. Errors: InvalidArgument.
absl::Status AllowAccess(Segment& segment, uint32_t access);
/// Bytes of the region that the daemon maps.
uint64_t MappedBytes(const MemoryObject& memory);
/// Brings all pages of the region in: a worker must never fault. Any thread; takes about 0.1 to
/// 0.5 ms per MB. Errors: ResourceExhausted.
absl::Status PopulateRegion(const MemoryObject& memory);

}  // namespace uroce::nic
