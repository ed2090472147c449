// SPDX-License-Identifier: Apache-2.0
// A program that serves its stage itself, in place of the shim's thread, and lies about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pipeline/shm/abi/uroce_copies.h"

namespace uroce::memory_kinds {

/// The stage of this process, as /proc/self/maps names it; or null.
uint8_t* FindStage(size_t& bytes);

/// Writes random words at random places of the stage, most of them in front of the data, while the
/// shim's thread serves it.
void Scribble();

/// Answers the daemon's requests from its own bytes, which stand for the device's. The shim's
/// thread hangs in the driver meanwhile: the test has seen to it.
class StageLiar {
 public:
  /// What it answers.
  struct Lie {
    const char* name;
    void (StageLiar::*answer)();
  };
  static const std::vector<Lie>& Lies();

  /// The device's bytes are [device, device + bytes).
  StageLiar(uint64_t device, size_t bytes);
  StageLiar(const StageLiar&) = delete;
  StageLiar& operator=(const StageLiar&) = delete;
  /// Tells this lie from now on. Begins to serve if it does not yet.
  void Tell(const Lie& lie);

 private:
  void Run();
  /// Answers the copy in a slot that was posted, or that the shim's thread has claimed.
  void AnswerCopy(uroce_copy_lane& lane, uint32_t slot);
  /// `place` of the copy; null: a request in the stage.
  void Learn(uroce_copy_place* place, uint32_t number, uint32_t kind,
             std::span<const uroce_stage_piece> pieces, uint8_t* data);
  /// The number of a later request, or copy of the slot.
  uint32_t NumberBehind(uint32_t by) const;
  /// Moves the bytes of the request as it should be done.
  void Move();
  /// Writes that a request has been answered.
  void Say(uint32_t number, int32_t error);
  void Publish(uint32_t number);
  void Finish() { Say(number_, 0); }

  // ---- answers ----
  void Honestly();
  void Twice();
  void ForOthers();
  void Early();
  void Uncopied();
  void WithChangingBytes();
  void WithOtherFields();
  void WithErrors();
  void WithTwoErrors();
  void Never() {}

  const uint64_t device_;
  std::vector<uint8_t> bytes_;
  uroce_stage* stage_ = nullptr;
  std::span<uroce_copy_lane> lanes_;
  const Lie* lie_ = nullptr;
  bool is_serving_ = false;
  bool is_changing_ = false;  // A thread changes the error all the time.
  uint32_t error_ = 0;        // How many errors it has told.
  // The request, as it was read. In a lane: where it lies.
  uroce_copy_request* request_ = nullptr;
  uroce_copy_place* place_ = nullptr;
  uint8_t* data_ = nullptr;
  uint32_t number_ = 0;
  uint32_t kind_ = 0;
  std::vector<uroce_stage_piece> pieces_;
};

}  // namespace uroce::memory_kinds
