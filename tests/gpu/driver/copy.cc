// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/driver/copy.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace uroce::test_gpu {
namespace {

constexpr size_t kMostPieces = 12;  // Of two contiguous parts.

/// Bytes that lie together at both ends.
struct Piece {
  const Part* to;
  const Part* from;
  size_t to_at;
  size_t from_at;
  size_t bytes;
};

void Read(const Part& part, size_t at, uint8_t* to, size_t bytes) {
  if (part.memory != nullptr) {
    std::memcpy(to, part.memory + at, bytes);
  } else {
    part.pages->Read(part.offset + at, to, bytes);
  }
}

void Write(const Part& part, size_t at, const uint8_t* from, size_t bytes) {
  constexpr size_t kWord = sizeof(uint64_t);
  if (part.memory == nullptr) return part.pages->Write(part.offset + at, from, bytes);
  uint8_t* const to = part.memory + at;
  if (bytes == kWord && reinterpret_cast<uintptr_t>(to) % kWord == 0) {
    uint64_t word;
    std::memcpy(&word, from, kWord);
    __atomic_store_n(reinterpret_cast<uint64_t*>(to), word, __ATOMIC_RELEASE);
  } else {
    std::memcpy(to, from, bytes);
  }
}

void Move(const Piece& piece) {
  if (piece.from->memory != nullptr) {
    Write(*piece.to, piece.to_at, piece.from->memory + piece.from_at, piece.bytes);
    return;
  }
  std::vector<uint8_t> bytes(piece.bytes);
  Read(*piece.from, piece.from_at, bytes.data(), bytes.size());
  Write(*piece.to, piece.to_at, bytes.data(), bytes.size());
}

/// Cuts `whole` at random places.
void Cut(Piece whole, std::mt19937_64& random, std::vector<Piece>& pieces) {
  const size_t most = whole.bytes / 2 + 1;
  for (size_t count = 1; count < kMostPieces && whole.bytes > sizeof(uint64_t); ++count) {
    Piece piece = whole;
    piece.bytes = std::min(whole.bytes, random() % most + 1);
    pieces.push_back(piece);
    whole.to_at += piece.bytes;
    whole.from_at += piece.bytes;
    whole.bytes -= piece.bytes;
  }
  if (whole.bytes != 0) pieces.push_back(whole);
}

/// Calls `use(Piece)` for each two parts, as far as they lie together.
template <typename Use>
void ForEachPiece(const std::vector<Part>& to, const std::vector<Part>& from, Use&& use) {
  size_t to_at = 0;
  size_t from_at = 0;
  for (size_t i = 0, j = 0; i < to.size() && j < from.size();) {
    const size_t bytes = std::min(to[i].bytes - to_at, from[j].bytes - from_at);
    use(Piece{&to[i], &from[j], to_at, from_at, bytes});
    to_at += bytes;
    from_at += bytes;
    if (to_at == to[i].bytes) ++i, to_at = 0;
    if (from_at == from[j].bytes) ++j, from_at = 0;
  }
}

}  // namespace

void MoveBytes(const std::vector<Part>& to, const std::vector<Part>& from, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Piece> pieces;
  ForEachPiece(to, from, [&](const Piece& whole) { Cut(whole, random, pieces); });
  std::shuffle(pieces.begin(), pieces.end(), random);
  for (const Piece& piece : pieces) {
    Move(piece);
    if (random() % 64 == 0) sched_yield();  // So that other threads look between two pieces.
  }
}

void MovePlainly(const std::vector<Part>& to, const std::vector<Part>& from) {
  ForEachPiece(to, from, Move);
}

void FillBytes(const std::vector<Part>& to, uint8_t value) {
  for (const Part& part : to) {
    if (part.memory != nullptr) {
      std::memset(part.memory, value, part.bytes);
    } else {
      const std::vector<uint8_t> bytes(part.bytes, value);
      Write(part, 0, bytes.data(), bytes.size());
    }
  }
}

}  // namespace uroce::test_gpu
