// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/gpu_requests.h"

#include <linux/futex.h>

#include <cerrno>

#include "pipeline/shm/rings/shared_word.h"
#include "verbs-shim/memory/system_call.h"

namespace uroce::gpu {

using memory::SystemCall;

// ---- The stage ----

bool Requests::HasRequest() const { return rings::LoadAcquire(stage_.requested) != number_; }

bool Requests::ServeStage() {
  if (!HasRequest()) return true;
  number_ = rings::LoadAcquire(stage_.requested);
  const int begun =
      Begin(stage_.kind, stage_.piece_count, {stage_.pieces, stage_.data, sizeof(stage_.data)});
  const int error = ErrorOf(begun, copies_.Finish());
  if (error == kEnded) return false;
  stage_.error = error;
  rings::StoreRelease(stage_.served, number_);
  rings::FullFence();
  if (rings::LoadRelaxed(stage_.daemon_sleeps) != 0) {
    SystemCall(SYS_futex, &stage_.served, FUTEX_WAKE, INT32_MAX);
  }
  return true;
}

// ---- The lanes ----

bool Requests::HasPosted() const {
  for (uint32_t worker = 0; worker < lanes_; ++worker) {
    for (const uroce_copy_place& place : Lane(worker).places) {
      const uint32_t state = rings::LoadAcquire(place.state);
      if ((state & UROCE_COPY_PHASE_MASK) == UROCE_COPY_POSTED) return true;
    }
  }
  return false;
}

bool Requests::ServeLanes(uint32_t* ended) {
  *ended = 0;
  uint32_t count = 0;
  int begun = kSuccess;
  for (uint32_t worker = 0; worker < lanes_; ++worker) {
    for (uint32_t slot = 0; slot < UROCE_COPY_SLOTS; ++slot) {
      if (!Claim(worker, slot, claimed_[count])) continue;
      ++count;
      if (begun != kSuccess) continue;
      const uroce_copy_request& request = Lane(worker).requests[slot];
      begun = Begin(request.kind, request.piece_count,
                    {request.pieces, Lane(worker).data[slot], UROCE_COPY_DATA_BYTES});
    }
  }
  if (count == 0) return true;
  const int error = ErrorOf(begun, copies_.Finish());
  if (error == kEnded) return false;
  for (uint32_t i = 0; i < count; ++i) {
    const Claimed& its = claimed_[i];
    its.place->error = error;
    rings::StoreRelease(its.place->state, its.done);
    *ended |= 1u << its.worker;
  }
  return true;
}

bool Requests::Claim(uint32_t worker, uint32_t slot, Claimed& claimed) const {
  uroce_copy_place& place = Lane(worker).places[slot];
  uint32_t state = rings::LoadAcquire(place.state);
  if ((state & UROCE_COPY_PHASE_MASK) != UROCE_COPY_POSTED) return false;
  const uint32_t number = state - UROCE_COPY_POSTED;
  if (!__atomic_compare_exchange_n(&place.state, &state, number | UROCE_COPY_CLAIMED, false,
                                   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    return false;
  }
  claimed = {worker, &place, number | UROCE_COPY_DONE};
  return true;
}

// ---- Both ----

int Requests::Begin(const uint32_t& kind, const uint32_t& piece_count, const Pieces& pieces) {
  constexpr int kUnknown = -2;
  const uint32_t its_kind = rings::LoadRelaxed(kind);
  const uint32_t count = rings::LoadRelaxed(piece_count);
  const bool writes = its_kind == UROCE_STAGE_WRITE;
  if (!writes && its_kind != UROCE_STAGE_READ) return kUnknown;
  if (count > UROCE_COPY_PIECES) return kUnknown;
  int result = kSuccess;
  for (uint32_t i = 0; i < count && result == kSuccess; ++i) {
    uroce_stage_piece piece;
    rings::CopyOnce(&piece, &pieces.all[i], sizeof(piece));
    if (piece.offset > pieces.data_bytes || piece.length > pieces.data_bytes - piece.offset) {
      return kUnknown;
    }
    result = copies_.Begin(writes, piece.addr, pieces.data + piece.offset, piece.length);
  }
  return result;
}

int Requests::ErrorOf(int begun, int finished) {
  if (begun == kDeinitialized || finished == kDeinitialized) return kEnded;
  return begun == kSuccess && finished == kSuccess ? 0 : EFAULT;
}

}  // namespace uroce::gpu
