// SPDX-License-Identifier: Apache-2.0
// Detects address conflicts: an address is probed before it is used, and defended afterwards (RFC
// 5227 for IPv4, RFC 4862, 5.4 for IPv6). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nic/net/address.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// The claim to one address, from the first probe on. Both families use the same steps.
class AddressClaim {
 public:
  static constexpr uint32_t kProbes = 3;
  /// RFC 5227 uses intervals of seconds, for networks that are slow to come up. In RDMA networks an
  /// answer takes microseconds, and programs wait for the address.
  static constexpr Nanos kProbeInterval{100'000'000};
  static constexpr Nanos kWaitBeforeUse{200'000'000};
  static constexpr Nanos kAnnounceInterval{2'000'000'000};
  static constexpr Nanos kDefendInterval{10'000'000'000};  ///< RFC 5227, 2.4 (c).
  /// The pause before a lost address is tried again: the other host may give it up meanwhile.
  static constexpr Nanos kRetry{60'000'000'000};

  enum class State : uint8_t {
    kTentative,  ///< Not used yet.
    kUsable,
    kConflict,  ///< Another host has it.
  };

  explicit AddressClaim(const InterfaceAddress& address) : address_(address) {}
  const InterfaceAddress& address() const { return address_; }
  State state() const { return state_; }

  /// Without a link no host can be asked: an address without a known conflict becomes usable.
  void OnLinkDown();
  /// Starts probing. A usable address stays usable meanwhile: its queue pairs survive a lost link.
  void OnLinkUp(Nanos now);

  /// Another host uses the address, or is about to. The result: the claim is lost, the address has
  /// to be defended by an announcement, or it was defended a short time ago.
  enum class Reaction : uint8_t { kLost, kDefend, kNone };
  Reaction OnConflict(Nanos now);

  bool probing() const { return probing_; }

  /// The step that is due: send a probe, start to use the address and announce it, or announce it
  /// once more (RFC 5227, 2.3).
  enum class Step : uint8_t { kNone, kProbe, kUse, kAnnounce };
  Step OnDeadline(Nanos now);
  Nanos NextDeadline() const { return deadline_; }

 private:
  Step Probe(Nanos now);

  InterfaceAddress address_;
  State state_ = State::kTentative;
  bool probing_ = false;
  uint32_t probes_left_ = 0;
  Nanos deadline_ = kNever;
  Nanos defended_at_{INT64_MIN / 2};
};

/// The claims of a host.
using AddressClaims = std::vector<AddressClaim>;

/// The usable address on a VLAN with the longest common prefix with `peer`, of the same family.
std::optional<Gid> SourceFor(const AddressClaims& claims, uint16_t vlan_id, const Gid& peer);

}  // namespace uroce::nic
