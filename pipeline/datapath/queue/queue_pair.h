// SPDX-License-Identifier: Apache-2.0
// The worker's side of one queue pair: its transport, its rings, its path, its waits, and its place
// in the lists of its worker.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "pipeline/base/types.h"
#include "pipeline/congestion/dcqcn.h"
#include "pipeline/congestion/flow_rate.h"
#include "pipeline/datapath/capture/packet_history.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/queue/notification.h"
#include "pipeline/datapath/queue/queue_pair_config.h"
#include "pipeline/datapath/queue/queue_pair_core.h"
#include "pipeline/datapath/queue/work_queues.h"
#include "pipeline/datapath/thread/deficit_round_robin.h"
#include "pipeline/datapath/thread/read_budget.h"
#include "pipeline/datapath/thread/timer_wheel.h"
#include "pipeline/wire/encode.h"

namespace uroce::datapath {

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
  void set_home(const QueuePairHome& home) { home_ = home; }
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
  /// The work and packets that wait for the helper; see waiting_work.h.
  WaitingWork& waiting() { return *waiting_; }

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

  // ---- the flight recorder ----
  /// The newest packets of the queue pair, or null when there is no flight recorder.
  PacketHistory* history() const { return history_.get(); }
  void set_history(std::unique_ptr<PacketHistory> history) { history_ = std::move(history); }
  std::unique_ptr<PacketHistory> TakeHistory() { return std::move(history_); }

  /// Prefetches what a packet or a posted request will need, some time ahead. With thousands of
  /// queue pairs each would otherwise wait for memory a dozen times, one after the other. What lies
  /// behind pointers follows: see WorkQueues.
  void Prefetch() const;

 private:
  // Members that every packet and request touches come first: see Prefetch.
  Timer timer_;
  ByteFlow scheduled_;
  QueuePairHome home_;
  QueuePair* next_of_slot_ = nullptr;
  ListMembership lists_;
  WaitKind wait_ = WaitKind::kNone;
  PeerPlace peer_ = PeerPlace::kElsewhere;
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
  PostponedLink postponed_link_;
  Reads reads_;
};

}  // namespace uroce::datapath
