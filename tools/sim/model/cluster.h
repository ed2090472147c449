// SPDX-License-Identifier: Apache-2.0
// NICs at the switches of a fabric, in virtual time: their connections, and the order of all
// events.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/fabric/fabric.h"
#include "pipeline/transport/work.h"
#include "tools/sim/model/agenda.h"
#include "tools/sim/model/frames.h"
#include "tools/sim/model/nic.h"

namespace uroce::tools::sim {

/// Switches, hosts and the links between them, by name. Hosts and switches are numbered in order.
struct Network {
  struct Switch {
    std::string name;
    fabric::SwitchConfig config;
  };
  struct Host {
    std::string name;
    uint32_t switch_index = 0;
    fabric::LinkConfig link;
    NicConfig nic;
  };
  struct Trunk {
    uint32_t first = 0, second = 0;  ///< Switches.
    fabric::LinkConfig link;
  };
  std::vector<Switch> switches;
  std::vector<Host> hosts;
  std::vector<Trunk> trunks;  ///< Their cables are numbered behind those of hosts.

  uint32_t CableOfTrunk(uint32_t trunk) const {
    return static_cast<uint32_t>(hosts.size()) + trunk;
  }
  /// "h0 - leaf1".
  std::string NameOfCable(uint32_t cable) const;
  /// One direction of a cable: "leaf1 -> h0".
  std::string NameOfLink(uint32_t link) const;
};

/// A way of a connection between two hosts. The requester is `from`.
struct Connection {
  uint32_t from = 0, to = 0;
  QueuePair* requester = nullptr;
  QueuePair* responder = nullptr;
  uint64_t tag = 0;  ///< The user's.
};

/// Events of connections, which the cluster's user takes. It may post, connect and disconnect.
class ConnectionUser {
 public:
  virtual ~ConnectionUser() = default;
  virtual void OnCompletion(uint32_t connection, transport::WcStatus status, Nanos now) = 0;
  /// What becomes of a data packet that the script waits for.
  struct PacketFate {
    bool is_lost = false;
    bool is_marked = false;
    uint64_t next = QueuePair::kNoPacket;  ///< The next packet that the script waits for.
  };
  virtual PacketFate OnScriptedPacket(uint32_t connection, uint64_t packet) = 0;
};

/// A frame as a recorded NIC has seen it.
using FrameRecorder =
    std::function<void(const Nic& nic, const PacketFrame& frame, bool is_sent, Nanos now)>;

class Cluster final : public fabric::Surroundings, public NicOwner {
 public:
  /// `max_works`: the most work requests under way of a connection.
  struct Config {
    uint64_t seed = 1;
    uint32_t max_works = 16;
    uint32_t max_frames = 1u << 16;  ///< In the whole network.
  };

  Cluster(const Network& network, const Config& config, ConnectionUser& user);
  ~Cluster() override;

  // ---- connections ----
  /// A connection with two new queue pairs. Returns its number. Numbers of connections that ended
  /// are given again.
  uint32_t Connect(uint32_t from, uint32_t to, uint64_t tag);
  /// Ends a connection. Packets that are on their way to its queue pairs are stale.
  void Disconnect(uint32_t connection);
  /// Posts a message. Range: fewer than max_works are under way; 1 to 2^31 bytes.
  void Post(uint32_t connection, transport::WorkOpcode opcode, uint32_t bytes);
  const Connection& connection(uint32_t number) const { return connections_[number]; }
  /// From now on the user is asked about data packet `packet`, counted from 1, of a connection.
  void WaitForPacket(uint32_t connection, bool of_responder, uint64_t packet);

  // ---- time ----
  Nanos now() const { return now_; }
  /// Lets all happen that is due by `time`, or until Interrupt was called: then now() is earlier.
  void RunUntil(Nanos time);
  /// Has RunUntil return at the end of this moment: the user has something to do.
  void Interrupt() { is_interrupted_ = true; }
  /// Whether anything is on its way, or any timer runs.
  bool is_quiet() const { return fabric_->NextEvent() == kNever && agenda_.next() == kNever; }

  // ---- changes ----
  void SetUp(uint32_t cable, bool is_up);
  void PauseByHost(uint32_t host, bool pause) { fabric_->PauseByHost(host, pause, now_); }

  // ---- queries ----
  const fabric::Fabric& fabric() const { return *fabric_; }
  const Nic& nic(uint32_t host) const { return *nics_[host]; }
  uint32_t hosts() const { return static_cast<uint32_t>(nics_.size()); }
  /// All queue pairs that were made. Their counters are those of all their connections.
  const std::vector<std::unique_ptr<QueuePair>>& queue_pairs() const { return queue_pairs_; }
  const FramePool& frames() const { return pool_; }
  void Record(const std::vector<uint32_t>& hosts, FrameRecorder recorder);

 private:
  struct LateFrame {
    Nanos at;
    uint64_t order;
    PacketFrame* frame;
    bool operator<(const LateFrame& other) const {  // The top of a queue is its greatest element.
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  // ---- fabric::Surroundings ----
  void Deliver(uint32_t host, const fabric::Frame& frame, Nanos arrival) override;
  void Expect(uint32_t host, const fabric::Frame& frame) override;
  void OnDeparture(uint32_t host) override { nics_[host]->OnDeparture(); }
  std::optional<fabric::Frame> Copy(const fabric::Frame&) override { return std::nullopt; }
  void Free(const fabric::Frame& frame) override;
  // ---- NicOwner ----
  void OnCompletion(QueuePair& pair, const transport::Completion& completion) override;
  void OnScriptedPacket(QueuePair& pair, PacketFrame& frame) override;
  void OnRecorded(const Nic& nic, const PacketFrame& frame, bool is_sent, Nanos now) override {
    recorder_(nic, frame, is_sent, now);
  }

  QueuePair& TakePair(Nic& nic);
  void GivePair(QueuePair& pair);
  void Join(QueuePair& pair, QueuePair& peer, uint32_t connection);
  Nanos NextEvent() const;
  void RunEvents(Nanos time);
  void ServeTouched();

  ConnectionUser& user_;
  const Config config_;
  Random random_;
  Nanos now_{0};
  bool is_interrupted_ = false;
  FramePool pool_;
  std::unique_ptr<fabric::Fabric> fabric_;
  Agenda agenda_;
  std::vector<Nic*> touched_;
  std::vector<std::unique_ptr<Nic>> nics_;
  std::vector<std::unique_ptr<QueuePair>> queue_pairs_;
  std::vector<std::vector<QueuePair*>> idle_pairs_;  ///< Of each NIC.
  std::vector<Connection> connections_;
  std::vector<uint32_t> idle_connections_;
  std::vector<uint32_t> ending_;  ///< To be disconnected at the end of this moment.
  std::priority_queue<LateFrame> late_;
  uint64_t late_frames_ = 0;
  uint32_t next_qpn_ = 0x100;
  FrameRecorder recorder_;
};

}  // namespace uroce::tools::sim
