// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/memory/copy_lanes.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstddef>

#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/stage.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::datapath {
namespace {

static_assert(sizeof(uroce_copies) % 4096 == 0);
static_assert(sizeof(uroce_stage) % 4096 == 0);
static_assert(sizeof(uroce_copy_lane) % 4096 == 0);
static_assert(offsetof(uroce_copy_lane, data) % 4096 == 0);
static_assert(2 * CopyJob::kMaxPieces <= UROCE_COPY_PIECES);

/// Whether all pieces are memory of devices, or none is.
bool AreAllOf(const CopyJob& job, bool is_staged) {
  const auto end = job.pieces.begin() + job.piece_count;
  return std::all_of(job.pieces.begin(), end,
                     [is_staged](const CopyPiece& each) { return each.is_staged == is_staged; });
}

uint32_t PhaseOf(uint32_t state) { return state & UROCE_COPY_PHASE_MASK; }

bool Exchange(uint32_t& state, uint32_t from, uint32_t to) {
  return __atomic_compare_exchange_n(&state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

}  // namespace

CopyLanes::CopyLanes(std::shared_ptr<const GuardedMapping> memory, uroce_copy_lane* shared,
                     Words words, uint32_t workers, bool is_with_stage)
    : memory_(std::move(memory)),
      shared_(shared),
      words_(words),
      is_with_stage_(is_with_stage),
      patience_(is_with_stage ? kPatienceWithStage : kPatience),
      lanes_(std::min(workers, UROCE_COPY_LANES)) {}

namespace {

template <typename Head>
Head& HeadOf(const GuardedMapping& memory) {
  return *reinterpret_cast<Head*>(memory.data());
}

/// The lanes lie behind `head`.
template <typename Head>
uroce_copy_lane* LanesBehind(Head& head) {
  return reinterpret_cast<uroce_copy_lane*>(&head + 1);
}

}  // namespace

CopyLanes::CopyLanes(GuardedMapping memory, uint32_t workers)
    : CopyLanes(std::make_shared<const GuardedMapping>(std::move(memory)), workers) {}

CopyLanes::CopyLanes(const std::shared_ptr<const GuardedMapping>& memory, uint32_t workers)
    : CopyLanes(memory, LanesBehind(HeadOf<uroce_copies>(*memory)),
                {HeadOf<uroce_copies>(*memory).program_sleeps, HeadOf<uroce_copies>(*memory).wakes},
                workers, /*is_with_stage=*/false) {}

std::unique_ptr<CopyLanes> CopyLanes::OfStage(std::shared_ptr<const GuardedMapping> memory,
                                              uint32_t workers) {
  auto& stage = HeadOf<uroce_stage>(*memory);
  return std::unique_ptr<CopyLanes>(new CopyLanes(std::move(memory), LanesBehind(stage),
                                                  {stage.program_sleeps, stage.wakes}, workers,
                                                  /*is_with_stage=*/true));
}

uint32_t CopyLanes::FreeSlot(uint32_t worker) const {
  const Lane& lane = lanes_[worker];
  for (uint32_t slot = 0; slot < UROCE_COPY_SLOTS; ++slot) {
    if (lane.jobs[slot] != nullptr) continue;
    const uint32_t phase = PhaseOf(rings::LoadAcquire(shared(worker).places[slot].state));
    if (phase == UROCE_COPY_FREE || phase == UROCE_COPY_DONE) return slot;
  }
  return UROCE_COPY_SLOTS;
}

bool CopyLanes::Takes(uint32_t worker, const CopyJob& job, Time now) const {
  if (job.kind != CopyJob::Kind::kRead && job.kind != CopyJob::Kind::kWrite) return false;
  const uint32_t bytes = job.bytes();
  return AreAllOf(job, is_with_stage_) && bytes != 0 && bytes <= UROCE_COPY_MOST_BYTES &&
         HasRoom(worker, now);
}

void CopyLanes::Post(uint32_t worker, CopyJob* job, Time now) {
  Lane& lane = lanes_[worker];
  const uint32_t slot = FreeSlot(worker);
  lane.jobs[slot] = job;
  lane.posted_at[slot] = now;
  ++lane.in_flight;
  uroce_copy_lane& its = shared(worker);
  uroce_copy_request& request = its.requests[slot];
  PieceWriter pieces(request.pieces, its.data[slot]);
  pieces.Add(*job, 0, job->piece_count);
  request.kind = job->kind == CopyJob::Kind::kWrite ? UROCE_STAGE_WRITE : UROCE_STAGE_READ;
  request.piece_count = pieces.piece_count();
  lane.numbers[slot] += UROCE_COPY_PHASE_MASK + 1;
  rings::StoreRelease(its.places[slot].state, lane.numbers[slot] | UROCE_COPY_POSTED);
  rings::FullFence();
  if (rings::LoadRelaxed(words_.program_sleeps) == 0) return;
  __atomic_fetch_add(&words_.wakes, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, &words_.wakes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// A program may store any state, and may never end what it has claimed. Its own queue pairs wait
// then for a write; the helper can make a read meanwhile, since that changes nothing of the
// program.
CopyLanes::End CopyLanes::EndOf(uint32_t worker, uint32_t slot, Time now) {
  Lane& lane = lanes_[worker];
  uroce_copy_place& place = shared(worker).places[slot];
  const uint32_t state = rings::LoadAcquire(place.state);
  const bool is_late = now - lane.posted_at[slot] >= patience_;
  if ((state & ~UROCE_COPY_PHASE_MASK) == lane.numbers[slot]) {
    switch (PhaseOf(state)) {
      case UROCE_COPY_FREE:  // Withdrawn.
        return End::kForHelper;
      case UROCE_COPY_DONE:
        return rings::LoadRelaxed(place.error) == 0 ? End::kDone : End::kForHelper;
      case UROCE_COPY_CLAIMED:
        if (!is_late || lane.jobs[slot]->kind == CopyJob::Kind::kWrite) return End::kNotYet;
        lane.rests_until = now + kRest;
        return End::kForHelper;
      case UROCE_COPY_POSTED:
        if (!is_late) return End::kNotYet;
        break;
    }
  }
  if (!Exchange(place.state, state, UROCE_COPY_FREE)) return End::kNotYet;
  lane.rests_until = now + kRest;
  return End::kForHelper;
}

void CopyLanes::Abandon(uint32_t worker, const CopyJob& job) {
  Lane& lane = lanes_[worker];
  const auto slot = static_cast<uint32_t>(std::ranges::find(lane.jobs, &job) - lane.jobs.begin());
  uint32_t& state = shared(worker).places[slot].state;
  const uint32_t number = lane.numbers[slot];
  if (Exchange(state, number | UROCE_COPY_POSTED, number | UROCE_COPY_FREE)) return;
  if (job.kind == CopyJob::Kind::kWrite) lane.late[slot] = number | UROCE_COPY_CLAIMED;
}

// The next copy in a slot has another number.
bool CopyLanes::HasLateWrites() const {
  for (uint32_t worker = 0; worker < lanes_.size(); ++worker) {
    for (uint32_t slot = 0; slot < UROCE_COPY_SLOTS; ++slot) {
      const uint32_t late = lanes_[worker].late[slot].load(std::memory_order_relaxed);
      if (late != 0 && rings::LoadAcquire(shared(worker).places[slot].state) == late) return true;
    }
  }
  return false;
}

CopyLanes::Taken CopyLanes::Take(uint32_t worker, Time now) {
  Lane& lane = lanes_[worker];
  for (uint32_t slot = 0; slot < UROCE_COPY_SLOTS; ++slot) {
    CopyJob* const job = lane.jobs[slot];
    const End end = job != nullptr ? EndOf(worker, slot, now) : End::kNotYet;
    if (end == End::kNotYet) continue;
    const bool is_done = end == End::kDone;
    if (is_done && job->kind == CopyJob::Kind::kRead) {
      TakeRead(*job, 0, job->piece_count, shared(worker).data[slot]);
    }
    lane.jobs[slot] = nullptr;
    --lane.in_flight;
    NoteEnd(*job, !is_done);
    job->succeeded = is_done;
    job->moved_pieces = is_done ? job->piece_count : 0;
    return {job, !is_done};
  }
  return {};
}

void CopyLanes::NoteEnd(const CopyJob& job, bool is_for_helper) {
  std::atomic<uint64_t>& bytes =
      job.kind == CopyJob::Kind::kWrite ? counters_.written_bytes : counters_.read_bytes;
  if (is_for_helper) {
    counters_.left_to_helper.fetch_add(1, std::memory_order_relaxed);
  } else {
    bytes.fetch_add(job.bytes(), std::memory_order_relaxed);
  }
}

bool CopyLanes::HasDone(uint32_t worker) const {
  if (in_flight(worker) == 0) return false;
  const Lane& lane = lanes_[worker];
  for (uint32_t slot = 0; slot < UROCE_COPY_SLOTS; ++slot) {
    if (lane.jobs[slot] != nullptr && rings::LoadAcquire(shared(worker).places[slot].state) ==
                                          (lane.numbers[slot] | UROCE_COPY_DONE)) {
      return true;
    }
  }
  return false;
}

}  // namespace uroce::datapath
