// SPDX-License-Identifier: Apache-2.0
// Makes and ends the transport's queue pairs, and makes calls that services name differently.
#include "pipeline/datapath/queue/queue_pair_core.h"

#include <cassert>
#include <memory>

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

}  // namespace uroce::datapath
