// SPDX-License-Identifier: Apache-2.0
// The whole analysis: takes the packets of a capture in order, finds the connections that they
// belong to, and yields connections, amounts and findings. Memory grows with connections, not with
// packets.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pipeline/base/types.h"
#include "tools/analyze/input/packet_reader.h"
#include "tools/analyze/story/cm_exchanges.h"
#include "tools/analyze/story/connection.h"
#include "tools/analyze/story/finding.h"

namespace uroce::tools::analyze {

struct AnalysisOptions {
  size_t most_plot_points = 0;  ///< Of each kind and requester; 0: no plots.
};

struct CaptureTotals {
  uint64_t frames = 0;
  uint64_t bytes = 0;               ///< On the wire.
  std::array<uint64_t, 6> kinds{};  ///< By FrameKind.
  uint64_t cut = 0;                 ///< RoCE packets without all of their bytes.
  uint64_t icrc_right = 0;
  uint64_t icrc_wrong = 0;
  uint64_t mads = 0;  ///< Packets to queue pairs 1.
  int64_t first_ns = 0;
  int64_t last_ns = 0;
  uint64_t left_out = 0;  ///< Packets of more connections than can be told apart.
};

class Analysis {
 public:
  static constexpr size_t kMostConnections = 1 << 20;

  explicit Analysis(const AnalysisOptions& options) : options_(options), exchanges_(log_) {}

  void OnPacket(const CapturedPacket& packet);
  /// After the last packet, once.
  void Finish();

  const CaptureTotals& totals() const { return totals_; }
  const std::vector<std::unique_ptr<Connection>>& connections() const { return connections_; }
  const CmExchanges& exchanges() const { return exchanges_; }
  const FindingLog& log() const { return log_; }

 private:
  /// Packets from one address to a queue pair at another one.
  struct FlowKey {
    Gid source;
    Gid destination;
    uint32_t dest_qpn = 0;
    friend bool operator==(const FlowKey&, const FlowKey&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const FlowKey& key) {
      return H::combine_contiguous(std::move(state), reinterpret_cast<const uint8_t*>(&key),
                                   sizeof key);
    }
  };
  struct Flow {
    Connection* connection = nullptr;
    uint8_t sender = 0;  // Which end sends.
    bool is_alone = true;
    uint16_t source_port = 0;
  };
  using AddressPair = std::pair<Gid, Gid>;
  /// What is known of the ICRCs of one point and direction.
  struct IcrcFilling {
    uint32_t right = 0;
    uint32_t wrong = 0;
    bool is_unfilled = false;
    std::vector<Finding> waiting;
  };
  struct Pauses {
    uint64_t frames = 0;
    uint64_t first_frame = 0;
    int64_t first_ns = 0;
  };

  void OnRoce(const CapturedPacket& packet);
  void OnDamaged(const CapturedPacket& packet);
  /// False: the sender or the capture has not filled in the ICRCs.
  bool CountsAsDamaged(const CapturedPacket& packet);
  void OnMalformed(const CapturedPacket& packet);
  void OnMad(const CapturedPacket& packet);
  void Deliver(const CapturedPacket& packet, Flow& flow);
  Flow* FindFlow(const CapturedPacket& packet);
  Flow* AddFlow(const CapturedPacket& packet);
  Connection* AddConnection(const CapturedPacket& packet);
  void Join(const CapturedPacket& packet, const FlowKey& key, Flow& flow);
  void JoinWith(Flow& flow, const FlowKey& key, const FlowKey& other_key, Flow& other);
  void TakeAgreement(const CapturedPacket& packet, const Agreement& agreement);
  RequestStream& StreamOf(Connection& connection, View& view, uint8_t requester);
  void FinishConnections();
  void FinishPauses();
  void FindMissingDisconnects();
  void MergeViews();

  AnalysisOptions options_;
  CaptureTotals totals_;
  FindingLog log_;
  CmExchanges exchanges_;
  std::vector<std::unique_ptr<Connection>> connections_;
  absl::flat_hash_map<FlowKey, Flow> flows_;
  std::map<AddressPair, std::vector<FlowKey>> alone_;  // Flows without a partner.
  FlowKey last_key_;
  Flow* last_flow_ = nullptr;
  std::map<std::pair<uint32_t, Direction>, IcrcFilling> icrcs_;
  std::pair<uint32_t, Direction> last_filling_key_;
  // From a point to the second of two addresses and back.
  std::map<std::pair<uint32_t, AddressPair>, RoundTrip> round_trips_;
  IcrcFilling* last_filling_ = nullptr;  // Of `icrcs_`.
  std::map<uint32_t, Pauses> pauses_;
};

}  // namespace uroce::tools::analyze
