// SPDX-License-Identifier: Apache-2.0
// The worker's side of one queue pair: the state of the transport, the rings that feed it, and its
// place in the worker's lists.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/base/counters.h"
#include "pipeline/base/types.h"
#include "pipeline/congestion/dcqcn.h"
#include "pipeline/congestion/flow_rate.h"
#include "pipeline/datapath/capture/packet_history.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/queue/notification.h"
#include "pipeline/datapath/queue/queue_pair_config.h"
#include "pipeline/datapath/queue/queue_pair_core.h"
#include "pipeline/datapath/queue/shared_receive_queue.h"
#include "pipeline/datapath/queue/work_request.h"
#include "pipeline/datapath/thread/deficit_round_robin.h"
#include "pipeline/datapath/thread/read_budget.h"
#include "pipeline/datapath/thread/timer_wheel.h"
#include "pipeline/shm/rings/work_queue.h"
#include "pipeline/wire/encode.h"

namespace uroce::datapath {

class DevicePort;
class Session;
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

/// One queue pair. Made and destroyed by nic; between AddQueuePair and RemoveQueuePair everything
/// here belongs to the worker's thread, and nic looks inside only within Worker::Run.
class alignas(UROCE_LINE) QueuePair {
 public:
  /// The most send works that the transport holds at once. The other ones wait in the ring.
  static constexpr uint32_t kMaxHeldSends = 128;

  explicit QueuePair(const QueuePairConfig& config);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // ---- queries ----
  const QueuePairConfig& config() const { return config_; }
  Qpn qpn() const { return config_.qpn; }
  const Path& path() const { return path_; }
  /// The traffic class of what the queue pair sends: of its path, or of its newest datagram.
  uint8_t traffic_class() const {
    return core_.is_datagram() ? flow_.traffic_class : path_.traffic_class;
  }
  /// The state as Worker::Modify set it last, or as the transport changed it since.
  transport::QpState state() const;
  const QueuePairCore& core() const { return core_; }
  Counters counters() const { return core_.counters(); }
  /// The number of records written to the socket of asynchronous events.
  uint32_t async_records() const { return events_.written(); }
  /// Packets and bytes of this queue pair, both directions.
  struct Traffic {
    uint64_t sent_packets = 0;
    uint64_t sent_bytes = 0;
    uint64_t received_packets = 0;
    uint64_t received_bytes = 0;
  };
  const Traffic& traffic() const { return traffic_; }

  // ---- worker ----
  QueuePairCore& core() { return core_; }
  FlowControl& flow() { return flow_; }
  const FlowControl& flow() const { return flow_; }
  Traffic& traffic() { return traffic_; }
  const SendLists& send_lists() const { return send_lists_; }
  const ReceiveList& receive_list() const { return receive_list_; }
  const wire::HeaderTemplate& header_template() const { return header_template_; }
  void set_path(const Path& path);
  /// The newest packets of the queue pair, or null when there is no flight recorder.
  PacketHistory* history() const { return history_.get(); }
  void set_history(std::unique_ptr<PacketHistory> history) { history_ = std::move(history); }
  std::unique_ptr<PacketHistory> TakeHistory() { return std::move(history_); }

  /// The domain whose keys receive works hold: the queue pair's, or that of the shared queue.
  uint32_t receive_pd() const { return receive_pd_; }
  /// The domain of the keys that packets name: the queue pair's, or for XRC the selected queue's.
  uint32_t remote_pd() const { return remote_pd_; }
  /// The session whose memory the keys in packets grant.
  Session* memory_session() const {
    return is_target_ && shared_ != nullptr ? shared_->config().session : config_.session;
  }
  /// Whether this is an XRC target. It takes receives from the queue that was selected last.
  bool is_target() const { return is_target_; }
  /// Range: is_target(). False: its domain has no such queue, and none is selected.
  [[nodiscard]] bool SelectShared(uint32_t srqn);
  /// The queue that receives are taken from, or null.
  const SharedReceiveQueue* shared() const { return shared_; }
  SharedReceiveQueue* shared() { return shared_; }
  /// Whether posted sends are taken in the state of the transport.
  bool takes_sends() const;
  /// Whether the rings hold something that a look would take: a send, or in the error state a
  /// receive. Reads the rings' indices in shared memory.
  bool HasPosted() const;
  /// Whether the send ring may hold more than the transport took: until PullSends finds it drained.
  bool may_have_sends() const { return may_have_sends_; }
  void LookForSends() { may_have_sends_ = true; }
  /// Hands up to `left` posted sends to the transport, and subtracts their number from `left`.
  /// Their lengths are added to `sizes`. kCorrupt is returned once: the ring is not looked at again
  /// until DiscardPosted.
  PullResult PullSends(uint32_t& left, Nanos now, SizeHistogram& sizes);
  /// Hands the next receive to the transport, if there is one. kCorrupt: as for PullSends.
  PullResult PullReceive();
  /// In the error state: hands up to `left` receives to the transport, which flushes them, and
  /// subtracts their number from `left`. Receives posted to a shared queue stay there.
  PullResult FlushReceives(uint32_t& left);
  /// Forgets all posted works. Called when the queue pair goes to RESET.
  void DiscardPosted();
  /// Whether works of the queue pair have bound windows or taken keys back.
  bool has_local_works() const { return has_local_works_; }
  /// Whether the shared receive queue had a limit event to report when last taken from.
  bool has_limit_event() const { return has_limit_event_; }

  /// Writes the transport's state to the page, then a full fence: a program that reads the page
  /// either sees ERR, or posted before the rings are looked at again. True: it changed.
  bool PublishState(transport::QpState state);
  /// Reports an asynchronous event, at once or by RetryRecords.
  void RaiseEvent(uint32_t event_type);
  bool has_pending_records() const { return has_pending_records_; }
  void RetryRecords();
  /// Adds or removes a further receiver of events: each program that has opened an XRC target.
  void AddListener(EventRecords* listener) { listeners_.push_back(listener); }
  void RemoveListener(EventRecords* listener) { std::erase(listeners_, listener); }

  /// The queue pair's place in the worker's lists and tables. Used by the worker alone.
  struct Timer : TimerEntry {
    QueuePair* queue_pair = nullptr;
  };
  struct ByteFlow : Flow {
    QueuePair* queue_pair = nullptr;
  };
  struct Reads : ReadShare {
    QueuePair* queue_pair = nullptr;
  };
  struct Links {
    Timer timer;
    ByteFlow flow;
    WorkerSession* session = nullptr;
    SessionFlow* session_flow = nullptr;
    DevicePort* port = nullptr;
    QueuePair* next_of_slot = nullptr;
    ListMembership lists;
    WaitKind wait = WaitKind::kNone;
    PeerPlace peer = PeerPlace::kElsewhere;
  };
  Links& links() { return links_; }
  const Links& links() const { return links_; }
  /// Whether the packets of the queue pair go to a device of this daemon.
  bool is_peer_in_daemon() const { return links_.peer != PeerPlace::kElsewhere; }
  static QueuePair& OfTimer(TimerEntry& entry) { return *static_cast<Timer&>(entry).queue_pair; }
  /// What the queue pair has of the port's receive buffer; unused where that has no bound.
  Reads& reads() { return reads_; }
  static QueuePair& OfShare(ReadShare& share) { return *static_cast<Reads&>(share).queue_pair; }
  static QueuePair& OfFlow(Flow& flow) { return *static_cast<ByteFlow&>(flow).queue_pair; }

  /// Prefetches what a packet or a posted request will need, some time ahead. With thousands of
  /// queue pairs each would otherwise wait for memory a dozen times, one after the other.
  void Prefetch() const;
  /// Prefetch what lies behind pointers, after Prefetch has had its time: for receiving, sending,
  /// and taking posted requests.
  void PrefetchReceive() const;
  void PrefetchSend() const;
  void PrefetchPosted() const;

  /// Whether the queue pair waits for a copy or the end of a key. Its transport is not called then.
  bool is_waiting() const { return links_.wait != WaitKind::kNone; }
  /// Whether a posted work is not sent yet that completes when it is sent. False for services that
  /// await acknowledgements.
  bool HasUnsent() {
    if (core_.is_reliable()) return false;
    return is_waiting() || core_.HasUnsent() || sends_.LookAgain() == rings::QueueState::kReady;
  }
  /// The work and packets that wait for the helper; see waiting_work.h.
  WaitingWork& waiting() { return *waiting_; }
  KeptFrames& kept() { return kept_; }

  /// The place in the list of the program's queue pairs that want another turn.
  struct PostponedLink {
    QueuePair* previous = nullptr;
    QueuePair* next = nullptr;
  };
  PostponedLink& postponed_link() { return postponed_link_; }

 private:
  PullResult PostSends(uint32_t& left, Nanos now, SizeHistogram& sizes);
  PullResult PostOwnReceive();
  PullResult PostSharedReceive();
  /// Tells the transport how many receives wait. The program's index is read again when half of the
  /// receives that it last showed are taken. So the peer always knows of half at least, and reading
  /// the index costs a long queue next to nothing.
  void OfferCredits();
  /// Whether receives are flushed in the error state: those posted to a shared queue stay there.
  bool flushes_receives() const {
    return shared_ == nullptr && !is_target_ && !has_corrupt_receives_;
  }

  // Members that every packet and request touches come first: see Prefetch.
  Links links_;
  FlowControl flow_;
  rings::WorkQueueConsumer sends_;
  rings::WorkQueueConsumer receives_;
  SendLists send_lists_;
  ReceiveList receive_list_;
  std::unique_ptr<WaitingWork> waiting_;
  std::unique_ptr<PacketHistory> history_;
  Traffic traffic_;
  SharedReceiveQueue* shared_;
  uint32_t receive_pd_;
  uint32_t remote_pd_;
  const bool is_target_;
  bool may_have_sends_ = false;
  bool has_local_works_ = false;
  bool has_limit_event_ = false;
  bool has_corrupt_sends_ = false;
  bool has_corrupt_receives_ = false;
  bool has_pending_records_ = false;
  transport::QpState published_state_ = transport::QpState::kReset;
  QueuePairConfig config_;
  Path path_;
  wire::HeaderTemplate header_template_;
  QueuePairCore core_;  // Its end holds completions of receives, which many never use.
  EventRecords events_;
  std::vector<EventRecords*> listeners_;
  KeptFrames kept_;
  PostponedLink postponed_link_;
  Reads reads_;
};

}  // namespace uroce::datapath
