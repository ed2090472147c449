// SPDX-License-Identifier: Apache-2.0
// Two devices of verbs and a reliable connection between them, both ends in this program.
#pragma once

#include <string>
#include <vector>

#include "tests/gpu/verbs/end.h"

namespace uroce::memory_kinds {

/// How bytes go from one end to the other.
enum class Verb : uint8_t { kWrite, kRead, kSend, kImmediate };
inline constexpr Verb kVerbs[] = {Verb::kWrite, Verb::kRead, Verb::kSend, Verb::kImmediate};
const char* NameOf(Verb verb);

/// Bytes of a region of one end.
struct Place {
  const ibv_mr* mr;
  uint64_t address;  ///< As SGEs and peers use it.
};

class Network {
 public:
  /// Ends the program with status 2 if a device is missing.
  Network(const char* name_a, const char* name_b);

  /// Registers at an end (0 or 1) with all rights; null: errno says why.
  ibv_mr* Register(int end, uint64_t address, size_t bytes);
  /// A DMA-buf, whose bytes lie at `address` for the program.
  ibv_mr* RegisterDmabuf(int end, uint64_t address, size_t bytes, int fd);

  /// Moves `bytes` of `from`, of end `end`, to `to` of the other. Returns "" or what failed; then
  /// both ends are connected again.
  std::string Move(Verb verb, int end, Place from, Place to, uint32_t bytes);
  /// The same with a list of places at `end`, as many bytes each.
  std::string Gather(Verb verb, int end, const std::vector<ibv_sge>& from, Place to);
  std::string Scatter(Verb verb, int end, Place from, const std::vector<ibv_sge>& to);
  /// Moves `bytes` by a READ of a queue pair of end 0 that is connected to itself.
  std::string ReadFromSelf(Place from, Place to, uint32_t bytes);
  /// An atomic of `end` on `to` of the other; `result` gets the former value.
  std::string Atomic(int end, bool compares, Place result, Place to, uint64_t compare_add,
                     uint64_t swap);

 private:
  void Connect();
  std::string Transfer(Verb verb, int end, std::vector<ibv_sge> from, std::vector<ibv_sge> to,
                       uint32_t from_rkey, uint32_t to_rkey);
  std::string Recover(std::string why);

  End ends_[2];
};

}  // namespace uroce::memory_kinds
