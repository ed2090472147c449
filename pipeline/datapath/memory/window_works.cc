// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/memory/window_works.h"

#include <optional>

#include "pipeline/datapath/memory/access.h"

namespace uroce::datapath {
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

WindowChange Outcome(const KeyTable& keys, ChangeResult result,
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
  if (request.length_bytes == 0) return Outcome(keys, window->Unbind(variant, former), former);
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
  return Outcome(keys, result, former);
}

WindowChange InvalidateWindow(const KeyTable& keys, uint32_t key, uint32_t pd) {
  MemoryWindow* const window = FindWindow(keys, key, pd);
  if (window == nullptr) return {};
  std::optional<WindowBinding> former;
  return Outcome(keys, window->Invalidate(key, former), former);
}

void ReleaseBinding(const KeyTable& keys, const MemoryWindow& window) {
  ForgetBinding(keys, window.Read());
}

}  // namespace uroce::datapath
