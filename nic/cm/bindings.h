// SPDX-License-Identifier: Apache-2.0
// Who has which address and port in rdma_cm's port spaces, and who listens there
// (docs/protocol/cm.md, section 3; the rules of conflict are those of Linux's rdma_cm). Pure.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "nic/base/fair_share.h"
#include "nic/cm/types.h"

namespace uroce::nic::cm {

struct BindParameters {
  wire::PortSpace space = wire::PortSpace::kTcp;
  Gid address;        ///< One of the host as a whole (IsOfHost), or a device's.
  uint16_t port = 0;  ///< 0: one that nobody has.
  bool reuse_address = false;
  /// A wildcard of its own family alone. IPv4 addresses always are; IPv6 ones by IPV6_V6ONLY.
  bool own_family_only = false;
  uint32_t user = 0;  ///< Who shares the ports that are chosen with the others.
};

/// The ports of all programs beside one daemon. One thread.
class Bindings {
 public:
  /// In a listener's backlog, for all sources together.
  static constexpr uint32_t kPlaces = 1024;

  struct PortRange {  ///< Of ports that are chosen; both ends count.
    uint16_t first = 32768;
    uint16_t last = 60999;
  };
  Bindings() = default;
  explicit Bindings(PortRange range) : range_(range) {}

  /// `random` says where the search for a free port begins. Sets `id` on kOk.
  /// The range is shared fairly between users: whatever some take, others find a port.
  /// Errors: kAddressInUse, kAddressNotAvailable; kNoRoom: no port is free, or the user has enough.
  Result Bind(const BindParameters& parameters, uint32_t random, BindingId& id);
  /// From now on requests find it. Addresses that were shared by `reuse_address` cannot both
  /// listen. `backlog`: requests of one source that may wait to be taken.
  Result Listen(BindingId id, uint32_t backlog);
  /// Its port may be had by another.
  void Release(BindingId id);
  uint16_t PortOf(BindingId id) const;

  /// Whether anybody listens for the service, at whatever address.
  bool HasListener(const wire::RdmaCmService& service) const;
  /// Who listens for the service at `destination`; BindingId{}: nobody.
  BindingId FindListener(const wire::RdmaCmService& service, const Gid& destination) const;
  /// The device's address, of the given family, at which somebody listens for the service. Nothing:
  /// nobody does, or one at all addresses.
  std::optional<Gid> AddressOfListener(const wire::RdmaCmService& service, bool is_ipv4) const;
  /// Takes a place in a listener's backlog for a request of `source`. False: the source has as many
  /// as it may, or more than are left for others.
  bool TakePlace(BindingId id, const Gid& source);
  /// Gives it back. The listener may be gone.
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
  /// Those of the range, by user. A port that many are bound to counts for each.
  FairShare<uint32_t>& SharedPorts(wire::PortSpace space);
  /// 0: none is free.
  uint16_t FreePort(wire::PortSpace space, uint32_t random) const;
  /// Whether `wanted` can stand beside all others of its port. `but`: itself.
  Result Check(const BindParameters& wanted, bool reuse_address, BindingId but) const;

  PortRange range_;
  std::map<BindingId, Binding> bindings_;
  std::multimap<Service, BindingId> by_service_;
  std::map<wire::PortSpace, FairShare<uint32_t>> shared_ports_;
  uint32_t last_id_ = 0;
};

/// :: or 0.0.0.0.
bool IsWildcard(const Gid& address);
/// ::1, or of 127.0.0.0/8.
bool IsLoopback(const Gid& address);
/// A wildcard or a loopback address: of no device in particular, and reached by every one. Linux's
/// rdma_cm makes no difference between the two.
bool IsOfHost(const Gid& address);

}  // namespace uroce::nic::cm
