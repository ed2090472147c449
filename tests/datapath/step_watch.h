// SPDX-License-Identifier: Apache-2.0
// Looks at the destination of a copy after each of its machine instructions, as a program that
// polls there could.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace uroce::datapath {

/// One copy by steps. The processor traps after each instruction, so this sees the compiled code
/// as it is, and one thread's stores are visible to others in the order in which it makes them.
class StepWatch {
 public:
  using Copy = std::function<void(uint8_t* to, const uint8_t* from, size_t length_bytes)>;
  enum class Fault : uint8_t {
    kNone,
    kOrder,    ///< Bytes were new behind one that was not, or old again, or it wrote elsewhere.
    kTorn,     ///< An aligned piece of eight bytes was new in part.
    kUnequal,  ///< In the end the destination was not the source.
  };

  /// At `to_offset` behind an address that is a multiple of 64.
  StepWatch(size_t to_offset, size_t from_offset, size_t length_bytes);

  /// Where the destination begins.
  uint8_t* to() { return base_ + begin_; }
  /// Runs it. One at a time in a process.
  Fault Run(const Copy& copy);
  /// Of the last Run: how many new bytes each fault was found at.
  size_t seen_bytes() const { return seen_; }

 private:
  static constexpr size_t kMargin = 64;
  static void OnTrap(int);
  void Look();
  bool IsTorn() const;

  const size_t length_;
  const size_t begin_;  // Of the destination in the three below.
  std::vector<uint8_t> memory_;
  std::vector<uint8_t> old_;
  std::vector<uint8_t> new_;
  std::vector<uint8_t> source_;
  const size_t from_offset_;
  uint8_t* base_ = nullptr;  // In memory_, a multiple of 64.
  size_t seen_ = 0;          // Of the destination: new from its start on.
  Fault fault_ = Fault::kNone;
};

}  // namespace uroce::datapath
