// SPDX-License-Identifier: Apache-2.0
// The exchanges of the connection manager: who connects to whom, how long it takes, refusals and
// ends (docs/protocol/cm.md, section 7).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "pipeline/wire/cm/message.h"
#include "tools/analyze/input/packet_reader.h"
#include "tools/analyze/story/finding.h"

namespace uroce::tools::analyze {

/// What a REQ and its REP agree on. "Active" is the end that sent the REQ.
struct Agreement {
  Gid active;
  Gid passive;
  Qpn active_qpn;
  Qpn passive_qpn;
  wire::Psn active_first_psn;  ///< The first PSN that the active end sends.
  wire::Psn passive_first_psn;
  uint32_t mtu_bytes = 0;
  uint8_t active_reads = 0;  ///< READs that the active end may have outstanding.
  uint8_t passive_reads = 0;
  uint8_t ack_timeout_code = 0;
  uint8_t retry_count = 0;
  std::string service;  ///< "TCP port 7174".
};

/// One exchange.
struct CmExchange {
  Gid active;
  Gid passive;
  wire::CmReq req;
  uint64_t req_frame = 0;
  int64_t req_ns = 0;
  int64_t rep_ns = 0;  ///< 0: none yet; the same for the others.
  int64_t rtu_ns = 0;
  int64_t end_ns = 0;  ///< Of the REJ, or of the first DREQ.
  uint64_t dreq_frame = 0;
  int64_t drep_ns = 0;
  uint32_t req_count = 0;
  bool was_rejected = false;
  wire::CommId passive_id;
  Qpn passive_qpn;
  uint32_t connection = Finding::kNone;  ///< Set by the user of this class.
};

class CmExchanges {
 public:
  static constexpr size_t kMost = 65536;

  explicit CmExchanges(FindingLog& log) : log_(log) {}

  /// A MAD to a queue pair 1, whose ICRC is not wrong. Returns an agreement when a REP completes
  /// one.
  std::optional<Agreement> OnMad(const CapturedPacket& packet);
  /// The exchange that `OnMad` completed last.
  CmExchange& completed() { return *completed_; }
  void Finish(int64_t end_ns);
  /// All exchanges, in the order of their REQs.
  std::vector<const CmExchange*> all() const;

 private:
  using Key = std::tuple<Gid, uint32_t>;  // The active end, and its communication id.
  CmExchange* Find(const Gid& a, const Gid& b, wire::CommId of_a, wire::CommId of_b);
  void OnReq(const CapturedPacket& packet, const wire::CmReq& req);
  std::optional<Agreement> OnRep(const CapturedPacket& packet, const wire::CmRep& rep);
  void OnRtu(const CapturedPacket& packet, const wire::CmRtu& rtu);
  void OnRej(const CapturedPacket& packet, const wire::CmRej& rej);
  void OnDreq(const CapturedPacket& packet, const wire::CmDreq& dreq);
  void OnDrep(const CapturedPacket& packet, const wire::CmDrep& drep);
  /// `frame` of the message that the finding is about.
  void Report(FindingKind kind, const CmExchange& exchange, int64_t time_ns, uint64_t frame,
              std::string text);

  FindingLog& log_;
  std::map<Key, CmExchange> exchanges_;
  std::map<Key, Key> of_passive_;  // The passive end and its id.
  CmExchange* completed_ = nullptr;
  uint32_t point_ = 0;
};

/// "10.0.0.1 -> 10.0.0.2, TCP port 7174".
std::string ExchangeText(const CmExchange& exchange);

}  // namespace uroce::tools::analyze
