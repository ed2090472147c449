// SPDX-License-Identifier: Apache-2.0
// The worker's side of one queue pair: its transport, its rings, its path, its waits, and its place
// in the lists of its worker.
#include "pipeline/datapath/queue/queue_pair.h"

#include <rte_prefetch.h>

#include "pipeline/datapath/queue/waiting_work.h"

namespace uroce::datapath {
namespace {

// The first bytes of the object, which packets and requests touch.
constexpr size_t kHotBytes = 19 * UROCE_LINE;
static_assert(kHotBytes <= sizeof(QueuePair));

// With congestion control switches mark packets instead of dropping them: ECT(0). The program's
// DSCP stays.
uint8_t TrafficClassOf(const Path& path) {
  constexpr uint8_t kEcnMask = 3;
  constexpr uint8_t kEct0 = 2;
  const auto dscp = static_cast<uint8_t>(path.traffic_class & ~kEcnMask);
  return path.ecn_capable ? dscp | kEct0 : path.traffic_class;
}

}  // namespace

wire::HeaderTemplate MakeTemplate(const Path& path) {
  return wire::HeaderTemplate({.source_mac = path.source_mac,
                               .destination_mac = path.destination_mac,
                               .vlan_tci = path.vlan_tci,
                               .source = path.source,
                               .destination = path.destination,
                               .traffic_class = TrafficClassOf(path),
                               .hop_limit = path.hop_limit,
                               .flow_label = path.flow_label,
                               .udp_source_port = path.udp_source_port,
                               .dest_qpn = path.remote_qpn});
}

QueuePair::QueuePair(const QueuePairConfig& config)
    : config_(config),
      works_(config_, core_, receive_source_),
      receive_source_(config),
      reports_(*config.page, config.async, config.user_handle),
      waiting_(std::make_unique<WaitingWork>()),
      core_(config, WorkQueues::HeldSends(config)) {
  timer_.queue_pair = this;
  scheduled_.queue_pair = this;
  reads_.queue_pair = this;
}

QueuePair::~QueuePair() = default;

transport::QpState QueuePair::state() const {
  // Only a waiting queue pair has a pending modification, which lies elsewhere in memory.
  if (is_waiting() && waiting_->modification) return waiting_->modification->state;
  return core_.state();
}

void QueuePair::Prefetch() const {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(this);
  for (size_t at = 0; at < kHotBytes; at += UROCE_LINE) rte_prefetch0(bytes + at);
}

void QueuePair::set_path(const Path& path, PeerPlace peer) {
  path_ = path;
  peer_ = peer;
  header_template_ = MakeTemplate(path);
}

}  // namespace uroce::datapath
