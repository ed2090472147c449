// SPDX-License-Identifier: Apache-2.0
// Contexts, protection domains and regions that programs share: ibv_import_device(3). What is
// imported stands for what its maker made, and is of no use once that is gone.
#include <algorithm>

#include "nic/resources/program.h"

namespace uroce::nic {
namespace {

bool IsSame(const uroce_context_name& left, const uroce_context_name& right) {
  return std::equal(std::begin(left.secret), std::end(left.secret), std::begin(right.secret));
}

absl::Status NotImported(const char* kind) {
  return absl::InvalidArgumentError(absl::StrCat(kind, ": it is not of an imported context"));
}

}  // namespace

std::optional<uint32_t> Program::ContextNamed(const uroce_context_name& name) const {
  const std::vector<uint32_t> found = contexts_.Handles(
      [&name](const Context& context) { return !context.origin && IsSame(context.name, name); });
  if (found.empty()) return std::nullopt;
  return found.front();
}

absl::StatusOr<uroce_import_context_reply> Program::ImportContext(const Program& maker,
                                                                  uint32_t handle, Fd& events) {
  const absl::StatusOr<Context*> made = maker.contexts_.Find(handle);
  if (!made.ok()) return made.status();
  NicDevice* const device = (*made)->device;
  const absl::StatusOr<uint32_t> own =
      AddContext(*device, {}, ForeignObject{maker.session_.id(), handle}, events);
  if (!own.ok()) return own.status();
  const auto& devices = nic_.devices();
  const auto index = std::find_if(devices.begin(), devices.end(),
                                  [device](const auto& each) { return each.get() == device; });
  return uroce_import_context_reply{*own, static_cast<uint32_t>(index - devices.begin())};
}

absl::StatusOr<uint32_t> Program::MakerOfContext(uint32_t handle) const {
  const absl::StatusOr<Context*> context = contexts_.Find(handle);
  if (!context.ok()) return context.status();
  const std::optional<ForeignObject>& origin = (*context)->origin;
  if (!origin) return NotImported("context");
  return origin->program;
}

absl::StatusOr<uint32_t> Program::MakerOfPd(uint32_t handle) const {
  const absl::StatusOr<ProtectionDomain*> pd = pds_.Find(handle);
  if (!pd.ok()) return pd.status();
  const std::optional<ForeignObject>& origin = (*pd)->context->origin;
  if (!origin) return NotImported("pd");
  return origin->program;
}

absl::StatusOr<uint32_t> Program::ImportPd(const Program& maker, const uroce_import& request) {
  const absl::StatusOr<Context*> context = contexts_.Find(request.owner);
  if (!context.ok()) return context.status();
  const std::optional<ForeignObject>& origin = (*context)->origin;
  if (!origin) return NotImported("context");
  const absl::StatusOr<ProtectionDomain*> made = maker.pds_.Find(request.handle);
  if (!made.ok()) return made.status();
  const absl::StatusOr<Context*> maker_context = maker.contexts_.Find(origin->handle);
  if (!maker_context.ok() || (*made)->context != *maker_context) return NotImported("pd");
  const std::shared_ptr<Domain>& domain = (*made)->domain;
  Domain::Use share = &maker == this ? nullptr : domain->Share();
  if (&maker != this && share == nullptr) {
    return absl::UnimplementedError("pd: it has copied memory, which cannot be shared");
  }
  absl::StatusOr<uint32_t> handle = pds_.Add(std::make_unique<ProtectionDomain>(
      ProtectionDomain{.context = *context, .domain = domain, .share = std::move(share)}));
  if (!handle.ok()) return handle;
  ++(*context)->users;
  return handle;
}

absl::StatusOr<uroce_import_mr_reply> Program::ImportMr(const Program& maker,
                                                        const uroce_import& request) const {
  const absl::StatusOr<ProtectionDomain*> pd = pds_.Find(request.owner);
  if (!pd.ok()) return pd.status();
  const absl::StatusOr<MemoryObject*> made = maker.mrs_.Find(request.handle);
  if (!made.ok()) return made.status();
  const datapath::MemoryRegion& region = (*made)->region;
  if (region.pd != (*pd)->number()) return NotImported("mr");
  return uroce_import_mr_reply{region.length_bytes, region.key, region.key};
}

}  // namespace uroce::nic
