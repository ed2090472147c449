// SPDX-License-Identifier: Apache-2.0
// The interface to the daemon that rdma_cm's service uses.
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

/// The address of a device to which an endpoint is bound.
struct Attachment {
  uint32_t device = 0;  ///< Index among the daemon's devices.
  uint16_t vlan_id = 0;
  Gid address;
  friend bool operator==(const Attachment&, const Attachment&) = default;
};

/// The properties of a device that endpoints depend on.
struct DeviceFacts {
  uint64_t node_guid = 0;
  uint8_t active_mtu = 0;  ///< enum ibv_mtu; 0: no packet fits.
  uint8_t ack_delay = 15;  ///< Code.
};

/// Implemented by the daemon, and by tests. Control thread.
class Environment {
 public:
  using LookupId = uint64_t;
  /// `error`: 0, or an errno: ETIMEDOUT, ENETUNREACH.
  using LookupHandler = std::function<void(int error)>;

  virtual ~Environment() = default;
  virtual Nanos Now() = 0;
  /// Sets when Service::OnDeadline is to be called, at the latest soon after; replaces the time set
  /// before. kNever: do not call it.
  virtual void SetDeadline(Nanos when) = 0;

  /// The device that has `address`. `scope_id`: see SocketAddress; 0 if it does not matter.
  virtual std::optional<Attachment> FindAddress(const Gid& address, uint32_t scope_id) = 0;
  /// Chooses the source address for packets to `destination` when the program has not. If
  /// `destination` is an address of the host as a whole (cm::IsOfHost), a device's address stands
  /// for it. Errors: kNoRoute; kNoDevice: the route leads by none of the daemon's devices.
  virtual Result ChooseSource(const Gid& destination, uint32_t scope_id, Attachment& source) = 0;
  /// Resolves the next hop's MAC, on behalf of a program of `user`. The handler is called once,
  /// unless cancelled, and never from within this call.
  virtual LookupId FindNeighbour(const Attachment& source, const Gid& destination, uint32_t user,
                                 Nanos timeout, LookupHandler handler) = 0;
  virtual void Cancel(LookupId lookup) = 0;

  virtual DeviceFacts Facts(uint32_t device) = 0;
  /// Index of the source in the device's GID table; nothing if it was removed.
  virtual std::optional<uint8_t> GidIndex(const Attachment& source) = 0;

  /// Sends one GSI datagram. False: there is no room now; try again a little later. Losses after
  /// that (no neighbour) are counted by the environment.
  [[nodiscard]] virtual bool Send(const cm::Route& route,
                                  const std::array<uint8_t, wire::kMadBytes>& mad) = 0;

  /// Joins a group for a device; joins are counted. Errors: kNotSupported, kNoRoom.
  virtual Result Join(const Attachment& source, const Gid& group) = 0;
  virtual void Leave(const Attachment& source, const Gid& group) = 0;
};

/// The number of a device and VLAN in the connection manager.
constexpr uint32_t RouteDevice(const Attachment& at) {
  return cm::RouteDevice(at.device, at.vlan_id);
}

}  // namespace uroce::nic::rdma_cm
