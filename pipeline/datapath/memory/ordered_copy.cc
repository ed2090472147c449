// SPDX-License-Identifier: Apache-2.0
// Copies whose bytes another CPU sees in rising order of their addresses, as a reader expects that
// polls the last byte.
#include "pipeline/datapath/memory/ordered_copy.h"

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

}  // namespace uroce::datapath
