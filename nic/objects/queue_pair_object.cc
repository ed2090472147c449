// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/queue_pair_object.h"

#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {

std::optional<CablePlace> PlaceOf(const NicDevice& device) {
  const CableEnd* const end = device.config().cable();
  if (end == nullptr) return std::nullopt;
  return CablePlace{.cable = static_cast<uint32_t>(end->cable),
                    .device = device.datapath().index()};
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
