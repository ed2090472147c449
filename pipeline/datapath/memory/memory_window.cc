// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/memory/memory_window.h"

namespace uroce::datapath {

MemoryWindow::MemoryWindow(Type type, uint32_t pd, uint32_t key)
    : type_(type),
      pd_(pd),
      group_(key & ~kKeyVariant),
      word_(Next(0, Status::kFree, static_cast<uint8_t>(key))) {}

// Loads with acquire order: no load may move behind the second read of the word.
WindowBinding MemoryWindow::LoadBinding() const {
  return {.addr = addr_.load(std::memory_order_acquire),
          .length_bytes = length_bytes_.load(std::memory_order_acquire),
          .region_key = region_key_.load(std::memory_order_acquire),
          .access = access_.load(std::memory_order_acquire),
          .qpn = qpn_.load(std::memory_order_acquire)};
}

// Stores with release order: a reader that sees one of them sees the word "changing" too.
void MemoryWindow::StoreBinding(const WindowBinding& binding) {
  addr_.store(binding.addr, std::memory_order_release);
  length_bytes_.store(binding.length_bytes, std::memory_order_release);
  region_key_.store(binding.region_key, std::memory_order_release);
  access_.store(binding.access, std::memory_order_release);
  qpn_.store(binding.qpn, std::memory_order_release);
}

std::optional<WindowBinding> MemoryWindow::Read(uint32_t key) const {
  const uint64_t before = Load();
  const bool is_its_key = key == (group_ | (before & kKeyVariant));
  if (!is_its_key || StatusOf(before) != Status::kBound) return std::nullopt;
  const WindowBinding binding = LoadBinding();
  if (word_.load(std::memory_order_relaxed) != before) return std::nullopt;
  return binding;
}

MemoryWindow::ChangeResult MemoryWindow::Change(uint64_t seen, Status status, uint8_t variant,
                                                const WindowBinding& binding,
                                                std::optional<WindowBinding>& former) {
  const uint64_t changing = Next(seen, Status::kChanging, variant);
  if (!word_.compare_exchange_strong(seen, changing, std::memory_order_acq_rel)) {
    return ChangeResult::kRefused;
  }
  former.reset();
  if (StatusOf(seen) == Status::kBound) former = LoadBinding();
  StoreBinding(binding);
  word_.store(Next(changing, status, variant), std::memory_order_release);
  return ChangeResult::kChanged;
}

MemoryWindow::ChangeResult MemoryWindow::Bind(const WindowBinding& binding, uint8_t variant,
                                              std::optional<WindowBinding>& former) {
  const uint64_t seen = Load();
  const Status status = StatusOf(seen);
  const bool may = status == Status::kFree || (type_ == Type::kType1 && status == Status::kBound);
  return may ? Change(seen, Status::kBound, variant, binding, former) : ChangeResult::kRefused;
}

MemoryWindow::ChangeResult MemoryWindow::Unbind(uint8_t variant,
                                                std::optional<WindowBinding>& former) {
  const uint64_t seen = Load();
  if (type_ != Type::kType1 || StatusOf(seen) == Status::kChanging) return ChangeResult::kRefused;
  return Change(seen, Status::kFree, variant, {}, former);
}

MemoryWindow::ChangeResult MemoryWindow::Invalidate(uint32_t key,
                                                    std::optional<WindowBinding>& former) {
  const uint64_t seen = Load();
  const bool is_its_key = key == (group_ | (seen & kKeyVariant));
  if (type_ != Type::kType2 || StatusOf(seen) != Status::kBound || !is_its_key) {
    return ChangeResult::kRefused;
  }
  return Change(seen, Status::kFree, static_cast<uint8_t>(seen), {}, former);
}

}  // namespace uroce::datapath
