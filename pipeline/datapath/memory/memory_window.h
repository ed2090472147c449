// SPDX-License-Identifier: Apache-2.0
// Memory windows: keys that grant a part of a region, bound and taken back by works of queue pairs.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace uroce::datapath {

/// The low bits of a key, which a program chooses. The other bits name the region or window.
inline constexpr uint32_t kKeyVariant = 0xff;

/// What a window grants while it is bound.
struct WindowBinding {
  uint64_t addr = 0;  ///< An address of the region.
  uint64_t length_bytes = 0;
  uint32_t region_key = 0;
  uint32_t access = 0;  ///< IBV_ACCESS_REMOTE_* and ZERO_BASED.
  uint32_t qpn = 0;     ///< Type 2: the one queue pair that may use it.
};

/// One memory window. It holds no pointer to the region: each access finds the region by its key,
/// under the grace periods of the key table. So a freed region leaves no dangling pointer here.
///
/// Any worker may write, by Change, and one at a time. The state is one word with a count of
/// changes. A writer takes the word to "changing" by compare and swap, which one of several wins,
/// writes the fields, and stores the new state. A reader reads the word, the fields and the word
/// again. If both words are equal, no writer came between, and the fields belong together. So
/// nobody waits, and an access during a change has either the old key or the new one, never a
/// mixture. The writer must await that no other worker uses the old key any more: see Worker (key
/// waits), which holds the completion back for a grace period.
class MemoryWindow {
 public:
  /// Values are those of ibv_mw_type.
  enum class Type : uint8_t { kType1 = 1, kType2 = 2 };

  /// `key` is the window's first key. Its other keys differ from it by their variant alone.
  MemoryWindow(Type type, uint32_t pd, uint32_t key);
  MemoryWindow(const MemoryWindow&) = delete;
  MemoryWindow& operator=(const MemoryWindow&) = delete;

  Type type() const { return type_; }
  uint32_t pd() const { return pd_; }
  /// The current key.
  uint32_t key() const { return group_ | (Load() & kKeyVariant); }

  /// What `key` grants now. Nothing when the window is not bound under this key, or is being
  /// changed. Any thread.
  std::optional<WindowBinding> Read(uint32_t key) const;
  /// What the window grants now, under whatever key it has.
  std::optional<WindowBinding> Read() const { return Read(key()); }

  enum class ChangeResult : uint8_t {
    kChanged,
    kRefused,  ///< The window's state forbids it, or another change is under way.
  };
  /// Binds the window under `variant`. Type 2 must be free. `former` gets the binding that ends.
  [[nodiscard]] ChangeResult Bind(const WindowBinding& binding, uint8_t variant,
                                  std::optional<WindowBinding>& former);
  /// Type 1 alone: ends the binding. The key gets `variant`.
  [[nodiscard]] ChangeResult Unbind(uint8_t variant, std::optional<WindowBinding>& former);
  /// Takes `key` back. Type 2 alone; the window must be bound under `key`.
  [[nodiscard]] ChangeResult Invalidate(uint32_t key, std::optional<WindowBinding>& former);

 private:
  enum class Status : uint8_t { kFree, kBound, kChanging };
  // The word: the variant in its low byte, the status above, and the count of changes on top.
  static constexpr uint32_t kStatusShift = 8;
  static constexpr uint64_t kOneChange = uint64_t{1} << 16;
  static Status StatusOf(uint64_t word) { return static_cast<Status>(word >> kStatusShift & 0xff); }
  static uint64_t Next(uint64_t word, Status status, uint8_t variant) {
    return (word & ~(kOneChange - 1)) + kOneChange +
           (uint64_t{static_cast<uint8_t>(status)} << kStatusShift) + variant;
  }

  uint64_t Load() const { return word_.load(std::memory_order_acquire); }
  /// Reads the fields. They belong together if the word has not changed since it was read.
  WindowBinding LoadBinding() const;
  void StoreBinding(const WindowBinding& binding);
  /// Changes the state from `seen` to another. One of several concurrent callers succeeds.
  [[nodiscard]] ChangeResult Change(uint64_t seen, Status status, uint8_t variant,
                                    const WindowBinding& binding,
                                    std::optional<WindowBinding>& former);

  const Type type_;
  const uint32_t pd_;
  const uint32_t group_;
  std::atomic<uint64_t> word_;
  std::atomic<uint64_t> addr_{0};
  std::atomic<uint64_t> length_bytes_{0};
  std::atomic<uint32_t> region_key_{0};
  std::atomic<uint32_t> access_{0};
  std::atomic<uint32_t> qpn_{0};
};

}  // namespace uroce::datapath
