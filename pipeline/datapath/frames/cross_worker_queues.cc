// SPDX-License-Identifier: Apache-2.0
// Queues by which workers give frames to each other, and the gates that say which queue pairs take
// no more of them.
#include "pipeline/datapath/frames/cross_worker_queues.h"

#include <rte_mbuf.h>

#include <bit>
#include <utility>

namespace uroce::datapath {

CrossWorkerQueues::CrossWorkerQueues(uint32_t workers, std::function<void(uint32_t)> wake)
    : workers_(workers), wake_(std::move(wake)) {
  for (uint32_t i = 0; i < workers * workers; ++i) {
    queues_.push_back(std::make_unique<drivers::FrameQueue>(kDepthFrames));
  }
}

CrossWorkerLink::CrossWorkerLink(CrossWorkerQueues* queues, uint32_t index)
    : queues_(queues), index_(index), workers_(queues == nullptr ? 1 : queues->workers()) {}

// Uses the mbuf's port field, which a driver sets to the receiving port and nobody reads.
bool CrossWorkerLink::Give(uint32_t to, uint16_t position, rte_mbuf* frame) {
  frame->port = position;
  if (queues_->Queue(index_, to).Put(&frame, 1) == 0) return false;
  WantWake(to);
  return true;
}

uint16_t CrossWorkerLink::PositionOf(const rte_mbuf& frame) { return frame.port; }

void CrossWorkerLink::WakeAll() {
  for (WorkerSet rest = std::exchange(to_wake_, 0); rest != 0; rest &= rest - 1) {
    queues_->Wake(static_cast<uint32_t>(std::countr_zero(rest)));
  }
}

uint16_t CrossWorkerLink::Take(rte_mbuf** frames, uint16_t count) {
  uint16_t taken = 0;
  uint32_t from = first_;
  for (uint32_t i = 0; i < workers_ && taken < count; ++i) {
    if (from != index_) taken += queues_->Queue(from, index_).Take(frames + taken, count - taken);
    from = from + 1 < workers_ ? from + 1 : 0;
  }
  first_ = first_ + 1 < workers_ ? first_ + 1 : 0;
  return taken;
}

bool CrossWorkerLink::empty() const {
  for (uint32_t from = 0; from < workers_; ++from) {
    if (from != index_ && !queues_->Queue(from, index_).empty()) return false;
  }
  return true;
}

}  // namespace uroce::datapath
