// SPDX-License-Identifier: Apache-2.0
// A NIC of the simulation: queue pairs of the daemon's transport behind one line, and the
// congestion control of their flows. It does what a worker of the daemon does, without payload,
// rings and turns: each packet leaves when the line is free, and is executed when it arrives.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/congestion/dcqcn.h"
#include "pipeline/congestion/flow.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/fabric/fabric.h"
#include "pipeline/transport/rc_queue_pair.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"
#include "tools/sim/model/agenda.h"
#include "tools/sim/model/frames.h"

namespace uroce::tools::sim {

/// What a NIC is set to. A NIC of another manufacturer may agree to no selective repeat, and answer
/// no marks (np_enable of its settings is 0).
struct NicConfig {
  congestion::Settings congestion;
  bool selective_repeat = true;   ///< Used where both ends have it; otherwise go-back-N.
  uint32_t mtu_bytes = 4096;      ///< Path MTU. The least of both ends counts.
  uint32_t window_packets = 256;  ///< The most request packets in flight, with go-back-N.
  uint8_t max_rd_atomic = 16;     ///< READs under way.
  uint8_t timeout = 14;           ///< Code of the local ACK timeout: 4.096 us * 2^code.
  uint8_t retry_count = 7;
  double reorder = 0;      ///< The part of the frames that reach the NIC late, behind others.
  Nanos reorder_delay{0};  ///< How late.
};

/// What a NIC has counted. All are cumulative.
struct NicCounters {
  uint64_t sent_frames = 0;
  uint64_t received_frames = 0;
  uint64_t received_bytes = 0;  ///< Payload that was new: goodput.
  uint64_t marked_frames = 0;   ///< Received with CE.
  uint64_t cnps_sent = 0;
  uint64_t cnps_received = 0;
  uint64_t stale_frames = 0;    ///< For queue pairs that are no more.
  uint64_t scripted_drops = 0;  ///< By the scenario's events.
  uint64_t reordered_frames = 0;
};

class Nic;

/// One end of a connection. Does not move. Used by its NIC, and by the cluster that owns both.
struct QueuePair {
  static constexpr uint64_t kNoPacket = UINT64_MAX;

  QueuePair(const transport::RcConfig& config, uint32_t own_index)
      : core(config), index(own_index) {}

  transport::RcQueuePair core;
  congestion::FlowRate rate;
  congestion::NotificationPoint answers;
  Nic* nic = nullptr;
  QueuePair* peer = nullptr;
  const uint32_t index;     ///< Of the cluster's queue pairs.
  uint32_t connection = 0;  ///< Of the cluster's connections.
  Qpn qpn;
  std::array<uint8_t, PacketFrame::kHeaderBytes> headers{};  ///< Of all packets that it sends.
  std::map<uint32_t, PacketFrame*> kept;                     ///< Behind a hole, by PSN.
  uint64_t sent_data_packets = 0;
  uint64_t received_bytes = 0;           ///< New payload.
  uint64_t scripted_packet = kNoPacket;  ///< The data packet that the script waits for.
  Nanos filed = kNever;                  ///< The time of its timer in the agenda.
  bool is_ready = false;                 ///< In the list of those that send data.
  bool owes_answer = false;              ///< In the list of those that acknowledge.
  bool is_paced = false;                 ///< It waits for its send time, outside of the lists.

  /// Fetches into the cache what most packets use: the begin of the core, and all behind it.
  void Prefetch() const {
    constexpr size_t kLine = 64;
    constexpr size_t kCoreBytes = 14 * kLine;
    const auto* const begin = reinterpret_cast<const uint8_t*>(this);
    for (size_t at = 0; at < kCoreBytes; at += kLine) __builtin_prefetch(begin + at);
    for (size_t at = sizeof core; at < sizeof *this; at += kLine) __builtin_prefetch(begin + at);
  }
};

/// A first-in-first-out list of queue pairs, in one piece of memory.
class PairList {
 public:
  bool empty() const { return begin_ == end_; }
  QueuePair& front() const { return *pairs_[begin_ % pairs_.size()]; }
  void push_back(QueuePair& pair) {
    if (end_ - begin_ == pairs_.size()) Grow();
    pairs_[end_++ % pairs_.size()] = &pair;
  }
  void pop_front() { ++begin_; }
  void Remove(const QueuePair& pair) {
    uint32_t kept = begin_;
    for (uint32_t each = begin_; each != end_; ++each) {
      QueuePair* const its = pairs_[each % pairs_.size()];
      if (its != &pair) pairs_[kept++ % pairs_.size()] = its;
    }
    end_ = kept;
  }

 private:
  void Grow() {
    std::vector<QueuePair*> larger(2 * pairs_.size());
    for (uint32_t each = begin_; each != end_; ++each) {
      larger[each % larger.size()] = pairs_[each % pairs_.size()];
    }
    pairs_ = std::move(larger);
  }

  std::vector<QueuePair*> pairs_ = std::vector<QueuePair*>(8);  ///< A power of 2 of them.
  uint32_t begin_ = 0, end_ = 0;
};

/// What a NIC tells the cluster.
class NicOwner {
 public:
  virtual ~NicOwner() = default;
  /// A work request of `pair` has ended.
  virtual void OnCompletion(QueuePair& pair, const transport::Completion& completion) = 0;
  /// The packet that the script waits for leaves. The callee may mark the frame or doom it, and
  /// sets the next packet.
  virtual void OnScriptedPacket(QueuePair& pair, PacketFrame& frame) = 0;
  /// A frame is sent or received, on NICs that are recorded.
  virtual void OnRecorded(const Nic& nic, const PacketFrame& frame, bool is_sent, Nanos now) = 0;
};

/// One thread. The cluster calls Serve at the end of each moment in which something happened to
/// the NIC, and all else as it happens.
class Nic {
 public:
  /// What all NICs share, and the cluster owns.
  struct Shared {
    fabric::Fabric& fabric;
    FramePool& pool;
    Agenda& agenda;
    NicOwner& owner;
    std::vector<Nic*>& touched;  ///< Those to serve at the end of this moment.
  };

  Nic(uint32_t host, const NicConfig& config, uint64_t line_bps, const Shared& shared);
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  // ---- events ----
  /// A frame for `pair` has arrived, which the NIC owns from now on.
  void OnFrame(QueuePair& pair, PacketFrame& frame, Nanos now);
  /// The line has taken a frame.
  void OnDeparture() {
    if (HasWork()) Touch();
  }
  void OnTimer(QueuePair& pair, Nanos now);
  void OnPace(QueuePair& pair, Nanos now);
  /// Work was posted to `pair`.
  void OnPosted(QueuePair& pair, Nanos now) { Settle(pair, now); }
  /// `pair` is used no more: it is out of all lists, and its rate is forgotten.
  void Forget(QueuePair& pair);

  /// Sends what the line takes now.
  void Serve(Nanos now);
  void Touch() {
    if (is_touched_) return;
    is_touched_ = true;
    shared_.touched.push_back(this);
  }

  // ---- prefetching ----
  void Prefetch() const {
    for (const void* each :
         {static_cast<const void*>(&config_.reorder), static_cast<const void*>(&line_),
          static_cast<const void*>(&counters_), static_cast<const void*>(&cnps_),
          static_cast<const void*>(&ready_), static_cast<const void*>(&is_recorded_)}) {
      __builtin_prefetch(each);
    }
  }
  /// The queue pair that sends next, after Prefetch.
  void PrefetchPair() const {
    __builtin_prefetch(&line_.control);
    if (!ready_.empty()) ready_.front().Prefetch();
  }

  // ---- queries ----
  uint32_t host() const { return host_; }
  const NicConfig& config() const { return config_; }
  const congestion::Environment& environment() const { return environment_; }
  const NicCounters& counters() const { return counters_; }
  void SetRecorded(bool is_recorded) { is_recorded_ = is_recorded; }
  void CountReordered() { ++counters_.reordered_frames; }

 private:
  void Execute(QueuePair& pair, PacketFrame& frame, Nanos now);
  void ReplayKept(QueuePair& pair, Nanos now);
  void OnMarked(QueuePair& pair, const wire::TransportHeader& header, Nanos now);
  /// Takes completions and losses of `pair`, and files what it wants next.
  void Settle(QueuePair& pair, Nanos now);
  void FileTimer(QueuePair& pair);
  void List(QueuePair& pair);

  bool HasWork() const { return !cnps_.empty() || !answering_.empty() || !ready_.empty(); }
  bool SendCnp(Nanos now);
  bool SendAnswer(Nanos now);
  bool SendData(Nanos now);
  /// Sends the next packet of `pair`. False: it has none.
  bool SendPacketOf(QueuePair& pair, Nanos now);
  bool MustWait(QueuePair& pair, Nanos now);
  PacketFrame& FrameFor(QueuePair& pair, const wire::TransportHeader& header,
                        uint32_t payload_bytes);
  void Launch(PacketFrame& frame, Nanos now);

  const uint32_t host_;
  const NicConfig config_;
  const Shared shared_;
  const fabric::Link& line_;
  congestion::Environment environment_;
  congestion::LimitedFlows limited_;
  NicCounters counters_;
  PairList cnps_;       ///< Those whose peer gets a CNP.
  PairList answering_;  ///< Those that owe an acknowledgement: it goes before data.
  PairList ready_;      ///< Those with data, in turn, a packet each.
  uint16_t identification_ = 0;
  bool is_touched_ = false;
  bool is_recorded_ = false;
};

}  // namespace uroce::tools::sim
