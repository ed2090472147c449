// SPDX-License-Identifier: Apache-2.0
// The worker's side of one queue pair: its settings, its transport, its rings, its path, its waits,
// and its place in the lists of its worker; and the table that finds a queue pair by its number.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/congestion/dcqcn.h"
#include "pipeline/congestion/flow.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/datapath/capture/packet_records.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/queue/completion_queue.h"
#include "pipeline/datapath/queue/work_queues.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/rc_queue_pair.h"
#include "pipeline/transport/unreliable_queue_pair.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

// What nic sets when it makes a queue pair, the path on which a queue pair sends, and the paths of
// address handles.

class CompletionRing;
class Device;
class Session;
class SharedReceiveQueue;
class XrcQueues;

/// Fixed at creation, except the rings (QueuePair::set_rings). Addresses are the daemon's, in the
/// session's arena.
struct QueuePairConfig {
  Session* session = nullptr;
  Device* device = nullptr;
  uint32_t handle = 0;  ///< Repeated in CQEs.
  Qpn qpn;
  wire::Service service = wire::Service::kRc;  ///< kRc, kUc, kUd or kXrc.
  uint32_t pd = 0;                             ///< Daemon-wide number.
  /// Both belong to the worker that owns the queue pair; null for an XRC target.
  CompletionRing* send_ring = nullptr;
  CompletionRing* receive_ring = nullptr;
  uint64_t user_handle = 0;  ///< Element of asynchronous events.
  RecordSocket async;
  bool signal_all = false;
  bool selective_repeat = true;  ///< A reliable connection may agree on it.
  /// The environment of the device and worker. Null: losses alone bound what is in flight.
  const congestion::Environment* congestion = nullptr;
  uint32_t doorbell_slot = 0;
  uroce_qp_page* page = nullptr;
  uint8_t* sq = nullptr;
  uint8_t* rq = nullptr;
  uint32_t sq_depth = 0;  ///< Powers of two, 0 for none.
  uint32_t rq_depth = 0;
  uint32_t sq_slot_bytes = 0;
  uint32_t rq_slot_bytes = 0;
  uint32_t max_send_sge = 0;
  uint32_t max_receive_sge = 0;
  uint32_t max_inline_bytes = 0;
  SharedReceiveQueue* shared = nullptr;  ///< Belongs to the same worker; there is no RQ then.
  /// For an XRC target, which has no queues: requests name a shared receive queue of the domain.
  XrcQueues* domain = nullptr;
};

using Attributes = transport::QueuePairAttributes;
using Counters = transport::QueuePairCounters;

/// Where packets go, as an address vector and the neighbour table say.
struct Path {
  Mac source_mac{};
  Mac destination_mac{};
  Gid source;
  Gid destination;
  uint8_t traffic_class = 0;  ///< As the program gave it.
  bool ecn_capable = false;   ///< Packets carry ECT(0), whatever the traffic class.
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;
  uint16_t vlan_tci = 0;  ///< 0: no 802.1Q header.
  uint16_t udp_source_port = 0xc000;
  Qpn remote_qpn;                ///< For a connected queue pair.
  uint64_t static_rate_bps = 0;  ///< Of an address handle: datagrams leave no faster. 0: no limit.
};

/// The headers that packets on `path` have in common.
wire::HeaderTemplate MakeTemplate(const Path& path);

// The address handles of one program, as workers see them. The control thread writes, and any
// number of workers read, without a lock.

/// Where the datagrams of one address handle go. The path names no queue pair: each datagram names
/// its own. Changed while all workers stand still.
class AddressVector {
 public:
  /// `pd`: the daemon-wide number of the protection domain.
  AddressVector(uint32_t pd, const Path& path) : pd_(pd) { set_path(path); }

  uint32_t pd() const { return pd_; }
  const Path& path() const { return path_; }
  const wire::HeaderTemplate& header_template() const { return header_template_; }
  void set_path(const Path& path) {
    path_ = path;
    header_template_ = MakeTemplate(path);
  }

 private:
  uint32_t pd_;
  Path path_;
  wire::HeaderTemplate header_template_;
};

/// By handle: a small number that the control thread gives and the program repeats in requests.
class AddressTable {
 public:
  /// Makes a table for handles below `capacity`.
  explicit AddressTable(uint32_t capacity)
      : capacity_(capacity),
        slots_(std::make_unique<std::atomic<const AddressVector*>[]>(capacity)) {}

  /// Returns the address vector of a handle, or null. Any worker; valid for this turn.
  const AddressVector* Find(uint32_t handle) const {
    return handle < capacity_ ? slots_[handle].load(std::memory_order_acquire) : nullptr;
  }
  /// Sets an entry. Null hides the old one: free it after a grace period. Control thread.
  void Set(uint32_t handle, const AddressVector* vector) {
    slots_[handle].store(vector, std::memory_order_release);
  }

 private:
  const uint32_t capacity_;
  std::unique_ptr<std::atomic<const AddressVector*>[]> slots_;
};

// The transport of one queue pair, with one interface for all services.

/// One of the transport's queue pairs, made in place. Calls are passed on by a branch that is
/// predicted for reliable connections; where services differ, callers use the member of the kind.
/// The contract with the caller is that of transport::RcQueuePair and transport::UcQueuePair.
class QueuePairCore {
 private:
  enum class Kind : uint8_t { kReliable, kUnreliable, kDatagram };
  static Kind KindOf(wire::Service service);

  template <typename Self, typename Function>
  static decltype(auto) Visit(Self& self, Function&& function) {
    if (self.kind_ == Kind::kReliable) [[likely]] {
      return std::forward<Function>(function)(self.rc);
    }
    if (self.kind_ == Kind::kDatagram) return std::forward<Function>(function)(self.ud);
    return std::forward<Function>(function)(self.uc);
  }

 public:
  explicit QueuePairCore(const QueuePairConfig& config, uint32_t max_send_works);
  ~QueuePairCore();
  QueuePairCore(const QueuePairCore&) = delete;
  QueuePairCore& operator=(const QueuePairCore&) = delete;

  // ---- the kind ----
  wire::Service service() const { return service_; }
  /// Whether this is a reliable connection, extended or not: its packets are acknowledged.
  bool is_reliable() const { return kind_ == Kind::kReliable; }
  bool is_datagram() const { return kind_ == Kind::kDatagram; }
  /// Range: is_reliable().
  transport::RcQueuePair& reliable() { return rc; }
  const transport::RcQueuePair& reliable() const { return rc; }

  // ---- state ----
  transport::QpState state() const {
    return Visit(*this, [](const auto& core) { return core.state(); });
  }
  void Modify(transport::QpState state, const Attributes& attributes) {
    Visit(*this, [&](auto& core) { core.Modify(state, attributes); });
  }
  const Attributes& attributes() const {
    return Visit(*this, [](const auto& core) -> const Attributes& { return core.attributes(); });
  }
  bool draining() const {
    return Visit(*this, [](const auto& core) { return core.draining(); });
  }

  // ---- send queue ----
  uint32_t post_room() const {
    return Visit(*this, [](const auto& core) { return core.post_room(); });
  }
  [[nodiscard]] transport::PostResult Post(const transport::SendWork& work) {
    return Visit(*this, [&](auto& core) { return core.Post(work); });
  }
  bool HasPacket() const { return is_reliable() ? rc.HasPacket() : HasUnsent(); }
  /// Whether there is a packet to send. Range: not is_reliable().
  bool HasUnsent() const { return is_datagram() ? ud.HasPacket() : uc.HasPacket(); }
  /// See transport::RcQueuePair, also for the next function.
  [[nodiscard]] bool PollLocal(transport::LocalEffect& effect) {
    return Visit(*this, [&](auto& core) { return core.PollLocal(effect); });
  }
  void OnLocalDone(transport::EffectOutcome outcome) {
    Visit(*this, [&](auto& core) { core.OnLocalDone(outcome); });
  }
  bool HasAcknowledgement() const { return is_reliable() && rc.HasAcknowledgement(); }
  [[nodiscard]] bool PollPacket(Nanos now, transport::TxPacket& packet) {
    if (is_reliable()) [[likely]]
      return rc.PollPacket(now, packet);
    return is_datagram() ? ud.PollPacket(packet) : uc.PollPacket(packet);
  }
  /// Called when the bytes of the packet polled last were read. Range: not is_reliable().
  void OnSent(const transport::TxPacket& packet) {
    if (is_datagram()) return ud.OnSent(packet);
    uc.OnSent(packet);
  }
  void OnGatherFailed(const transport::TxPacket& packet) {
    if (is_reliable()) return rc.OnGatherFailed(packet);
    is_datagram() ? ud.OnGatherFailed() : uc.OnGatherFailed();
  }
  /// See transport::UnreliableQueuePair. Range: is_datagram().
  void OnAddressRefused() { ud.OnAddressRefused(); }

  // ---- receive ----
  /// See transport::RcQueuePair.
  bool HasKept() const { return is_reliable() && rc.HasKept(); }
  bool NeedsReceive(const wire::TransportHeader& header) const {
    return Visit(*this, [&](const auto& core) { return core.NeedsReceive(header); });
  }
  void PostReceive(const transport::ReceiveWork& work) {
    Visit(*this, [&](auto& core) { core.PostReceive(work); });
  }
  uint32_t receive_room() const {
    return Visit(*this, [](const auto& core) { return core.receive_room(); });
  }
  /// Range: not is_reliable().
  [[nodiscard]] transport::ReceiveResult OnUnreliablePacket(const wire::Packet& packet,
                                                            transport::Effect& effect) {
    if (is_datagram()) return ud.OnPacket(packet, effect);
    return uc.OnPacket(packet, effect);
  }
  void OnEffectDone(transport::EffectOutcome outcome, uint64_t original, Nanos now) {
    if (is_reliable()) [[likely]]
      return rc.OnEffectDone(outcome, original, now);
    is_datagram() ? ud.OnEffectDone(outcome) : uc.OnEffectDone(outcome);
  }
  /// The others hold nothing that outlasts a reset.
  void ForgetEffect() {
    if (is_reliable()) rc.ForgetEffect();
  }

  // ---- completions, events, time ----
  [[nodiscard]] bool PollCompletion(transport::Completion& completion) {
    return Visit(*this, [&](auto& core) { return core.PollCompletion(completion); });
  }
  [[nodiscard]] bool PollEvent(transport::QpEvent& event) {
    return Visit(*this, [&](auto& core) { return core.PollEvent(event); });
  }
  /// Only reliable connections have timers.
  Nanos NextDeadline() const { return is_reliable() ? rc.NextDeadline() : kNever; }
  void OnDeadline(Nanos now, bool has_heard_all) {
    if (is_reliable()) rc.OnDeadline(now, has_heard_all);
  }
  void OnHeld(Nanos now) {
    if (is_reliable()) rc.OnHeld(now);
  }

  // ---- for dumps ----
  const Counters& counters() const {
    return Visit(*this, [](const auto& core) -> const Counters& { return core.counters(); });
  }
  /// Why a connection failed by itself.
  transport::Failure failure() const { return is_reliable() ? rc.failure() : transport::Failure{}; }
  wire::Psn next_send_psn() const {
    return Visit(*this, [](const auto& core) { return core.next_send_psn(); });
  }
  /// The next PSN that is expected; datagrams have none.
  wire::Psn expected_psn() const;

 private:
  const Kind kind_;
  const wire::Service service_;
  // `kind_` says which member is alive. Members of an unnamed union are public: no underscore.
  union {
    transport::RcQueuePair rc;
    transport::UcQueuePair uc;
    transport::UdQueuePair ud;
  };
};

class DevicePort;
struct SessionFlow;
struct WaitingWork;
struct WorkerSession;

/// The state that congestion control keeps for one queue pair. Used by the worker that owns it.
struct FlowControl {
  congestion::FlowRate rate;              ///< The rate at which the queue pair sends.
  congestion::NotificationPoint answers;  ///< CNPs for marks on received packets; not for UD.

  uint32_t cnps_sent = 0;     ///< CNPs that this side sent. Wraps.
  uint32_t cnps_handled = 0;  ///< CNPs that slowed this flow down. Wraps.

  /// Address handles of the newest datagrams. CNPs from where these lead are believed.
  std::array<uint32_t, 4> paths{};
  void NoteDatagram(uint32_t path) { paths[path % paths.size()] = path; }
  /// The traffic class of the newest datagram: CNPs and losses concern its priority.
  uint8_t traffic_class = 0;
};

/// The lists of a worker that name a queue pair at most once.
enum class WorkerList : uint8_t {
  kTouched = 1,    ///< The queue pair is looked after in this turn.
  kReceived = 2,   ///< A packet came in this turn.
  kHeld = 4,       ///< The queue pair must not send for now: see HeldSenders.
  kPostponed = 8,  ///< The rings hold more than one turn takes.
  kRetried = 16,   ///< Records of the queue pair wait for room: see RecordRetries.
};

/// A set of these lists.
class ListMembership {
 public:
  bool Has(WorkerList list) const { return (lists_ & Bit(list)) != 0; }
  /// False: the list was in the set already.
  bool Enter(WorkerList list) {
    if (Has(list)) return false;
    lists_ |= Bit(list);
    return true;
  }
  /// False: the list was not in the set.
  bool Leave(WorkerList list) {
    if (!Has(list)) return false;
    lists_ &= static_cast<uint8_t>(~Bit(list));
    return true;
  }

 private:
  static constexpr uint8_t Bit(WorkerList list) { return static_cast<uint8_t>(list); }

  uint8_t lists_ = 0;
};

/// Whether a queue pair waits for its session's helper or for other workers, and why. While it
/// waits, its transport is not called.
enum class WaitKind : uint8_t {
  kNone,
  kEffect,      ///< An effect that the transport asked for is executed.
  kGather,      ///< The payload of a packet is being read into its frame.
  kInvalidate,  ///< A key that a peer took back may still be in use elsewhere: see KeyWaits.
};

/// Which device the packets of a connected queue pair go to.
enum class PeerPlace : uint8_t {
  kElsewhere,
  kInDaemon,    ///< Another device of this daemon.
  kSameDevice,  ///< The queue pair's own device.
};

/// Where a queue pair is at its worker. Set when the worker is given it.
struct QueuePairHome {
  DevicePort* port = nullptr;
  WorkerSession* program = nullptr;
  SessionFlow* flow = nullptr;  ///< What the program sends on the port.
};

/// One queue pair: its parts, which the parts of its worker use. Made and destroyed by nic; between
/// AddQueuePair and RemoveQueuePair everything here belongs to the worker's thread, and nic looks
/// inside only within Worker::Run.
class alignas(UROCE_LINE) QueuePair {
 public:
  explicit QueuePair(const QueuePairConfig& config);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // ---- what it is, and where ----
  const QueuePairConfig& config() const { return config_; }
  Qpn qpn() const { return config_.qpn; }
  void set_home(const QueuePairHome& home) {
    home_ = home;
    lists_ = {};
    direct_peer_ = {};
  }
  /// The rings of the worker that is given the queue pair next, while no worker has it.
  void set_rings(CompletionRing& send, CompletionRing& receive) {
    config_.send_ring = &send;
    config_.receive_ring = &receive;
  }
  DevicePort& port() const { return *home_.port; }
  WorkerSession& program() const { return *home_.program; }
  SessionFlow& program_flow() const { return *home_.flow; }

  // ---- the path ----
  const Path& path() const { return path_; }
  const wire::HeaderTemplate& header_template() const { return header_template_; }
  PeerPlace peer() const { return peer_; }
  void set_path(const Path& path, PeerPlace peer);
  /// Whether the packets of the queue pair go to a device of this daemon.
  bool is_peer_in_daemon() const { return peer_ != PeerPlace::kElsewhere; }
  /// The queue pair of the same worker that takes packets without frames, as the worker found it in
  /// its turn `turn`: see DirectDelivery.
  struct DirectPeer {
    QueuePair* queue_pair = nullptr;
    uint64_t turn = UINT64_MAX;
  };
  DirectPeer& direct_peer() { return direct_peer_; }
  /// Whether it has sent frames that its peer may not have received yet. So before it sends a
  /// packet without a frame, it waits for them.
  bool has_sent_frames() const { return has_sent_frames_; }
  void set_has_sent_frames(bool has) { has_sent_frames_ = has; }
  /// The traffic class of what the queue pair sends: of its path, or of its newest datagram.
  uint8_t traffic_class() const {
    return core_.is_datagram() ? flow_.traffic_class : path_.traffic_class;
  }

  // ---- the transport ----
  /// The state as Worker::Modify set it last, or as the transport changed it since.
  transport::QpState state() const;
  QueuePairCore& core() { return core_; }
  const QueuePairCore& core() const { return core_; }
  Counters counters() const { return core_.counters(); }
  FlowControl& flow() { return flow_; }
  const FlowControl& flow() const { return flow_; }
  /// Packets and bytes of this queue pair, both directions.
  struct Traffic {
    uint64_t sent_packets = 0;
    uint64_t sent_bytes = 0;
    uint64_t received_packets = 0;
    uint64_t received_bytes = 0;
  };
  Traffic& traffic() { return traffic_; }
  const Traffic& traffic() const { return traffic_; }
  /// Before it moves to another worker, a queue pair neither sends requests nor reports
  /// completions, until its program has polled those of this worker: it polls the rings of workers
  /// in any order.
  void Pause();
  void Resume() { is_paused_ = false; }
  bool is_paused() const { return is_paused_; }
  /// Whether the program has polled all that was reported before the pause. Range: is_paused().
  bool IsPolled() const;
  /// Frames behind a missing packet, until their turn.
  KeptFrames& kept() { return kept_; }

  // ---- the program ----
  WorkQueues& works() { return works_; }
  const WorkQueues& works() const { return works_; }
  ReceiveSource& receive_source() { return receive_source_; }
  const ReceiveSource& receive_source() const { return receive_source_; }
  QueuePairReports& reports() { return reports_; }
  const QueuePairReports& reports() const { return reports_; }
  /// Whether a posted work is not sent yet that completes when it is sent. False for services that
  /// await acknowledgements.
  bool HasUnsent() {
    if (core_.is_reliable()) return false;
    return is_waiting() || core_.HasUnsent() || works_.HasReadySend();
  }

  // ---- waits ----
  /// Whether the queue pair waits for a copy or the end of a key. Its transport is not called then.
  bool is_waiting() const { return wait_ != WaitKind::kNone; }
  WaitKind wait() const { return wait_; }
  void set_wait(WaitKind wait) { wait_ = wait; }
  /// Ends the wait, and returns what it was for.
  WaitKind EndWait() { return std::exchange(wait_, WaitKind::kNone); }
  /// The work and packets that wait for the helper; see payload.h. Most queue pairs never wait, and
  /// go without: it is made at its first use.
  WaitingWork& waiting() {
    if (waiting_ == nullptr) [[unlikely]]
      MakeWaiting();
    return *waiting_;
  }
  bool has_waited() const { return waiting_ != nullptr; }

  // ---- its place in what a worker has of all queue pairs: each is used by its owner alone ----
  /// QueuePairTimers.
  struct Timer : TimerEntry {
    QueuePair* queue_pair = nullptr;
  };
  Timer& timer() { return timer_; }
  static QueuePair& OfTimer(TimerEntry& entry) { return *static_cast<Timer&>(entry).queue_pair; }
  /// The send schedule.
  struct ByteFlow : Flow {
    QueuePair* queue_pair = nullptr;
  };
  ByteFlow& scheduled() { return scheduled_; }
  static QueuePair& OfFlow(Flow& flow) { return *static_cast<ByteFlow&>(flow).queue_pair; }
  /// What the queue pair has of the port's receive buffer; unused where that has no bound.
  struct Reads : ReadShare {
    QueuePair* queue_pair = nullptr;
  };
  Reads& reads() { return reads_; }
  static QueuePair& OfShare(ReadShare& share) { return *static_cast<Reads&>(share).queue_pair; }
  /// The lists that name a queue pair at most once.
  ListMembership& lists() { return lists_; }
  /// The next queue pair of the same doorbell slot.
  QueuePair*& next_of_slot() { return next_of_slot_; }
  /// The place in the list of the program's queue pairs that want another turn.
  struct PostponedLink {
    QueuePair* previous = nullptr;
    QueuePair* next = nullptr;
  };
  PostponedLink& postponed_link() { return postponed_link_; }

  // ---- its packet history ----
  /// The newest packets of the queue pair, or null without --history-dir.
  PacketHistory* history() const { return history_.get(); }
  void set_history(std::unique_ptr<PacketHistory> history) { history_ = std::move(history); }
  std::unique_ptr<PacketHistory> TakeHistory() { return std::move(history_); }

  /// Prefetches what a packet or a posted request will need, some time ahead. With thousands of
  /// queue pairs each would otherwise wait for memory a dozen times, one after the other. What lies
  /// behind pointers follows: see WorkQueues.
  void Prefetch() const;

 private:
  void MakeWaiting();

  // Members that every packet and request touches come first: see Prefetch.
  Timer timer_;
  ByteFlow scheduled_;
  QueuePairHome home_;
  QueuePair* next_of_slot_ = nullptr;
  ListMembership lists_;
  WaitKind wait_ = WaitKind::kNone;
  PeerPlace peer_ = PeerPlace::kElsewhere;
  bool has_sent_frames_ = true;
  bool is_paused_ = false;
  DirectPeer direct_peer_;
  FlowControl flow_;
  QueuePairConfig config_;
  WorkQueues works_;
  ReceiveSource receive_source_;
  QueuePairReports reports_;
  std::unique_ptr<WaitingWork> waiting_;
  std::unique_ptr<PacketHistory> history_;
  Traffic traffic_;
  Path path_;
  wire::HeaderTemplate header_template_;
  QueuePairCore core_;  // Its end holds completions of receives, which many never use.
  KeptFrames kept_;
  /// What the rings had reported when the pause began.
  struct Reported {
    uint64_t sends = 0;
    uint64_t receives = 0;
  };
  Reported before_pause_;
  PostponedLink postponed_link_;
  Reads reads_;
};

/// Finds the queue pair of a number in a packet. Each worker has its own table. A table with open
/// addressing, half full at most. Queue pair numbers are random, so their low bits serve as the
/// hash.
class QpnTable {
 public:
  QueuePair* Find(Qpn qpn) const {
    for (size_t at = qpn.value() & mask_;; at = (at + 1) & mask_) {
      if (slots_[at].queue_pair == nullptr || slots_[at].qpn == qpn) return slots_[at].queue_pair;
    }
  }
  /// Prefetches what Find will look at first.
  void Prefetch(Qpn qpn) const { __builtin_prefetch(&slots_[qpn.value() & mask_]); }
  /// Adds a queue pair. Range: `qpn` is not in the table. May allocate, so call it between bursts.
  void Insert(Qpn qpn, QueuePair* queue_pair);
  void Erase(Qpn qpn);
  size_t size() const { return size_; }
  template <typename Visitor>
  void ForEach(Visitor&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.queue_pair != nullptr) visit(*slot.queue_pair);
    }
  }
  /// How many slots of the table one ForSome looks at.
  struct Piece {
    size_t most_queue_pairs = 0;
    size_t most_slots = 0;
  };
  /// Calls `visit` for the queue pairs of one piece of the table, from position `from` on; 0 is the
  /// beginning. Returns the position to continue at, while the table does not change; 0 at the end.
  template <typename Visitor>
  size_t ForSome(size_t from, Piece piece, Visitor&& visit) const {
    const size_t end = std::min(slots_.size(), from + piece.most_slots);
    for (; from < end && piece.most_queue_pairs != 0; ++from) {
      if (slots_[from].queue_pair == nullptr) continue;
      visit(*slots_[from].queue_pair);
      --piece.most_queue_pairs;
    }
    return from < slots_.size() ? from : 0;
  }

 private:
  struct Slot {
    Qpn qpn;
    QueuePair* queue_pair = nullptr;
  };
  void Grow();
  void Place(const Slot& slot);

  std::vector<Slot> slots_ = std::vector<Slot>(64);
  size_t mask_ = 63;
  size_t size_ = 0;
};

}  // namespace uroce::datapath
