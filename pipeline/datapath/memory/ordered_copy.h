// SPDX-License-Identifier: Apache-2.0
// Copies whose bytes another CPU sees in rising order of their addresses, as a reader expects that
// polls the last byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace uroce::datapath {

// The order of an ordered copy's stores, for vectors of every width.

template <size_t bytes>
struct VectorOf {
  using Type [[gnu::vector_size(bytes)]] = long long;
};

/// Stores one aligned piece. Volatile: the compiler neither splits, merges nor moves it.
struct StoreToMemory {
  template <typename Piece>
  [[gnu::always_inline]] static void Store(uint8_t* to, const Piece& piece) {
    *reinterpret_cast<volatile Piece*>(to) = piece;
  }
};

/// One copy, by vectors of `vector_bytes` and the smaller pieces that the two ends need. Each store
/// is aligned and begins where the last one ended. The code is inlined into a function that is
/// compiled for processors with such vectors.
template <size_t vector_bytes, typename Sink>
class RisingCopy {
 public:
  [[gnu::always_inline]] RisingCopy(uint8_t* to, const uint8_t* from, size_t length_bytes)
      : to_(to), from_(from), left_(length_bytes) {}

  [[gnu::always_inline]] void Run() {
    if (IsOff(sizeof(SixteenBytes) - 1)) AlignDestination();
    if (left_ > 2 * kLineBytes) MoveVectors();
    while (left_ >= kLineBytes) MoveFour<SixteenBytes>();
    while (left_ >= sizeof(SixteenBytes)) Move<SixteenBytes>();
    if (left_ != 0) MoveEnd();
  }

 private:
  static constexpr size_t kLineBytes = 64;
  using Vector = typename VectorOf<vector_bytes>::Type;
  using SixteenBytes = typename VectorOf<16>::Type;

  /// Loads by reference: a function cannot return a vector that its instruction set lacks.
  template <typename Piece>
  [[gnu::always_inline]] void Load(Piece& piece, size_t offset) const {
    memcpy(&piece, from_ + offset, sizeof(piece));
  }

  [[gnu::always_inline]] void Pass(size_t bytes) {
    to_ += bytes;
    from_ += bytes;
    left_ -= bytes;
  }

  template <typename Piece>
  [[gnu::always_inline]] void Move() {
    Piece piece;
    Load(piece, 0);
    Sink::Store(to_, piece);
    Pass(sizeof(Piece));
  }

  /// Makes all loads before the stores: a load that misses the cache does not delay the others.
  template <typename Piece>
  [[gnu::always_inline]] void MoveFour() {
    Piece a, b, c, d;
    Load(a, 0);
    Load(b, sizeof(Piece));
    Load(c, 2 * sizeof(Piece));
    Load(d, 3 * sizeof(Piece));
    Sink::Store(to_, a);
    Sink::Store(to_ + sizeof(Piece), b);
    Sink::Store(to_ + 2 * sizeof(Piece), c);
    Sink::Store(to_ + 3 * sizeof(Piece), d);
    Pass(4 * sizeof(Piece));
  }

  /// Whether one of these bits of the destination's address is set.
  [[gnu::always_inline]] bool IsOff(size_t bits) const {
    return (reinterpret_cast<uintptr_t>(to_) & bits) != 0;
  }

  /// Moves vectors until a line or less is left.
  [[gnu::always_inline]] void MoveVectors() {
    while (IsOff(vector_bytes - 1)) Move<SixteenBytes>();
    // A vector with more than a line to go is not in the last line.
    while (left_ > kLineBytes + 3 * vector_bytes) MoveFour<Vector>();
    while (left_ > kLineBytes) Move<Vector>();
  }

  /// Aligns the destination to 16 bytes. Ends early when too few bytes are left for the next piece.
  [[gnu::always_inline]] void AlignDestination() {
    if (IsOff(7)) [[unlikely]] {
      if (IsOff(1) && left_ >= 1) Move<uint8_t>();
      if (IsOff(2) && left_ >= 2) Move<uint16_t>();
      if (IsOff(4) && left_ >= 4) Move<uint32_t>();
    }
    if (IsOff(8) && left_ >= 8) Move<uint64_t>();
  }

  /// The last 1 to 15 bytes.
  [[gnu::always_inline]] void MoveEnd() {
    if ((left_ & 8) != 0) Move<uint64_t>();
    if ((left_ & 4) != 0) Move<uint32_t>();
    if ((left_ & 2) != 0) Move<uint16_t>();
    if ((left_ & 1) != 0) Move<uint8_t>();
  }

  uint8_t* to_;
  const uint8_t* from_;
  size_t left_;
};

// The copy that places payload. Programs poll on memory while it is written, so the order of the
// stores is part of what the NIC promises. memcpy promises no order (that of glibc stores the end
// of some lengths before the beginning).

/// Copies in rising addresses. At any moment the destination holds the first bytes of the source,
/// and behind them its old bytes; the number of copied bytes never falls. An aligned piece of eight
/// bytes is one store, and so are the aligned pieces of four and two that the ends leave.
/// Shape: any length and alignment; the two ranges do not overlap.
/// Order: x86-64 makes stores visible in program order, and each of them is in one cache line.
///   Stores of up to 16 bytes are visible at once. Wider ones may become visible in parts, so the
///   last cache line, where most programs poll, has none. On arm64 each store is a release.
void OrderedCopy(uint8_t* to, const uint8_t* from, size_t length_bytes);

/// The copy for one instruction set. For tests and benchmarks.
struct OrderedCopyKernel {
  const char* name;
  void (*copy)(uint8_t* to, const uint8_t* from, size_t length_bytes);
};

/// The kernels that this machine can run, best first. OrderedCopy uses the first.
std::span<const OrderedCopyKernel> AvailableOrderedCopyKernels();

}  // namespace uroce::datapath
