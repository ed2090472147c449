// SPDX-License-Identifier: Apache-2.0
// Hands received frames that are for another worker over to it.
#pragma once

#include <rte_mbuf.h>

#include <atomic>
#include <cstdint>

#include "pipeline/datapath/frames/cross_worker_queues.h"
#include "pipeline/datapath/port/device_port.h"
#include "pipeline/datapath/worker/frame_recorder.h"

namespace uroce::datapath {

/// One thread.
class HandOver {
 public:
  /// `handed_over` counts the frames that went.
  HandOver(CrossWorkerLink& cross_worker, FrameRecorder& recorder,
           std::atomic<uint64_t>& handed_over)
      : cross_worker_(cross_worker), recorder_(recorder), handed_over_(handed_over) {}

  /// True: worker `to` has the frame; else it was dropped, counted and recorded.
  bool Give(DevicePort& port, rte_mbuf* frame, uint32_t to) {
    if (cross_worker_.Give(to, port.position(), frame)) {
      Count(handed_over_);
      return true;
    }
    recorder_.Drop(port.counters().rx_cross_worker_full, UROCE_REASON_CROSS_WORKER_FULL);
    recorder_.Record(port, frame);
    return false;
  }

 private:
  CrossWorkerLink& cross_worker_;
  FrameRecorder& recorder_;
  std::atomic<uint64_t>& handed_over_;
};

}  // namespace uroce::datapath
