// SPDX-License-Identifier: Apache-2.0
// Records which program has which address and port in rdma_cm's port spaces, and who listens there
// (docs/protocol/cm.md, section 3; conflicts are decided as by Linux's rdma_cm). Pure.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "nic/cm/types.h"
#include "pipeline/base/limits.h"

namespace uroce::nic::cm {

struct BindParameters {
  wire::PortSpace space = wire::PortSpace::kTcp;
  Gid address;        ///< An address of the host as a whole (IsOfHost), or a device's.
  uint16_t port = 0;  ///< 0: choose a free one.
  bool reuse_address = false;
  /// A wildcard covers its own family only. IPv4 ones always do; IPv6 ones with IPV6_V6ONLY.
  bool own_family_only = false;
  uint32_t user = 0;  ///< The user by whom shares of the chosen ports are counted.
};

/// The port bindings of all programs of one daemon. One thread.
class Bindings {
 public:
  /// Places in a listener's backlog, for all sources together.
  static constexpr uint32_t kPlaces = 1024;

  struct PortRange {  ///< The ports that are chosen; inclusive.
    uint16_t first = 32768;
    uint16_t last = 60999;
  };
  Bindings() = default;
  explicit Bindings(PortRange range) : range_(range) {}

  /// Binds an address and port. `random` says where the search for a free port begins. Sets `id` on
  /// kOk. Users share the range fairly: no user can take all ports. Errors: kAddressInUse,
  /// kAddressNotAvailable; kNoRoom: no port is free, or the user has enough.
  Result Bind(const BindParameters& parameters, uint32_t random, BindingId& id);
  /// Starts to listen. Of bindings that share an address by `reuse_address` only one can listen.
  /// `backlog`: how many requests of one source may wait to be taken.
  Result Listen(BindingId id, uint32_t backlog);
  /// Removes the binding; another one may have its port.
  void Release(BindingId id);
  uint16_t PortOf(BindingId id) const;

  /// Whether any binding listens for the service, at any address.
  bool HasListener(const wire::RdmaCmService& service) const;
  /// The listener for the service at `destination`; BindingId{} if there is none.
  BindingId FindListener(const wire::RdmaCmService& service, const Gid& destination) const;
  /// The device address, of the given family, at which a binding listens for the service. Nothing
  /// if there is no listener, or if it listens at all addresses.
  std::optional<Gid> AddressOfListener(const wire::RdmaCmService& service, bool is_ipv4) const;
  /// Takes a place in a listener's backlog for a request of `source`. False: the source has as many
  /// as it may have, or the remaining places are kept for other sources.
  bool TakePlace(BindingId id, const Gid& source);
  /// Returns a place in the backlog. The listener may be gone.
  void ReturnPlace(BindingId id, const Gid& source);

  size_t size() const { return bindings_.size(); }

 private:
  struct Binding {
    BindParameters parameters;
    bool listens = false;
    uint32_t backlog = 0;
    FairShare<std::array<uint8_t, 16>> places{kPlaces};  ///< By source.
  };
  using Service = wire::RdmaCmService;

  bool IsFree(const Service& service) const { return !by_service_.contains(service); }
  bool IsInRange(uint16_t port) const { return range_.first <= port && port <= range_.last; }
  /// The ports of the range, shared by user. A port that several are bound to counts for each.
  FairShare<uint32_t>& SharedPorts(wire::PortSpace space);
  /// Returns a free port, or 0 if there is none.
  uint16_t FreePort(wire::PortSpace space, uint32_t random) const;
  /// Whether `wanted` is compatible with the other bindings of its port. `but`: skip this one.
  Result Check(const BindParameters& wanted, bool reuse_address, BindingId but) const;

  PortRange range_;
  std::map<BindingId, Binding> bindings_;
  std::multimap<Service, BindingId> by_service_;
  std::map<wire::PortSpace, FairShare<uint32_t>> shared_ports_;
  uint32_t last_id_ = 0;
};

/// Whether `address` is :: or 0.0.0.0.
bool IsWildcard(const Gid& address);
/// Whether `address` is ::1 or in 127.0.0.0/8.
bool IsLoopback(const Gid& address);
/// Whether `address` is a wildcard or a loopback address: it belongs to no device in particular,
/// and every device reaches it. Linux's rdma_cm does not distinguish the two.
bool IsOfHost(const Gid& address);

}  // namespace uroce::nic::cm
