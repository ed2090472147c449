// SPDX-License-Identifier: Apache-2.0
// What the daemon asks of the memory of a program's devices: requests in the stage
// (pipeline/shm/abi/uroce_stage.h), and copies in the lanes behind it (uroce_copies.h).
#pragma once

#include <stdint.h>

#include "pipeline/shm/abi/uroce_copies.h"
#include "pipeline/shm/abi/uroce_stage.h"
#include "verbs-shim/gpu_driver.h"

namespace uroce::gpu {

/// Executes requests and copies by the driver. One thread.
class Requests {
 public:
  /// `lanes`: how many lie behind the stage.
  Requests(uroce_stage& stage, uint32_t lanes, const Driver* driver)
      : stage_(stage), lanes_(lanes), copies_(driver) {}

  bool HasAny() const { return HasRequest() || HasPosted(); }
  /// Executes the request and all copies that there are. `ended`: a bit for each worker that has
  /// copies among them. False: the driver has ended. What was claimed stays so then: peers see a
  /// silent program.
  bool Serve(uint32_t* ended) { return ServeStage() && ServeLanes(ended); }

 private:
  static constexpr int kEnded = -1;

  /// The pieces of a request, and the memory where the device's bytes come from or go to.
  struct Pieces {
    const uroce_stage_piece* all;
    uint8_t* data;
    uint32_t data_bytes;
  };
  /// A copy that was claimed.
  struct Claimed {
    uint32_t worker = 0;
    uroce_copy_place* place = nullptr;
    uint32_t done = 0;  // Its state then.
  };

  uroce_copy_lane& Lane(uint32_t worker) const {
    return reinterpret_cast<uroce_copy_lane*>(&stage_ + 1)[worker];
  }
  bool HasRequest() const;
  bool HasPosted() const;
  bool ServeStage();
  /// Executes all copies that are posted, with one wait for the driver. An error of one is one of
  /// all, since the driver does not say whose it is: the daemon asks for each again, in the stage.
  bool ServeLanes(uint32_t* ended);
  /// Claims the copy in a slot. False: none is posted.
  bool Claim(uint32_t worker, uint32_t slot, Claimed& claimed) const;
  /// Begins the copies of a request, whose words the daemon may change at any time. Returns the
  /// driver's result, or another error.
  int Begin(const uint32_t& kind, const uint32_t& piece_count, const Pieces& pieces);
  /// 0, an errno, or kEnded.
  static int ErrorOf(int begun, int finished);

  uroce_stage& stage_;
  const uint32_t lanes_;
  uint32_t number_ = 0;  // Of the newest request in the stage.
  Claimed claimed_[UROCE_COPY_LANES * UROCE_COPY_SLOTS];
  Copies copies_;
};

}  // namespace uroce::gpu
