// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/queue_pair.h"

#include <rte_prefetch.h>

#include <cassert>
#include <memory>
#include <utility>

#include "pipeline/datapath/queue/payload.h"

namespace uroce::datapath {
namespace {

transport::RcConfig ReliableConfig(const QueuePairConfig& config, uint32_t max_send_works) {
  transport::RcConfig core;
  core.signal_all = config.signal_all;
  core.max_send_works = max_send_works;
  core.selective_repeat = config.selective_repeat;
  core.congestion = config.congestion;
  core.shared_receive = config.shared != nullptr || config.domain != nullptr;
  core.service = config.service;
  if (config.service != wire::Service::kXrc) return core;
  core.role = config.domain != nullptr ? transport::RcRole::kTarget : transport::RcRole::kInitiator;
  return core;
}

transport::UnreliableConfig UnreliableConfigOf(const QueuePairConfig& config,
                                               uint32_t max_send_works) {
  return {.signal_all = config.signal_all,
          .max_send_works = max_send_works,
          .shared_receive = config.shared != nullptr,
          .qpn = config.qpn};
}

}  // namespace

QueuePairCore::Kind QueuePairCore::KindOf(wire::Service service) {
  if (service == wire::Service::kUc) return Kind::kUnreliable;
  if (service == wire::Service::kUd) return Kind::kDatagram;
  assert(service == wire::Service::kRc || service == wire::Service::kXrc);
  return Kind::kReliable;
}

QueuePairCore::QueuePairCore(const QueuePairConfig& config, uint32_t max_send_works)
    : kind_(KindOf(config.service)), service_(config.service) {
  switch (kind_) {
    case Kind::kReliable:
      std::construct_at(&rc, ReliableConfig(config, max_send_works));
      return;
    case Kind::kUnreliable:
      std::construct_at(&uc, UnreliableConfigOf(config, max_send_works));
      return;
    case Kind::kDatagram:
      std::construct_at(&ud, UnreliableConfigOf(config, max_send_works));
      return;
  }
}

QueuePairCore::~QueuePairCore() {
  Visit(*this, [](auto& core) { std::destroy_at(&core); });
}

wire::Psn QueuePairCore::expected_psn() const {
  if (is_datagram()) return {};
  return is_reliable() ? rc.expected_psn() : uc.expected_psn();
}

namespace {

// The first bytes of the object, which packets and requests touch.
constexpr size_t kHotBytes = 19 * UROCE_LINE;
static_assert(kHotBytes <= sizeof(QueuePair));

uint8_t TrafficClassOf(const Path& path) {
  return path.ecn_capable ? wire::EcnCapable(path.traffic_class) : path.traffic_class;
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
      core_(config, WorkQueues::HeldSends(config)) {
  timer_.queue_pair = this;
  scheduled_.queue_pair = this;
  reads_.queue_pair = this;
}

QueuePair::~QueuePair() = default;

void QueuePair::MakeWaiting() { waiting_ = std::make_unique<WaitingWork>(); }

transport::QpState QueuePair::state() const {
  // Only a waiting queue pair has a pending modification, which lies elsewhere in memory.
  if (is_waiting() && has_waited() && waiting_->modification) return waiting_->modification->state;
  return core_.state();
}

void QueuePair::Pause() {
  is_paused_ = true;
  before_pause_ = {.sends = config_.send_ring->published(),
                   .receives = config_.receive_ring->published()};
}

bool QueuePair::IsPolled() const {
  return config_.send_ring->polled() >= before_pause_.sends &&
         config_.receive_ring->polled() >= before_pause_.receives;
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

// Changes of the table: between bursts only.

void QpnTable::Insert(Qpn qpn, QueuePair* queue_pair) {
  if (++size_ * 2 > slots_.size()) Grow();
  Place({.qpn = qpn, .queue_pair = queue_pair});
}

void QpnTable::Place(const Slot& slot) {
  size_t at = slot.qpn.value() & mask_;
  while (slots_[at].queue_pair != nullptr) at = (at + 1) & mask_;
  slots_[at] = slot;
}

void QpnTable::Grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.size() * 2));
  mask_ = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.queue_pair != nullptr) Place(slot);
  }
}

void QpnTable::Erase(Qpn qpn) {
  size_t at = qpn.value() & mask_;
  while (slots_[at].queue_pair != nullptr && slots_[at].qpn != qpn) at = (at + 1) & mask_;
  if (slots_[at].queue_pair == nullptr) return;
  slots_[at] = {};
  --size_;
  // The erased entry may have pushed on the entries that follow without a gap: place them again.
  for (at = (at + 1) & mask_; slots_[at].queue_pair != nullptr; at = (at + 1) & mask_) {
    Place(std::exchange(slots_[at], {}));
  }
}

}  // namespace uroce::datapath
