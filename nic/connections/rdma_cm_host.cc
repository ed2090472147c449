// SPDX-License-Identifier: Apache-2.0
#include "nic/connections/rdma_cm_host.h"

#include <endian.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include "nic/base/allocators.h"
#include "nic/devices/device_info.h"
#include "nic/devices/nic_device.h"
#include "nic/devices/verbs_attributes.h"
#include "nic/net/address.h"
#include "nic/net/followed_paths.h"
#include "nic/objects/contexts.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "nic/objects/resources.h"
#include "nic/settings/config.h"
#include "pipeline/os/shared_memory.h"

namespace uroce::nic {
namespace {

/// Reads a sysctl of the daemon's network namespace.
template <typename... Values>
bool ReadSysctl(const char* path, Values&... values) {
  std::ifstream file(path);
  return static_cast<bool>((file >> ... >> values));
}

rdma_cm::Attachment AttachmentOf(const SourceAddress& source) {
  return {source.device->index(), source.vlan_id, source.address};
}

int LookupErrno(const absl::Status& status) {
  if (status.ok()) return 0;
  return status.code() == absl::StatusCode::kUnavailable ? ENETUNREACH : ETIMEDOUT;
}

}  // namespace

rdma_cm::ServiceConfig RdmaCmHost::MakeConfig(const Limits& limits) {
  rdma_cm::ServiceConfig config;
  config.limits.endpoints_per_program = limits.cm_ids;
  config.limits.endpoints_per_user = limits.cm_ids_per_user;
  config.limits.joins_per_program = limits.cm_joins;
  config.limits.joins_per_user = limits.cm_joins_per_user;
  config.manager.max_ids = limits.total_connections;
  ReadSysctl("/proc/sys/net/ipv4/ip_unprivileged_port_start", config.first_unprivileged_port);
  cm::Bindings::PortRange range;
  if (ReadSysctl("/proc/sys/net/ipv4/ip_local_port_range", range.first, range.last)) {
    config.manager.ports = range;
  }
  return config;
}

RdmaCmHost::RdmaCmHost(EventLoop& loop, Nic& nic, KernelRouting& kernel, Neighbours& neighbours,
                       Gsi& gsi, const rdma_cm::ServiceConfig& config)
    : loop_(loop),
      nic_(nic),
      sources_(nic.net_devices(), kernel),
      lookups_(loop, neighbours),
      service_(config, *this, SecureRandom),
      gsi_(gsi) {
  gsi_.SetHandler(wire::kCmClass, [this](const cm::Route& route, std::span<const uint8_t> mad) {
    service_.OnMad(route, mad);
  });
}

RdmaCmHost::~RdmaCmHost() {
  gsi_.SetHandler(wire::kCmClass, nullptr);
  loop_.Cancel(timer_);
}

void RdmaCmHost::AddDevice(const NicDevice& device) { sources_.AddDevice(device); }

void RdmaCmHost::RemoveDevice(const NicDevice& device) {
  sources_.RemoveDevice(device);
  service_.OnDeviceGone(device.index());
}

Nanos RdmaCmHost::Now() { return Nic::Now(); }

// Deadlines move with every message: a timer that fires too early costs less than moving
// it.
void RdmaCmHost::SetDeadline(Nanos when) {
  deadline_ = when;
  if (when >= timer_at_) return;
  loop_.Cancel(timer_);
  timer_at_ = when;
  const Nanos now = Now();
  timer_ = loop_.After(when > now ? when - now : Nanos(0), [this] { OnTimer(); });
}

void RdmaCmHost::OnTimer() {
  timer_at_ = kNever;
  if (Now() >= deadline_) return service_.OnDeadline();
  SetDeadline(deadline_);
}

std::optional<rdma_cm::Attachment> RdmaCmHost::FindAddress(const Gid& address, uint32_t scope_id) {
  const auto owner = sources_.FindOwner(address, static_cast<int>(scope_id));
  if (!owner) return std::nullopt;
  return AttachmentOf(*owner);
}

std::vector<const NetDevice*> RdmaCmHost::UsedDevices(uint32_t client) const {
  std::vector<const NetDevice*> used;
  const auto program = nic_.programs().find(client);
  if (program == nic_.programs().end()) return used;
  program->second->contexts().pds().ForEach(
      [&used](uint32_t, const ProtectionDomain& pd) { used.push_back(pd.context->device.get()); });
  return used;
}

cm::Result RdmaCmHost::ChooseSource(uint32_t client, const Gid& destination, uint32_t scope_id,
                                    rdma_cm::Attachment& source) {
  const auto chosen = sources_.Choose(destination, static_cast<int>(scope_id), UsedDevices(client));
  if (!chosen.ok()) {
    return chosen.status().code() == absl::StatusCode::kNotFound ? cm::Result::kNoDevice
                                                                 : cm::Result::kNoRoute;
  }
  source = AttachmentOf(*chosen);
  return cm::Result::kOk;
}

RdmaCmHost::LookupId RdmaCmHost::FindNeighbour(const rdma_cm::Attachment& source,
                                               const Gid& destination, uint32_t user, Nanos timeout,
                                               LookupHandler handler) {
  const PathKey path{nic_.DeviceAt(source.device), source.vlan_id, source.address, destination};
  if (path.device == nullptr) return LookupId();
  return lookups_.Start(
      path, user, timeout,
      [handler = std::move(handler)](const absl::Status& status) { handler(LookupErrno(status)); });
}

rdma_cm::DeviceFacts RdmaCmHost::Facts(uint32_t device) {
  const NicDevice* const its = nic_.DeviceAt(device);
  if (its == nullptr) return {};
  const uroce_device_info info = DeviceInfo(*its, nic_.config().limits);
  return {.node_guid = be64toh(info.node_guid),
          .active_mtu = static_cast<uint8_t>(PortAttributes(its->info()).active_mtu),
          .ack_delay = static_cast<uint8_t>(info.local_ca_ack_delay)};
}

std::optional<uint8_t> RdmaCmHost::GidIndex(const rdma_cm::Attachment& source) {
  const NicDevice* const device = nic_.DeviceAt(source.device);
  if (device == nullptr) return std::nullopt;
  const auto index = device->gids().Find({source.address, source.vlan_id});
  if (!index) return std::nullopt;
  return static_cast<uint8_t>(*index);
}

cm::Result RdmaCmHost::Join(const rdma_cm::Attachment& source, const Gid& group) {
  NicDevice* const device = nic_.DeviceAt(source.device);
  if (device == nullptr) return cm::Result::kNoDevice;
  const absl::Status status = device->groups().Join(group);
  if (status.ok()) return cm::Result::kOk;
  return absl::IsResourceExhausted(status) ? cm::Result::kNoRoom : cm::Result::kInvalid;
}

void RdmaCmHost::Leave(const rdma_cm::Attachment& source, const Gid& group) {
  if (NicDevice* const device = nic_.DeviceAt(source.device)) device->groups().Leave(group);
}

namespace {

constexpr uint32_t kIdsInAPiece = 8;

}  // namespace

CmFiles::CmFiles(EventLoop& loop, UserTurns& turns, Nic& nic, rdma_cm::Service& service,
                 const rdma_cm::Owner& owner, rdma_cm::HasQueuePair has_queue_pair)
    : loop_(loop),
      turns_(turns),
      owner_(owner),
      user_(nic.user(owner.uid)),
      sockets_("cm file", nic.config().limits.cm_ids),
      files_(
          service, owner, std::move(has_queue_pair),
          [&nic](uint32_t device) {
            const NicDevice* const its = nic.DeviceAt(device);
            return its == nullptr ? 0 : its->node_guid();
          },
          [this](ucma::FileId file) { return Signal(static_cast<uint32_t>(file)); }) {}

CmFiles::~CmFiles() {
  sockets_.ForEach([this](uint32_t, OpenFile& file) { loop_.Forget(file.watch); });
  turns_.Forget(owner_.uid, id());
}

absl::StatusOr<uint32_t> CmFiles::Open(Fd& program_end) {
  if (absl::Status status = sockets_.CheckRoom(); !status.ok()) return status;
  absl::StatusOr<UserSocket> socket =
      UserSocket::Make("cm file", UserSocket::Holds::kRecords, user_, program_end);
  if (!socket.ok()) return socket.status();
  auto file = std::make_unique<OpenFile>(OpenFile{*std::move(socket)});
  const uint32_t handle = sockets_.NextHandle();
  file->watch = loop_.Watch(file->socket.get(), 0, [this, handle] { CloseSome(handle); });
  files_.Open(ucma::FileId{handle});
  return sockets_.Add(std::move(file));
}

void CmFiles::CloseSome(uint32_t handle) {
  const Nanos begin = Nic::Now();
  const Nanos end = turns_.Enter(owner_.uid, id(), loop_.turn(), begin);
  if (end <= begin) return;
  bool is_closed = false;
  do {
    is_closed = files_.CloseSome(ucma::FileId{handle}, kIdsInAPiece);
  } while (!is_closed && Nic::Now() < end);
  turns_.Leave(owner_.uid, Nic::Now() - begin);
  if (is_closed) Forget(handle);
}

void CmFiles::Forget(uint32_t handle) {
  const std::unique_ptr<OpenFile> file = sockets_.Remove(handle);
  loop_.Forget(file->watch);
}

bool CmFiles::EndSome(absl::FunctionRef<bool()> is_over) {
  for (const uint32_t handle : sockets_.Handles([](const OpenFile&) { return true; })) {
    while (!files_.CloseSome(ucma::FileId{handle}, kIdsInAPiece)) {
      if (is_over()) return false;
    }
    Forget(handle);
    if (is_over()) return false;
  }
  return true;
}

// If the socket has no room for another byte, the file is readable already.
bool CmFiles::Signal(uint32_t handle) {
  const absl::StatusOr<OpenFile*> file = sockets_.Find(handle);
  if (!file.ok()) return false;
  const uint8_t signal = 1;
  return send((*file)->socket.get(), &signal, sizeof(signal), MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

void CmFiles::Write(const uroce_write_cm& request, std::span<const uint8_t> bytes, Reply& reply) {
  const ucma::Answer answer =
      files_.Write(ucma::FileId{request.file}, ucma::FileId{request.old_file}, bytes);
  const std::span<const uint8_t> response =
      std::span(answer.response).first(std::min<size_t>(answer.response.size(), UROCE_MAX_CM_OUT));
  reply.Add(uroce_write_cm_reply{.error = answer.error,
                                 .signals = answer.signals,
                                 .old_signals = answer.old_signals,
                                 .response_bytes = static_cast<uint32_t>(response.size())});
  reply.AddBytes(response);
}

}  // namespace uroce::nic
