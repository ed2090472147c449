// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/memory/stage.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstring>
#include <ctime>

#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::datapath {
namespace {

// A copy of a GPU's driver takes some 10 us, and a wake-up as long again.
constexpr int64_t kSpinForProgramNs = 200'000;
constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 50'000'000};  // How often the waiter is asked.

static_assert(2 * CopyJob::kMaxPieces <= UROCE_STAGE_PIECES);
static_assert(CopyJob::kMaxPieces * 4096 <= UROCE_STAGE_DATA_BYTES);
static_assert(offsetof(uroce_stage, data) % 4096 == 0);

void Wait(const uint32_t& word, uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &kLook, nullptr, 0);
}

void Wake(const uint32_t& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// A process without memory has ended: reads give 0 then, even where no memory is mapped.
bool HasEnded(int memory_fd) {
  char byte;
  return pread(memory_fd, &byte, sizeof(byte), 0) == 0;
}

/// The end of the staged pieces that begin with `first`.
uint32_t EndOfStaged(const CopyJob& job, uint32_t first) {
  uint32_t end = first;
  while (end < job.piece_count && job.pieces[end].is_staged) ++end;
  return end;
}

}  // namespace

ssize_t Stage::Move(const CopyJob& job, uint32_t first, const Waiter& waiter) {
  const uint32_t end = EndOfStaged(job, first);
  const ssize_t moved = MovePieces(job, first, end, waiter);
  const bool has_others = first < job.own_pieces && job.own_pieces < end;
  return moved < 0 && has_others ? MovePieces(job, first, job.own_pieces, waiter) : moved;
}

void PieceWriter::Add(const CopyJob& job, uint32_t first, uint32_t end) {
  const bool writes = job.kind == CopyJob::Kind::kWrite;
  for (uint32_t i = first; i < end; ++i) {
    const CopyPiece& piece = job.pieces[i];
    const uint32_t last = writes && piece.ends_message ? BytesOfLastWord(piece) : 0;
    const uint32_t body = piece.length_bytes - last;
    Add(piece.app_addr, writes ? piece.bytes : nullptr, body, /*joins=*/true);
    Add(piece.app_addr + body, piece.bytes + body, last, /*joins=*/false);
  }
}

void PieceWriter::AddWord(uint64_t addr, const uint8_t* from) {
  Add(addr, from, sizeof(uint64_t), /*joins=*/false);
}

void PieceWriter::Add(uint64_t addr, const uint8_t* from, uint32_t length, bool joins) {
  if (length == 0) return;
  if (from != nullptr) std::memcpy(data_ + bytes_, from, length);
  if (!joins || !may_be_joined_ || addr != next_addr_) {
    pieces_[piece_count_++] = {.addr = addr, .offset = bytes_, .length = 0};
    piece_bytes_ = 0;
  }
  piece_bytes_ += length;
  pieces_[piece_count_ - 1].length = piece_bytes_;
  next_addr_ = addr + length;
  may_be_joined_ = joins;
  bytes_ += length;
}

void TakeRead(const CopyJob& job, uint32_t first, uint32_t end, const uint8_t* data) {
  for (uint32_t i = first; i < end; ++i) {
    rings::CopyOnce(job.pieces[i].bytes, data, job.pieces[i].length_bytes);
    data += job.pieces[i].length_bytes;
  }
}

ssize_t Stage::MovePieces(const CopyJob& job, uint32_t first, uint32_t end, const Waiter& waiter) {
  const bool writes = job.kind == CopyJob::Kind::kWrite;
  PieceWriter pieces(shared().pieces, shared().data);
  pieces.Add(job, first, end);
  const ssize_t moved = Execute(writes ? UROCE_STAGE_WRITE : UROCE_STAGE_READ, pieces, waiter);
  if (moved > 0 && !writes) TakeRead(job, first, end, shared().data);
  return moved;
}

ssize_t Stage::MoveWord(uroce_stage_kind kind, uint64_t addr, uint64_t& word,
                        const Waiter& waiter) {
  PieceWriter pieces(shared().pieces, shared().data);
  const auto* const from = reinterpret_cast<const uint8_t*>(&word);
  pieces.AddWord(addr, kind == UROCE_STAGE_WRITE ? from : nullptr);
  const ssize_t moved = Execute(kind, pieces, waiter);
  if (moved > 0 && kind == UROCE_STAGE_READ) {
    rings::CopyOnce(&word, shared().data, sizeof(word));
  }
  return moved;
}

ssize_t Stage::Execute(uroce_stage_kind kind, const PieceWriter& pieces, const Waiter& waiter) {
  uroce_stage& stage = shared();
  stage.kind = kind;
  stage.piece_count = pieces.piece_count();
  rings::StoreRelease(stage.requested, ++number_);
  rings::FullFence();
  if (rings::LoadRelaxed(stage.program_sleeps) != 0) {
    __atomic_fetch_add(&stage.wakes, 1, __ATOMIC_RELEASE);
    Wake(stage.wakes);
  }
  if (!Await(waiter)) return 0;
  counters_.requests.fetch_add(1, std::memory_order_relaxed);
  if (rings::LoadRelaxed(stage.error) != 0) {
    counters_.refused.fetch_add(1, std::memory_order_relaxed);
    return -1;
  }
  std::atomic<uint64_t>& bytes =
      kind == UROCE_STAGE_WRITE ? counters_.written_bytes : counters_.read_bytes;
  bytes.fetch_add(pieces.bytes(), std::memory_order_relaxed);
  return pieces.bytes();
}

bool Stage::Await(const Waiter& waiter) {
  uroce_stage& stage = shared();
  const auto is_served = [&] { return rings::LoadAcquire(stage.served) == number_; };
  spin_.BeginWait(SpinTimeNs());
  for (bool is_done = false; !is_done;) {
    is_done = is_served();
    const IdleStep step = spin_.AfterLook(is_done, SpinTimeNs(), kSpinForProgramNs);
    if (step == IdleStep::kYield) sched_yield();
    if (step != IdleStep::kSleep) continue;
    rings::StoreRelaxed(stage.daemon_sleeps, uint32_t{1});
    rings::FullFence();
    const uint32_t seen = rings::LoadAcquire(stage.served);
    if (seen != number_) Wait(stage.served, seen);
    rings::StoreRelaxed(stage.daemon_sleeps, uint32_t{0});
    const bool is_over = waiter.stop.load(std::memory_order_acquire) || HasEnded(waiter.memory_fd);
    if (is_over && !is_served()) return false;
  }
  return true;
}

}  // namespace uroce::datapath
