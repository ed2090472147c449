// SPDX-License-Identifier: Apache-2.0
// Contexts and protection domains of a program.
#include <sys/random.h>

#include "absl/strings/str_cat.h"
#include "nic/resources/one_way_socket.h"
#include "nic/resources/program.h"
#include "nic/resources/shared_memory.h"
#include "pipeline/datapath/record_socket.h"

namespace uroce::nic {
namespace {

absl::Status Busy(const char* kind, uint32_t users) {
  return absl::FailedPreconditionError(
      absl::StrCat(kind, ": ", users, " objects still belong to it"));
}

// Who can guess it has the context's memory.
uroce_context_name DrawName() {
  uroce_context_name name{.magic = UROCE_CONTEXT_NAME_MAGIC, .secret = {}};
  size_t drawn = 0;
  while (drawn < sizeof(name.secret)) {
    const ssize_t got =
        getrandom(reinterpret_cast<uint8_t*>(name.secret) + drawn, sizeof(name.secret) - drawn, 0);
    if (got > 0) drawn += static_cast<size_t>(got);
  }
  return name;
}

}  // namespace

datapath::RecordSocket Program::RecordsOn(const Fd& socket) const {
  return {.fd = socket.get(), .pace = &nic_.user(uid_).record_pace};
}

absl::StatusOr<uint32_t> Program::AddContext(NicDevice& device, const uroce_context_name& name,
                                             std::optional<ForeignObject> origin, Fd& events) {
  if (absl::Status status = contexts_.CheckRoom(); !status.ok()) return status;
  absl::StatusOr<Fd> socket = MakeOneWaySocket(events);
  if (!socket.ok()) return socket.status();
  return contexts_.Add(std::make_unique<Context>(
      Context{.device = &device, .events = *std::move(socket), .name = name, .origin = origin}));
}

absl::StatusOr<uint32_t> Program::OpenContext(uint32_t device_index, Fd& events, Fd& name) {
  if (device_index >= nic_.devices().size()) {
    return absl::NotFoundError(absl::StrCat("there is no device ", device_index));
  }
  const uroce_context_name drawn = DrawName();
  absl::StatusOr<Fd> file = MakeConstantFile("uroce-context", &drawn, sizeof(drawn));
  if (!file.ok()) return file.status();
  name = *std::move(file);
  return AddContext(*nic_.devices()[device_index], drawn, std::nullopt, events);
}

absl::StatusOr<std::vector<std::unique_ptr<MemoryObject>>> Program::CloseContext(uint32_t handle) {
  absl::StatusOr<Context*> found = contexts_.Find(handle);
  if (!found.ok()) return found.status();
  const Context* context = *found;
  const auto in_pd = [context](const auto& object) { return object.pd->context == context; };
  const auto in_context = [context](const auto& object) { return object.context == context; };
  // In the order in which they need each other; none of these can fail.
  for (const uint32_t qp : qps_.Handles(in_pd)) {
    DetachAll(**qps_.Find(qp));
    static_cast<void>(DestroyQp(qp));
  }
  for (const uint32_t target : targets_.Handles(
           [context](const OpenedTarget& opened) { return opened.xrcd->context == context; })) {
    static_cast<void>(CloseTarget(target));
  }
  for (const uint32_t ah : ahs_.Handles(in_pd)) static_cast<void>(DestroyAh(ah));
  for (const uint32_t srq : srqs_.Handles(in_pd)) static_cast<void>(DestroySrq(srq));
  for (const uint32_t mw : mws_.Handles(in_pd)) static_cast<void>(DeallocMw(mw));
  std::vector<std::unique_ptr<MemoryObject>> memory;
  for (const uint32_t mr : mrs_.Handles(in_pd)) memory.push_back(TakeRegion(mr));
  for (const uint32_t pd : pds_.Handles(in_context)) static_cast<void>(DeallocPd(pd));
  for (const uint32_t cq : cqs_.Handles(in_context)) static_cast<void>(DestroyCq(cq));
  for (const uint32_t xrcd : xrcds_.Handles(in_context)) static_cast<void>(CloseXrcd(xrcd));
  for (const uint32_t channel : channels_.Handles(in_context)) {
    static_cast<void>(DestroyChannel(channel));
  }
  contexts_.Remove(handle);
  return memory;
}

absl::StatusOr<uint32_t> Program::AllocPd(uint32_t context_handle) {
  absl::StatusOr<Context*> context = contexts_.Find(context_handle);
  if (!context.ok()) return context.status();
  absl::StatusOr<uint32_t> handle = pds_.Add(std::make_unique<ProtectionDomain>(
      ProtectionDomain{.context = *context, .domain = nic_.domains().Make(), .share = nullptr}));
  if (handle.ok()) ++(*context)->users;
  return handle;
}

absl::Status Program::DeallocPd(uint32_t handle) {
  absl::StatusOr<ProtectionDomain*> pd = pds_.Find(handle);
  if (!pd.ok()) return pd.status();
  if ((*pd)->users != 0) return Busy("pd", (*pd)->users);
  --(*pd)->context->users;
  pds_.Remove(handle);
  return absl::OkStatus();
}

// A program that lets its socket fill up misses port events; it harms nobody else.
void Program::RaisePortEvent(const NicDevice& device, uint32_t event_type) {
  contexts_.ForEach([&](uint32_t, Context& context) {
    if (context.device != &device) return;
    [[maybe_unused]] const bool is_sent =
        RecordsOn(context.events).Write(/*element=*/1, event_type);
  });
}

}  // namespace uroce::nic
