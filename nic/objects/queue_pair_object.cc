// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/queue_pair_object.h"

#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {

NicPlace PlaceOf(const NicDevice& device) {
  const datapath::Device& its = device.datapath();
  // The worker of the first queue carries the frames of all switches. NICs there have a queue for
  // each worker, and the other workers would pass every frame to that one and back.
  const bool is_at_switch = device.config().at_switch() != nullptr;
  NicPlace place{.end = {}, .drivers = is_at_switch ? SetOf(its.host_worker()) : its.drivers()};
  if (const CableEnd* const end = device.config().cable()) {
    place.end = {.cable = static_cast<uint32_t>(end->cable), .device = its.index()};
  }
  return place;
}

QueuePairLive LookAt(const QueuePairObject& object) {
  const datapath::QueuePairCore& core = object.queue_pair.core();
  return {object.queue_pair.state(), core.draining(), core.next_send_psn().value(),
          core.expected_psn().value()};
}

QueuePairLive LiveState(Nic& nic, const QueuePairObject& object) {
  QueuePairLive live;
  nic.OwnerOf(object.queue_pair).Run([&] { live = LookAt(object); });
  return live;
}

}  // namespace uroce::nic
