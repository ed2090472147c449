// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/memory/memory_keys.h"

#include <bit>
#include <optional>

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

// Changes of the table, by the control thread.

const MemoryRegion KeyTable::kRemoved{};

KeyTable::KeyTable(uint32_t capacity)
    : capacity_(capacity),
      mask_(std::bit_ceil(uint64_t{capacity} * 2 + 2) - 1),
      slots_(std::make_unique<std::atomic<const MemoryRegion*>[]>(mask_ + 1)) {}

bool KeyTable::Publish(const MemoryRegion* region) {
  if (count_ == capacity_ || Find(region->key) != nullptr) return false;
  uint64_t at = Home(region->key);
  while (true) {
    const MemoryRegion* present = slots_[at].load(std::memory_order_relaxed);
    if (present == nullptr || present == &kRemoved) break;
    at = (at + 1) & mask_;
  }
  slots_[at].store(region, std::memory_order_release);
  ++count_;
  return true;
}

uint64_t KeyTable::SlotOf(const MemoryRegion* region) const {
  uint64_t at = Home(region->key);
  for (uint64_t i = 0; slots_[at].load(std::memory_order_relaxed) != region; ++i) {
    if (i > mask_) return mask_ + 1;
    at = (at + 1) & mask_;
  }
  return at;
}

void KeyTable::Replace(const MemoryRegion* old, const MemoryRegion* region) {
  const uint64_t at = SlotOf(old);
  if (at <= mask_) slots_[at].store(region, std::memory_order_release);
}

void KeyTable::Unpublish(const MemoryRegion* region) {
  uint64_t at = SlotOf(region);
  if (at > mask_) return;
  slots_[at].store(&kRemoved, std::memory_order_release);
  --count_;
  // A removed slot in front of an empty one ends no probe early, so it may become empty itself:
  // otherwise probes of absent keys would grow longer without limit.
  if (slots_[(at + 1) & mask_].load(std::memory_order_relaxed) != nullptr) return;
  while (slots_[at].load(std::memory_order_relaxed) == &kRemoved) {
    slots_[at].store(nullptr, std::memory_order_release);
    at = (at - 1) & mask_;
  }
}

// Regions of several segments, and accesses through windows.

namespace {

// What the region must allow, whatever the window grants: another region may have the key by now.
uint32_t RightsOfRegion(uint32_t rights) {
  return (rights & (kRemoteWrite | kRemoteAtomic)) != 0 ? kWindowBind | kLocalWrite : kWindowBind;
}

}  // namespace

// The order of checks is that of docs/protocol/transport.md, section 8: key, state, protection
// domain and queue pair, rights, bounds.
Grant CheckWindowAccess(const KeyTable& keys, uint32_t key, uint64_t va, uint64_t length_bytes,
                        const AccessRight& right) {
  const MemoryRegion* entry = keys.Find(key & ~kKeyVariant);
  if (entry == nullptr || entry->window == nullptr) return {};
  const MemoryWindow& window = *entry->window;
  const std::optional<WindowBinding> binding = window.Read(key);
  if (!binding || window.pd() != right.pd) return {};
  if (window.type() == MemoryWindow::Type::kType2 && binding->qpn != right.qpn) return {};
  // A window has no lkey: local accesses need no right of a window, or one that no window has.
  const bool is_remote = right.rights != kLocalRead;
  if (!is_remote || (binding->access & right.rights) != right.rights) return {};
  const uint64_t offset = (binding->access & kZeroBased) != 0 ? va : va - binding->addr;
  if (offset > binding->length_bytes || length_bytes > binding->length_bytes - offset) return {};
  const MemoryRegion* region = keys.Find(binding->region_key);
  if (region == nullptr || region->pd != right.pd) return {};
  const uint32_t needed = RightsOfRegion(right.rights);
  const uint64_t in_region = binding->addr + offset;
  if ((region->access & needed) != needed) return {};
  return Contains(*region, in_region, length_bytes) ? Grant{region, in_region} : Grant{};
}

// Segments of equal size, such as huge pages, are found at the first guess.
Piece PieceOfMany(const MemoryRegion& region, uint64_t va, uint32_t length_bytes) {
  const uint64_t count = region.segments.size();
  const uint64_t guess = std::min((va - region.iova) / (region.length_bytes / count), count - 1);
  const MrSegment& guessed = region.segments[guess];
  if (va - guessed.iova < guessed.length_bytes) {
    return PieceOfSegment(guessed, va, length_bytes);
  }
  const auto behind =
      std::upper_bound(region.segments.begin(), region.segments.end(), va,
                       [](uint64_t at, const MrSegment& segment) { return at < segment.iova; });
  return PieceOfSegment(*(behind - 1), va, length_bytes);
}

namespace {

using Type = MemoryWindow::Type;
using ChangeResult = MemoryWindow::ChangeResult;

constexpr uint32_t kWriting = kRemoteWrite | kRemoteAtomic;
constexpr uint32_t kGrantable = kRemoteRead | kWriting | kZeroBased;
// A window grants no local access, but programs ask for local write all the same.
constexpr uint32_t kTolerated = kGrantable | kLocalWrite;

MemoryWindow* FindWindow(const KeyTable& keys, uint32_t key, uint32_t pd) {
  const MemoryRegion* entry = keys.Find(key & ~kKeyVariant);
  if (entry == nullptr || entry->window == nullptr) return nullptr;
  return entry->window->pd() == pd ? entry->window : nullptr;
}

bool MayGrant(const MemoryRegion& region, const BindRequest& request, uint32_t pd) {
  if (region.pd != pd) return false;
  if ((region.access & kWindowBind) == 0 || (region.access & kZeroBased) != 0) return false;
  if ((request.access & kWriting) != 0 && (region.access & kLocalWrite) == 0) return false;
  return Contains(region, request.addr, request.length_bytes);
}

bool AllowsAccess(Type type, uint32_t access) {
  const bool is_zero_based = (access & kZeroBased) != 0;
  return (access & ~kTolerated) == 0 && !(type == Type::kType1 && is_zero_based);
}

// The count serves deregistration only: losing it with its region does no harm.
void ForgetBinding(const KeyTable& keys, const std::optional<WindowBinding>& former) {
  if (!former) return;
  const MemoryRegion* region = keys.Find(former->region_key);
  if (region == nullptr || region->bound_windows == nullptr) return;
  uint32_t count = region->bound_windows->load(std::memory_order_relaxed);
  while (count != 0 && !region->bound_windows->compare_exchange_weak(count, count - 1)) {
  }
}

WindowChange OutcomeOfChange(const KeyTable& keys, ChangeResult result,
                             const std::optional<WindowBinding>& former) {
  if (result != ChangeResult::kChanged) return {};
  ForgetBinding(keys, former);
  return {.done = true, .has_ended = former.has_value(), .former_qpn = former ? former->qpn : 0};
}

}  // namespace

WindowChange BindWindow(const KeyTable& keys, const BindRequest& request, const WindowUser& user) {
  MemoryWindow* const window = FindWindow(keys, request.window_key, user.pd);
  if (window == nullptr || !AllowsAccess(window->type(), request.access)) return {};
  const auto variant = static_cast<uint8_t>(request.new_key);
  std::optional<WindowBinding> former;
  if (request.length_bytes == 0)
    return OutcomeOfChange(keys, window->Unbind(variant, former), former);
  const MemoryRegion* region = keys.Find(request.region_key);
  if (region == nullptr || !MayGrant(*region, request, user.pd)) return {};
  // Counted before the window grants anything, so that a deregistration does not miss it.
  if (region->bound_windows != nullptr) region->bound_windows->fetch_add(1);
  const WindowBinding binding{.addr = request.addr,
                              .length_bytes = request.length_bytes,
                              .region_key = request.region_key,
                              .access = request.access & kGrantable,
                              .qpn = window->type() == Type::kType2 ? user.qpn : 0};
  const ChangeResult result = window->Bind(binding, variant, former);
  if (result != ChangeResult::kChanged) ForgetBinding(keys, binding);
  return OutcomeOfChange(keys, result, former);
}

WindowChange InvalidateWindow(const KeyTable& keys, uint32_t key, uint32_t pd) {
  MemoryWindow* const window = FindWindow(keys, key, pd);
  if (window == nullptr) return {};
  std::optional<WindowBinding> former;
  return OutcomeOfChange(keys, window->Invalidate(key, former), former);
}

void ReleaseBinding(const KeyTable& keys, const MemoryWindow& window) {
  ForgetBinding(keys, window.Read());
}

}  // namespace uroce::datapath
