// SPDX-License-Identifier: Apache-2.0
// The payload of packets: gathered from and placed in the memory of a program, with the ICRC where
// that is computed on the way. A walk finds the pieces of memory that a packet belongs to.
#include "pipeline/datapath/queue/payload.h"

#include <array>
#include <cassert>
#include <cstring>

#include "pipeline/datapath/memory/ordered_copy.h"

namespace uroce::datapath {
namespace {

/// The payload of a packet that reads a null segment.
constexpr std::array<uint8_t, 4096> kZeros{};

const uint8_t* OrZeros(const uint8_t* mapped, [[maybe_unused]] uint32_t length_bytes) {
  if (mapped != nullptr) [[likely]]
    return mapped;
  assert(length_bytes <= kZeros.size());
  return kZeros.data();
}

template <typename MoveBytes>
MoveResult Move(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes, MoveBytes&& move) {
  Piece piece;
  while (!walker.at_end()) {
    if (!walker.Look(keys, piece)) return MoveResult::kDenied;
    if (piece.mode == MrMode::kCopied) return MoveResult::kCopied;
    move(piece.mapped, bytes, piece.length_bytes);
    bytes += piece.length_bytes;
    walker.Pass(piece);
  }
  return MoveResult::kDone;
}

}  // namespace

MoveResult Place(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes) {
  return Move(keys, walker, bytes, [](uint8_t* mapped, const uint8_t* frame, uint32_t length) {
    if (mapped != nullptr) [[likely]]
      OrderedCopy(mapped, frame, length);
  });
}

MoveResult Gather(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes) {
  return Move(keys, walker, bytes, [](const uint8_t* mapped, uint8_t* frame, uint32_t length) {
    memcpy(frame, OrZeros(mapped, length), length);
  });
}

MoveResult GatherWithIcrc(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes,
                          RunningIcrc& icrc) {
  return Move(keys, walker, bytes, [&](const uint8_t* mapped, uint8_t* frame, uint32_t length) {
    icrc.Copy(frame, OrZeros(mapped, length), length);
  });
}

void TakeCopied(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes, CopyJob& job) {
  Piece piece;
  while (job.piece_count < CopyJob::kMaxPieces && !walker.at_end()) {
    if (!walker.Look(keys, piece) || piece.mode != MrMode::kCopied) return;
    job.pieces[job.piece_count++] = {piece.app_addr, bytes, piece.length_bytes};
    bytes += piece.length_bytes;
    walker.Pass(piece);
  }
}

uint64_t ExecuteAtomic(uint8_t* mapped, bool compare_swap, uint64_t swap_add, uint64_t compare) {
  assert(reinterpret_cast<uintptr_t>(mapped) % sizeof(uint64_t) == 0);
  auto* word = reinterpret_cast<uint64_t*>(mapped);
  if (!compare_swap) return __atomic_fetch_add(word, swap_add, __ATOMIC_SEQ_CST);
  uint64_t expected = compare;
  __atomic_compare_exchange_n(word, &expected, swap_add, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;  // The value found, whether or not it was exchanged.
}

}  // namespace uroce::datapath
