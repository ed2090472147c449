// SPDX-License-Identifier: Apache-2.0
// The worker's side of one queue pair: the transport's state, the rings that feed it, and its place
// in the worker's lists.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/datapath/deficit_round_robin.h"
#include "pipeline/datapath/event_records.h"
#include "pipeline/datapath/flight_ring.h"
#include "pipeline/datapath/kept_frames.h"
#include "pipeline/datapath/pull_result.h"
#include "pipeline/datapath/queue_pair_config.h"
#include "pipeline/datapath/queue_pair_core.h"
#include "pipeline/datapath/shared_receive_queue.h"
#include "pipeline/datapath/timer_wheel.h"
#include "pipeline/datapath/work_lists.h"
#include "pipeline/rings/work_queue.h"
#include "pipeline/wire/encode.h"

namespace uroce::datapath {

struct ParkedWork;
class DevicePort;
struct SessionFlow;
struct WorkerSession;

/// Whether a queue pair waits for its session's helper or for other workers, and with what. While
/// it does, its transport is not called.
enum class ParkedKind : uint8_t {
  kNone,
  kEffect,      ///< The transport's wish is being executed.
  kGather,      ///< The payload of a packet is being read into its frame.
  kInvalidate,  ///< A key that a peer took back may still be in use elsewhere: see KeyWaits.
};

/// One queue pair. Made and destroyed by nic; between AddQueuePair and RemoveQueuePair everything
/// here belongs to the worker's thread, and nic looks inside only within Worker::Run.
class alignas(UROCE_LINE) QueuePair {
 public:
  /// Send work requests that the transport holds at once; the rest waits in the ring.
  static constexpr uint32_t kMaxHeldSends = 128;

  explicit QueuePair(const QueuePairConfig& config);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // ---- queries ----
  const QueuePairConfig& config() const { return config_; }
  Qpn qpn() const { return config_.qpn; }
  const Path& path() const { return path_; }
  /// As last set by Worker::Modify, or as the transport changed it since.
  transport::QpState state() const;
  const QueuePairCore& core() const { return core_; }
  Counters counters() const { return core_.counters(); }
  /// Records written to the pipe of asynchronous events.
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
  Traffic& traffic() { return traffic_; }
  const SendLists& send_lists() const { return send_lists_; }
  const ReceiveList& receive_list() const { return receive_list_; }
  const wire::HeaderTemplate& header_template() const { return header_template_; }
  void set_path(const Path& path);
  /// The flight recorder's memory, or null.
  FlightRing* flight() const { return flight_.get(); }
  void set_flight(std::unique_ptr<FlightRing> flight) { flight_ = std::move(flight); }
  std::unique_ptr<FlightRing> TakeFlight() { return std::move(flight_); }

  /// Whose keys the entries of its receive works hold: its own, or those of the queue it shares.
  uint32_t receive_pd() const { return receive_pd_; }
  /// By which the keys are judged that packets name: its own, or of XRC that of the selected queue.
  uint32_t remote_pd() const { return remote_pd_; }
  /// Whose memory those keys grant.
  Session* memory_session() const {
    return is_target_ && shared_ != nullptr ? shared_->config().session : config_.session;
  }
  /// An XRC target, which works with the queue that was selected last.
  bool is_target() const { return is_target_; }
  /// Range: is_target(). False: its domain has no such queue, and none is selected.
  [[nodiscard]] bool SelectShared(uint32_t srqn);
  /// The queue that receives are taken from, or null.
  const SharedReceiveQueue* shared() const { return shared_; }
  SharedReceiveQueue* shared() { return shared_; }
  /// Hands up to `left` posted sends to the transport, and takes them off `left`.
  PullResult PullSends(uint32_t& left);
  /// Hands the next receive to the transport, if there is one.
  PullResult PullReceive();
  /// In the error state: hands up to `left` receives to the transport, which flushes them, and
  /// takes them off `left`. What is posted to a shared queue stays there.
  PullResult FlushReceives(uint32_t& left);
  /// Forgets what is posted: the queue pair goes to RESET.
  void DiscardPosted();

  /// Shows the transport's state in the page, followed by a full fence: a program that reads it
  /// either sees ERR, or posted before the rings are looked at again. True: it changed.
  bool PublishState(transport::QpState state);
  /// Reports an asynchronous event, at once or by RetryRecords.
  void RaiseEvent(uint32_t event_type);
  bool has_pending_records() const { return has_pending_records_; }
  void RetryRecords();
  /// Who is told of events besides: each program that has opened an XRC target.
  void AddListener(EventRecords* listener) { listeners_.push_back(listener); }
  void RemoveListener(EventRecords* listener) { std::erase(listeners_, listener); }

  /// Its place in the worker's lists and tables. The worker's own.
  struct Timer : TimerEntry {
    QueuePair* queue_pair = nullptr;
  };
  struct ByteFlow : Flow {
    QueuePair* queue_pair = nullptr;
  };
  struct Links {
    Timer timer;
    ByteFlow flow;
    WorkerSession* session = nullptr;
    SessionFlow* session_flow = nullptr;
    DevicePort* port = nullptr;
    QueuePair* next_of_slot = nullptr;
    ParkedKind parked = ParkedKind::kNone;
    bool to_self = false;            ///< The peer's address is our device's own.
    bool in_daemon = false;          ///< The peer's address is that of one of our devices.
    bool held = false;               ///< In the list of those whose peer's gate was closed.
    bool touched = false;            ///< In the list of those to look after in this turn.
    bool received = false;           ///< A packet came in this turn.
    bool again = false;              ///< Rings hold more than one turn takes.
    bool sends_wait = false;         ///< The send ring may hold more than the transport took.
    bool records_wait = false;       ///< In the list of those with pending records.
    bool has_locals = false;         ///< Windows were bound, or keys invalidated, by its works.
    bool limit_event_waits = false;  ///< Of its shared receive queue, when last taken from.
    FlightEnd flight_end = FlightEnd::kTransport;
    bool corrupt_send = false;  ///< The ring is not looked at any more.
    bool corrupt_receive = false;
  };
  Links& links() { return links_; }
  bool in_daemon() const { return links_.in_daemon; }
  static QueuePair& OfTimer(TimerEntry& entry) { return *static_cast<Timer&>(entry).queue_pair; }
  static QueuePair& OfFlow(Flow& flow) { return *static_cast<ByteFlow&>(flow).queue_pair; }

  /// Fetches into the cache what a packet or a posted request will need, some time ahead: with
  /// thousands of queue pairs each would wait for memory a dozen times, one after the other.
  void Prefetch() const;
  /// The same for what lies behind pointers, when Prefetch has had its time: to receive, to send,
  /// and to take posted requests.
  void PrefetchReceive() const;
  void PrefetchSend() const;
  void PrefetchPosted() const;

  bool is_parked() const { return links_.parked != ParkedKind::kNone; }
  /// Whether it has posted what will be complete by being sent, and is not. Of services that await
  /// no acknowledgement.
  bool HasUnsent() {
    if (core_.is_reliable()) return false;
    return is_parked() || core_.HasPacket(Nanos(0)) ||
           sends_.LookAgain() == rings::QueueState::kReady;
  }
  /// What waits for the helper; see parked_work.h.
  ParkedWork& parked() { return *parked_; }
  KeptFrames& kept() { return kept_; }

  /// Its place in the list of those of its program that want another turn.
  struct PostponedLink {
    QueuePair* previous = nullptr;
    QueuePair* next = nullptr;
  };
  PostponedLink& postponed_link() { return postponed_link_; }

 private:
  PullResult PullShared();
  /// Tells the transport how many receives wait. The program's index is read again when half of
  /// what it last showed is taken: the peer always knows of half at least, and the index costs a
  /// long queue next to nothing.
  void OfferCredits();

  // What every packet and request touches comes first: see Prefetch.
  Links links_;
  rings::WorkQueueConsumer sends_;
  rings::WorkQueueConsumer receives_;
  SendLists send_lists_;
  ReceiveList receive_list_;
  std::unique_ptr<ParkedWork> parked_;
  std::unique_ptr<FlightRing> flight_;
  Traffic traffic_;
  SharedReceiveQueue* shared_;
  uint32_t receive_pd_;
  uint32_t remote_pd_;
  const bool is_target_;
  bool has_pending_records_ = false;
  transport::QpState published_state_ = transport::QpState::kReset;
  QueuePairConfig config_;
  Path path_;
  wire::HeaderTemplate header_template_;
  QueuePairCore core_;  // Ends in completions of receives, which many never use.
  EventRecords events_;
  std::vector<EventRecords*> listeners_;
  KeptFrames kept_;
  PostponedLink postponed_link_;
};

}  // namespace uroce::datapath
