// SPDX-License-Identifier: Apache-2.0
// Making and ending the transport's queue pairs, and what they call by different names.
#include "pipeline/datapath/queue_pair_core.h"

#include <cassert>
#include <memory>

namespace uroce::datapath {
namespace {

transport::RcConfig ReliableConfig(const QueuePairConfig& config, uint32_t max_send_works) {
  transport::RcConfig core;
  core.signal_all = config.signal_all;
  core.max_send_works = max_send_works;
  core.selective_repeat = true;  // Unseen by ends that know nothing of it.
  core.shared_receive = config.shared != nullptr;
  return core;
}

transport::UnreliableConfig UnreliableConfigOf(const QueuePairConfig& config,
                                               uint32_t max_send_works) {
  return {.signal_all = config.signal_all,
          .max_send_works = max_send_works,
          .shared_receive = config.shared != nullptr,
          .qpn = config.qpn};
}

transport::UnreliableAttributes ToUnreliable(const Attributes& attributes) {
  return {.remote_write = attributes.remote_write,
          .path_mtu_bytes = attributes.path_mtu_bytes,
          .rq_psn = attributes.rq_psn,
          .sq_psn = attributes.sq_psn,
          .qkey = attributes.qkey,
          .notify_drained = attributes.notify_drained};
}

Attributes FromUnreliable(const transport::UnreliableAttributes& attributes) {
  Attributes result;
  result.remote_write = attributes.remote_write;
  result.path_mtu_bytes = attributes.path_mtu_bytes;
  result.rq_psn = attributes.rq_psn;
  result.sq_psn = attributes.sq_psn;
  result.qkey = attributes.qkey;
  result.notify_drained = attributes.notify_drained;
  return result;
}

Counters FromUnreliable(const transport::UnreliableCounters& counters) {
  Counters result;
  result.req_cqe_error = counters.req_cqe_error;
  result.req_cqe_flush_error = counters.req_cqe_flush_error;
  result.rx_write_requests = counters.rx_write_requests;
  result.out_of_sequence = counters.out_of_sequence;
  result.out_of_buffer = counters.out_of_buffer;
  result.resp_local_length_error = counters.resp_local_length_error;
  result.resp_remote_access_errors = counters.resp_remote_access_errors;
  result.resp_cqe_error = counters.resp_cqe_error;
  result.resp_cqe_flush_error = counters.resp_cqe_flush_error;
  result.qkey_viol = counters.qkey_viol;
  result.dropped_messages = counters.dropped_messages;
  return result;
}

}  // namespace

QueuePairCore::Kind QueuePairCore::KindOf(wire::Service service) {
  if (service == wire::Service::kUc) return Kind::kUnreliable;
  if (service == wire::Service::kUd) return Kind::kDatagram;
  assert(service == wire::Service::kRc);
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

void QueuePairCore::Modify(transport::QpState state, const Attributes& attributes) {
  if (is_reliable()) return rc.Modify(state, attributes);
  if (is_datagram()) return ud.Modify(state, ToUnreliable(attributes));
  uc.Modify(state, ToUnreliable(attributes));
}

Attributes QueuePairCore::attributes() const {
  if (is_reliable()) return {rc.attributes()};
  return FromUnreliable(is_datagram() ? ud.attributes() : uc.attributes());
}

Counters QueuePairCore::counters() const {
  if (is_reliable()) return {rc.counters()};
  return FromUnreliable(is_datagram() ? ud.counters() : uc.counters());
}

wire::Psn QueuePairCore::expected_psn() const {
  if (is_datagram()) return {};
  return is_reliable() ? rc.expected_psn() : uc.expected_psn();
}

}  // namespace uroce::datapath
