// SPDX-License-Identifier: Apache-2.0
// Contexts and protection domains of a program.
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "nic/resources/program.h"

namespace uroce::nic {
namespace {

absl::Status Busy(const char* kind, uint32_t users) {
  return absl::FailedPreconditionError(
      absl::StrCat(kind, ": ", users, " objects still belong to it"));
}

}  // namespace

absl::StatusOr<uint32_t> Program::OpenContext(uint32_t device_index, Fd& events) {
  if (device_index >= nic_.devices().size()) {
    return absl::NotFoundError(absl::StrCat("there is no device ", device_index));
  }
  if (absl::Status status = contexts_.CheckRoom(); !status.ok()) return status;
  absl::StatusOr<EventPipe> pipe = EventPipe::Make(sizeof(uroce_async_record), events);
  if (!pipe.ok()) return pipe.status();
  return contexts_.Add(
      std::make_unique<Context>(Context{nic_.devices()[device_index].get(), *std::move(pipe)}));
}

absl::StatusOr<std::vector<std::unique_ptr<MemoryObject>>> Program::CloseContext(uint32_t handle) {
  absl::StatusOr<Context*> found = contexts_.Find(handle);
  if (!found.ok()) return found.status();
  const Context* context = *found;
  const auto in_pd = [context](const auto& object) { return object.pd->context == context; };
  const auto in_context = [context](const auto& object) { return object.context == context; };
  // In the order in which they need each other; none of these can fail.
  for (const uint32_t qp : qps_.Handles(in_pd)) static_cast<void>(DestroyQp(qp));
  for (const uint32_t ah : ahs_.Handles(in_pd)) static_cast<void>(DestroyAh(ah));
  std::vector<std::unique_ptr<MemoryObject>> memory;
  for (const uint32_t mr : mrs_.Handles(in_pd)) memory.push_back(*BeginDereg(mr));
  for (const uint32_t pd : pds_.Handles(in_context)) static_cast<void>(DeallocPd(pd));
  for (const uint32_t cq : cqs_.Handles(in_context)) static_cast<void>(DestroyCq(cq));
  for (const uint32_t channel : channels_.Handles(in_context)) {
    static_cast<void>(DestroyChannel(channel));
  }
  contexts_.Remove(handle);
  return memory;
}

absl::StatusOr<uint32_t> Program::AllocPd(uint32_t context_handle) {
  absl::StatusOr<Context*> context = contexts_.Find(context_handle);
  if (!context.ok()) return context.status();
  absl::StatusOr<uint32_t> handle =
      pds_.Add(std::make_unique<ProtectionDomain>(ProtectionDomain{*context, nic_.NextPdNumber()}));
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

// A program that lets its pipe fill up misses port events; it harms nobody else.
void Program::RaisePortEvent(const NicDevice& device, uint32_t event_type) {
  const uroce_async_record record{.element = 1, .event_type = event_type, .reserved = 0};
  contexts_.ForEach([&](uint32_t, Context& context) {
    if (context.device != &device) return;
    [[maybe_unused]] const ssize_t written =
        write(context.events.write_fd(), &record, sizeof(record));
  });
}

}  // namespace uroce::nic
