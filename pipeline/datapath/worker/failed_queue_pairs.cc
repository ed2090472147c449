// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/failed_queue_pairs.h"

#include <algorithm>

#include "pipeline/datapath/port/device.h"

namespace uroce::datapath {

void FailedQueuePairs::Add(QueuePair& qp, FailureCause cause) {
  if (qp.history() == nullptr || sink_ == nullptr) return;
  const auto is_its = [&qp](const Failed& failed) { return failed.queue_pair == &qp; };
  if (std::ranges::none_of(failed_, is_its)) failed_.push_back({&qp, cause});
}

void FailedQueuePairs::DeliverSome() {
  std::erase_if(failed_, [this](const Failed& failed) {
    const QueuePairCore& core = failed.queue_pair->core();
    if (core.state() == transport::QpState::kErr && core.HasPacket(time_.now())) return false;
    Deliver(failed);
    return true;
  });
}

void FailedQueuePairs::Remove(const QueuePair& qp) {
  std::erase_if(failed_, [&](const Failed& failed) {
    if (failed.queue_pair != &qp) return false;
    Deliver(failed);
    return true;
  });
}

void FailedQueuePairs::Deliver(const Failed& failed) {
  QueuePair& qp = *failed.queue_pair;
  sink_->Take({.qpn = qp.qpn(),
               .remote_qpn = qp.path().remote_qpn,
               .device_index = qp.config().device->index(),
               .time = time_.clock().Wall(),
               .cause = failed.cause,
               .failure = qp.core().failure(),
               .history = qp.TakeHistory()});
}

}  // namespace uroce::datapath
