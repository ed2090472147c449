// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/queue/payload.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <vector>

namespace uroce::datapath {
namespace {

#if defined(__x86_64__)

[[gnu::target("avx512f")]] void CopyBy64(uint8_t* to, const uint8_t* from, size_t length_bytes) {
  RisingCopy<64, StoreToMemory>(to, from, length_bytes).Run();
}

[[gnu::target("avx2")]] void CopyBy32(uint8_t* to, const uint8_t* from, size_t length_bytes) {
  RisingCopy<32, StoreToMemory>(to, from, length_bytes).Run();
}

void CopyBy16(uint8_t* to, const uint8_t* from, size_t length_bytes) {
  RisingCopy<16, StoreToMemory>(to, from, length_bytes).Run();
}

std::vector<OrderedCopyKernel> FindKernels() {
  __builtin_cpu_init();
  std::vector<OrderedCopyKernel> kernels;
  if (__builtin_cpu_supports("avx512f")) kernels.push_back({"avx512", CopyBy64});
  if (__builtin_cpu_supports("avx2")) kernels.push_back({"avx2", CopyBy32});
  kernels.push_back({"sse2", CopyBy16});
  return kernels;
}

#else

/// Each piece of up to eight bytes is stored after all before it.
struct StoreInOrder {
  template <typename Piece>
  static void Store(uint8_t* to, const Piece& piece) {
    if constexpr (sizeof(Piece) <= sizeof(uint64_t)) {
      __atomic_store_n(reinterpret_cast<Piece*>(to), piece, __ATOMIC_RELEASE);
    } else {
      for (size_t i = 0; i < sizeof(Piece) / sizeof(uint64_t); ++i) {
        Store(to + i * sizeof(uint64_t), static_cast<uint64_t>(piece[i]));
      }
    }
  }
};

void CopyByEight(uint8_t* to, const uint8_t* from, size_t length_bytes) {
  RisingCopy<16, StoreInOrder>(to, from, length_bytes).Run();
}

std::vector<OrderedCopyKernel> FindKernels() { return {{"release", CopyByEight}}; }

#endif

const std::vector<OrderedCopyKernel>& Kernels() {
  static const std::vector<OrderedCopyKernel> kernels = FindKernels();
  return kernels;
}

/// Copied, so that a call is one load and one jump. Set before main; nothing copies earlier.
const OrderedCopyKernel chosen_kernel = Kernels().front();

}  // namespace

std::span<const OrderedCopyKernel> AvailableOrderedCopyKernels() { return Kernels(); }

void OrderedCopy(uint8_t* to, const uint8_t* from, size_t length_bytes) {
  chosen_kernel.copy(to, from, length_bytes);
}

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

bool MappedRun::Find(const KeyTable& keys, PieceWalker walker) {
  for (; !walker.at_end(); ++count_) {
    if (count_ == kMost || !walker.Look(keys, pieces_[count_])) return false;
    if (pieces_[count_].mode == MrMode::kCopied) return false;
    walker.Pass(pieces_[count_]);
  }
  return true;
}

template <typename MoveBytes>
void MappedRun::Next(size_t length_bytes, MoveBytes&& move) {
  while (length_bytes != 0) {
    assert(at_ < count_);
    const Piece& piece = pieces_[at_];
    const auto bytes =
        static_cast<uint32_t>(std::min<size_t>(length_bytes, piece.length_bytes - passed_));
    move(piece.mapped == nullptr ? nullptr : piece.mapped + passed_, bytes);
    length_bytes -= bytes;
    passed_ += bytes;
    if (passed_ != piece.length_bytes) continue;
    ++at_;
    passed_ = 0;
  }
}

void MappedRun::Gather(uint8_t* to, size_t length_bytes, RunningIcrc& icrc) {
  Next(length_bytes, [&](const uint8_t* mapped, uint32_t bytes) {
    icrc.Copy(to, OrZeros(mapped, bytes), bytes);
    to += bytes;
  });
}

void MappedRun::Place(const uint8_t* from, size_t length_bytes) {
  Next(length_bytes, [&](uint8_t* mapped, uint32_t bytes) {
    if (mapped != nullptr) [[likely]]
      OrderedCopy(mapped, from, bytes);
    from += bytes;
  });
}

MoveResult PlaceReferred(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes,
                         std::span<const uint8_t> payload, uint8_t* room) {
  return Move(keys, walker, bytes, [&](uint8_t* mapped, const uint8_t* from, uint32_t length) {
    if (mapped == nullptr) return;
    if (mapped < from + length && from < mapped + length) [[unlikely]] {
      uint8_t* const copy = room + (from - payload.data());
      std::memcpy(copy, from, length);
      from = copy;
    }
    OrderedCopy(mapped, from, length);
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

void TakeCopied(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes, CopyJob& job,
                bool for_worker) {
  Piece piece;
  while (job.piece_count < CopyJob::kMaxPieces && !walker.at_end()) {
    if (!walker.Look(keys, piece) || piece.mode != MrMode::kCopied) return;
    if (for_worker && piece.may_wait) return;
    job.pieces[job.piece_count++] = {piece.app_addr, bytes, piece.length_bytes, piece.is_staged};
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
