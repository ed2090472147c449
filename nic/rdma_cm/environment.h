// SPDX-License-Identifier: Apache-2.0
// What rdma_cm's service needs of the daemon around it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "nic/cm/types.h"
#include "nic/rdma_cm/types.h"
#include "pipeline/wire/gsi.h"

namespace uroce::nic::rdma_cm {

/// An address of a device: where an endpoint is at home.
struct Attachment {
  uint32_t device = 0;  ///< Index among the daemon's.
  uint16_t vlan_id = 0;
  Gid address;
  friend bool operator==(const Attachment&, const Attachment&) = default;
};

/// What endpoints need to know of a device.
struct DeviceFacts {
  uint64_t node_guid = 0;
  uint8_t active_mtu = 0;  ///< enum ibv_mtu; 0: no packet fits.
  uint8_t ack_delay = 15;  ///< Code.
};

/// Implemented by the daemon, and by tests. Everything on the control thread.
class Environment {
 public:
  using LookupId = uint64_t;
  /// `error`: 0, or an errno: ETIMEDOUT, ENETUNREACH.
  using LookupHandler = std::function<void(int error)>;

  virtual ~Environment() = default;
  virtual Nanos Now() = 0;
  /// Service::OnDeadline is to be called then, or soon after; it replaces the time before. kNever:
  /// not at all.
  virtual void SetDeadline(Nanos when) = 0;

  /// The device that has `address`. `scope_id`: see SocketAddress; 0 where it does not matter.
  virtual std::optional<Attachment> FindAddress(const Gid& address, uint32_t scope_id) = 0;
  /// From which address packets to `destination` go, where the program has not said so. To an
  /// address of the host as a whole (cm::IsOfHost): one of a device, which stands for it.
  /// Errors: kNoRoute; kNoDevice: the way there is none of the daemon's devices.
  virtual Result ChooseSource(const Gid& destination, uint32_t scope_id, Attachment& source) = 0;
  /// Looks for the next hop's MAC, on behalf of a program of `user`. The handler is called once,
  /// unless cancelled, and never from within this call.
  virtual LookupId FindNeighbour(const Attachment& source, const Gid& destination, uint32_t user,
                                 Nanos timeout, LookupHandler handler) = 0;
  virtual void Cancel(LookupId lookup) = 0;

  virtual DeviceFacts Facts(uint32_t device) = 0;
  /// Index of the source in the device's GID table. Nothing: it has gone.
  virtual std::optional<uint8_t> GidIndex(const Attachment& source) = 0;

  /// Sends one GSI datagram. False: there is no room now; offer it again a little later. What is
  /// lost behind it (no neighbour) is counted there.
  [[nodiscard]] virtual bool Send(const cm::Route& route,
                                  const std::array<uint8_t, wire::kMadBytes>& mad) = 0;

  /// Membership of a device in a group, counted. Errors: kNotSupported, kNoRoom.
  virtual Result Join(const Attachment& source, const Gid& group) = 0;
  virtual void Leave(const Attachment& source, const Gid& group) = 0;
};

/// The number that the connection manager knows a device and VLAN by.
constexpr uint32_t RouteDevice(const Attachment& at) {
  return cm::RouteDevice(at.device, at.vlan_id);
}

}  // namespace uroce::nic::rdma_cm
