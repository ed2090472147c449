// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/contexts.h"

#include <sys/random.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/devices/device_info.h"
#include "nic/devices/nic_device.h"
#include "nic/devices/verbs_attributes.h"
#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "nic/objects/resources.h"
#include "nic/settings/config.h"
#include "pipeline/os/shared_memory.h"

namespace uroce::nic {
namespace {

// The name is secret: a program that knows it can access the context's memory.
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

constexpr uint64_t kPortElement = 1;  // Of port events: the port's number.

bool IsSame(const uroce_context_name& left, const uroce_context_name& right) {
  return std::equal(std::begin(left.secret), std::end(left.secret), std::begin(right.secret));
}

}  // namespace

absl::Status CheckContext(const char* kind, const Context& context,
                          std::initializer_list<const Context*> used) {
  if (std::ranges::all_of(used, [&](const Context* its) { return its == &context; })) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(kind, ": an object that it would use is of another context"));
}

absl::StatusOr<uint32_t> Contexts::Add(NicDevice& device, const uroce_context_name& name,
                                       std::optional<ContextOrigin> origin, Fd& events) {
  if (absl::Status status = contexts_.CheckRoom(); !status.ok()) return status;
  absl::StatusOr<UserSocket> socket = core_.MakeRecords("context", events);
  if (!socket.ok()) return socket.status();
  const datapath::EventRecords port_events(core_.RecordsOn(*socket), kPortElement);
  return contexts_.Add(std::unique_ptr<Context>(new Context{.device = device.shared_from_this(),
                                                            .events = *std::move(socket),
                                                            .port_events = port_events,
                                                            .name = name,
                                                            .origin = origin,
                                                            .handle = contexts_.NextHandle()}));
}

Contexts::Contexts(ProgramCore& core)
    : core_(core),
      contexts_("context", core.limits().contexts, &core.user().contexts),
      pds_("pd", core.limits().pds, &core.user().pds) {}

absl::StatusOr<uint32_t> Contexts::Open(const uroce_open_context& request, Fd& events, Fd& name) {
  const uint32_t device_index = request.device_index;
  NicDevice* const device = core_.nic().DeviceAt(device_index);
  if (device == nullptr) {
    return absl::CancelledError(absl::StrCat("there is no device ", device_index));
  }
  const uroce_context_name drawn = DrawName();
  absl::StatusOr<Fd> file = MakeConstantFile("uroce-context", &drawn, sizeof(drawn));
  if (!file.ok()) return file.status();
  name = *std::move(file);
  return Add(*device, drawn, std::nullopt, events);
}

absl::StatusOr<Context*> Contexts::Find(uint32_t handle) const {
  absl::StatusOr<Context*> context = contexts_.Find(handle);
  if (!context.ok()) return context;
  if (absl::Status status = (*context)->device->CheckThere(); !status.ok()) return status;
  return context;
}

absl::StatusOr<ProtectionDomain*> Contexts::FindPd(uint32_t handle) const {
  absl::StatusOr<ProtectionDomain*> pd = pds_.Find(handle);
  if (!pd.ok()) return pd;
  if (absl::Status status = (*pd)->context->device->CheckThere(); !status.ok()) return status;
  return pd;
}

absl::StatusOr<uint32_t> Contexts::AllocPd(uint32_t context_handle) {
  absl::StatusOr<Context*> context = Find(context_handle);
  if (!context.ok()) return context.status();
  return AddPd(**context, core_.nic().domains().Make(), nullptr);
}

absl::StatusOr<uint32_t> Contexts::AddPd(Context& context, std::shared_ptr<Domain> domain,
                                         Domain::Use share) {
  return pds_.Add(std::unique_ptr<ProtectionDomain>(new ProtectionDomain{
      .context = Use(&context), .domain = std::move(domain), .share = std::move(share)}));
}

absl::Status Contexts::DeallocPd(uint32_t handle) {
  absl::StatusOr<ProtectionDomain*> pd = pds_.Find(handle);
  if (!pd.ok()) return pd.status();
  if (absl::Status status = (*pd)->users.CheckNone("pd"); !status.ok()) return status;
  pds_.Remove(handle);
  return absl::OkStatus();
}

bool Contexts::EndSomeOf(const Context& context, absl::FunctionRef<bool()> is_over) {
  return pds_.EndSome([&](const auto& object) { return object.context == &context; }, is_over,
                      [this](uint32_t pd) { MustEnd(DeallocPd(pd)); });
}

absl::StatusOr<uint32_t> Contexts::Import(NicDevice& device, const ContextOrigin& origin,
                                          Fd& events) {
  return Add(device, {}, origin, events);
}

Context* Contexts::Named(const uroce_context_name& name) const {
  Context* found = nullptr;
  contexts_.ForEach([&](uint32_t, Context& context) {
    if (!context.origin && IsSame(context.name, name)) found = &context;
  });
  return found;
}

absl::StatusOr<uroce_port_info> Contexts::QueryPort(uint32_t handle) const {
  const absl::StatusOr<Context*> context = Find(handle);
  if (!context.ok()) return context.status();
  const NicDevice& device = *(*context)->device;
  return PortAttributes(device.info(), device.config().rate_bps);
}

absl::StatusOr<std::vector<uroce_gid_entry>> Contexts::QueryGids(uint32_t handle) const {
  const absl::StatusOr<Context*> context = Find(handle);
  if (!context.ok()) return context.status();
  return GidEntries(*(*context)->device);
}

void Contexts::RaisePortEvent(const NicDevice& device, uint32_t event_type) const {
  contexts_.ForEach([&](uint32_t, Context& context) {
    if (context.device.get() == &device) context.port_events.Raise(event_type);
  });
}

void Contexts::RetryPortEvents() const {
  contexts_.ForEach([](uint32_t, Context& context) { context.port_events.Retry(); });
}

}  // namespace uroce::nic
