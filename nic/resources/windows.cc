// SPDX-License-Identifier: Apache-2.0
// Memory windows of a program. Workers bind them (pipeline/datapath/memory_window.h).
#include <infiniband/verbs.h>

#include "absl/strings/str_cat.h"
#include "nic/resources/program.h"
#include "pipeline/datapath/window_works.h"

namespace uroce::nic {

using datapath::MemoryWindow;

WindowObject::WindowObject(ProtectionDomain* its_pd, MemoryWindow::Type type, uint32_t key)
    : pd(its_pd), window(type, its_pd->number(), key) {
  entry.key = key & ~datapath::kKeyVariant;
  entry.window = &window;
}

absl::StatusOr<uroce_alloc_mw_reply> Program::AllocMw(const uroce_alloc_mw& request) {
  const absl::StatusOr<ProtectionDomain*> pd = pds_.Find(request.pd);
  if (!pd.ok()) return pd.status();
  if (request.type != IBV_MW_TYPE_1 && request.type != IBV_MW_TYPE_2) {
    return absl::InvalidArgumentError(absl::StrCat("mw: there is no type ", request.type));
  }
  if (absl::Status status = mws_.CheckRoom(); !status.ok()) return status;
  const uint32_t key = nic_.key_numbers().Take(Nic::Now());
  if (key == 0) return absl::ResourceExhaustedError("mw: no key is free");
  auto made =
      std::make_unique<WindowObject>(*pd, static_cast<MemoryWindow::Type>(request.type), key);
  if (!nic_.keys().Publish(&made->entry)) {
    nic_.key_numbers().Release(key, Nic::Now());
    return absl::ResourceExhaustedError("mw: the daemon's table is full, see --max-total-mr");
  }
  ++(*pd)->users;
  return uroce_alloc_mw_reply{*mws_.Add(std::move(made)), key};
}

// Bound or not: a window that goes grants nothing any more.
absl::Status Program::DeallocMw(uint32_t handle) {
  if (absl::Status status = mws_.Find(handle).status(); !status.ok()) return status;
  const std::unique_ptr<WindowObject> object = mws_.Remove(handle);
  nic_.keys().Unpublish(&object->entry);
  AwaitGrace();
  EndWindow(*object);
  --object->pd->users;
  return absl::OkStatus();
}

void Program::EndWindow(const WindowObject& object) {
  datapath::ReleaseBinding(nic_.keys(), object.window);
  nic_.key_numbers().Release(object.window.key(), Nic::Now());
}

absl::Status Program::CheckUnbound(const MemoryObject& memory) {
  const uint32_t windows = memory.bound_windows->load();
  if (windows == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("mr: ", windows, " windows are bound to it"));
}

}  // namespace uroce::nic
