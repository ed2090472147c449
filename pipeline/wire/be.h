// SPDX-License-Identifier: Apache-2.0
// Integers in network byte order, of which the header layouts consist.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace uroce::wire {

/// Unsigned integer of N bytes in network order, at any alignment. There is no implicit conversion.
template <size_t N>
class Be {
  static_assert(N >= 2 && N <= 8);

 public:
  using Host = std::conditional_t<N <= 2, uint16_t, std::conditional_t<N <= 4, uint32_t, uint64_t>>;
  Be() = default;
  /// Keeps the low N bytes of `host`.
  constexpr explicit Be(Host host) {
    for (size_t i = 0; i < N; ++i) bytes_[i] = static_cast<uint8_t>(host >> (8 * (N - 1 - i)));
  }
  constexpr Host value() const {
    if (!std::is_constant_evaluated() && N == sizeof(Host)) return Swapped();
    Host host = 0;
    for (size_t i = 0; i < N; ++i) host = static_cast<Host>((uint64_t{host} << 8) | bytes_[i]);
    return host;
  }

 private:
  /// One load and one byte swap. Written by hand, because GCC 12 loads single bytes in the loop.
  Host Swapped() const {
    static_assert(std::endian::native == std::endian::little);
    Host host;
    std::memcpy(&host, bytes_, N);
    if constexpr (sizeof host == 2) return __builtin_bswap16(host);
    if constexpr (sizeof host == 4) return __builtin_bswap32(host);
    if constexpr (sizeof host == 8) return __builtin_bswap64(host);
  }

  uint8_t bytes_[N];
};

}  // namespace uroce::wire
