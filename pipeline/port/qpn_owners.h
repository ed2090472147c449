// SPDX-License-Identifier: Apache-2.0
// Which worker has a queue pair: the one that its number says (OwnerOf), unless the control thread
// has moved it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "pipeline/base/types.h"

namespace uroce {

/// The owners of all queue pair numbers of a daemon. The control thread moves numbers; any thread
/// reads, without a lock, and may see a change late: a frame that meets the former owner finds no
/// queue pair there. Until a number is moved, a reader looks at one word, which nothing writes.
class QpnOwners {
 public:
  /// Range: 1 <= workers <= kMaxWorkers.
  explicit QpnOwners(uint32_t workers) : workers_(workers) {}
  QpnOwners(const QpnOwners&) = delete;
  QpnOwners& operator=(const QpnOwners&) = delete;

  uint32_t OwnerOf(Qpn qpn) const {
    const Entry* const moved = moved_.load(std::memory_order_acquire);
    const uint8_t entry =
        moved == nullptr ? kNotMoved : moved[qpn.value()].load(std::memory_order_relaxed);
    return entry == kNotMoved ? uroce::OwnerOf(qpn, workers_) : entry - 1u;
  }

  // ---- control thread ----
  /// `worker` has the queue pair from now on. False: there is no memory, and nothing has changed.
  [[nodiscard]] bool Move(Qpn qpn, uint32_t worker) {
    if (table_ == nullptr) {
      // Zeros, which take memory where numbers are moved alone.
      table_.reset(static_cast<Entry*>(std::calloc(kNumbers, sizeof(Entry))));
      if (table_ == nullptr) return false;
      moved_.store(table_.get(), std::memory_order_release);
    }
    const bool is_home = worker == uroce::OwnerOf(qpn, workers_);
    const auto entry = is_home ? kNotMoved : static_cast<uint8_t>(worker + 1);
    table_[qpn.value()].store(entry, std::memory_order_relaxed);
    return true;
  }
  /// The number says the owner again.
  void Forget(Qpn qpn) {
    if (table_ != nullptr) table_[qpn.value()].store(kNotMoved, std::memory_order_relaxed);
  }

 private:
  using Entry = std::atomic<uint8_t>;  ///< The worker and 1, or kNotMoved.
  static constexpr uint8_t kNotMoved = 0;
  static constexpr size_t kNumbers = size_t{1} << 24;
  static_assert(kMaxWorkers < UINT8_MAX);

  struct Free {
    void operator()(Entry* entries) const { std::free(entries); }
  };

  const uint32_t workers_;
  std::atomic<const Entry*> moved_ = nullptr;
  std::unique_ptr<Entry[], Free> table_;
};

}  // namespace uroce
