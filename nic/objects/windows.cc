// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/windows.h"

#include <infiniband/verbs.h>

#include "absl/strings/str_cat.h"
#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/memory/memory_keys.h"

namespace uroce::nic {

using datapath::MemoryWindow;

WindowObject::WindowObject(ProtectionDomain* its_pd, MemoryWindow::Type type, uint32_t key)
    : pd(its_pd), window(type, its_pd->number(), key) {
  entry.key = key & ~datapath::kKeyVariant;
  entry.window = &window;
}

Windows::Windows(ProgramCore& core, const Contexts& contexts)
    : core_(core), contexts_(contexts), mws_(core.LimitsOf(Kind::kMw)) {}

absl::StatusOr<uroce_alloc_mw_reply> Windows::Alloc(const uroce_alloc_mw& request) {
  const absl::StatusOr<ProtectionDomain*> pd = contexts_.FindPd(request.pd);
  if (!pd.ok()) return pd.status();
  if (request.type != IBV_MW_TYPE_1 && request.type != IBV_MW_TYPE_2) {
    return absl::InvalidArgumentError(absl::StrCat("mw: there is no type ", request.type));
  }
  if (absl::Status status = mws_.CheckRoom(); !status.ok()) return status;
  const uint32_t key = core_.nic().numbers().keys.Take(Nic::Now());
  if (key == 0) return absl::ResourceExhaustedError("mw: no key is free");
  auto made =
      std::make_unique<WindowObject>(*pd, static_cast<MemoryWindow::Type>(request.type), key);
  if (!core_.nic().keys().Publish(&made->entry)) {
    core_.nic().numbers().keys.Release(key, Nic::Now());
    return absl::ResourceExhaustedError("mw: the daemon's table is full, see --max-total-mr");
  }
  return uroce_alloc_mw_reply{*mws_.Add(std::move(made)), key};
}

absl::Status Windows::Dealloc(uint32_t handle) {
  if (absl::Status status = mws_.Find(handle).status(); !status.ok()) return status;
  const std::unique_ptr<WindowObject> object = mws_.Remove(handle);
  core_.nic().keys().Unpublish(&object->entry);
  core_.AwaitGrace();
  End(*object);
  return absl::OkStatus();
}

void Windows::End(const WindowObject& object) {
  datapath::ReleaseBinding(core_.nic().keys(), object.window);
  core_.nic().numbers().keys.Release(object.window.key(), Nic::Now());
}

bool Windows::EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) {
  return mws_.EndSome([&](const WindowObject& its) { return its.pd->context == &context; }, is_over,
                      [this](uint32_t mw) { MustEnd(Dealloc(mw)); });
}

bool Windows::EndSome(absl::FunctionRef<bool()> is_over) {
  return mws_.EndAll(is_over, [this](auto leaving) {
    for (const auto& object : leaving) core_.nic().keys().Unpublish(&object->entry);
    core_.AwaitGrace();
    for (const auto& object : leaving) End(*object);
  });
}

}  // namespace uroce::nic
