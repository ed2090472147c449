// SPDX-License-Identifier: Apache-2.0
// Detects address conflicts: an address is probed before it is used, and defended afterwards (RFC
// 5227 for IPv4, RFC 4862, 5.4 for IPv6). Pure.
#pragma once

#include <cstdint>

#include "nic/net/address.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// One address, from the first probe on. The same steps for both families.
class AddressClaim {
 public:
  static constexpr uint32_t kProbes = 3;
  /// RFC 5227 counts in seconds, for networks that are slow to come up; on those of RDMA an answer
  /// takes microseconds, and programs wait for the address.
  static constexpr Nanos kProbeInterval{100'000'000};
  static constexpr Nanos kWaitBeforeUse{200'000'000};
  static constexpr Nanos kAnnounceInterval{2'000'000'000};
  static constexpr Nanos kDefendInterval{10'000'000'000};  ///< RFC 5227, 2.4 (c).
  /// Until a lost address is tried again: the other host may have been told to give it up.
  static constexpr Nanos kRetry{60'000'000'000};

  enum class State : uint8_t {
    kTentative,  ///< Not used yet.
    kUsable,
    kConflict,  ///< Somebody else's.
  };

  explicit AddressClaim(const InterfaceAddress& address) : address_(address) {}
  const InterfaceAddress& address() const { return address_; }
  State state() const { return state_; }

  /// Without a link there is nobody to ask, and an address that nobody else had is usable.
  void OnLinkDown();
  /// Probes. An address in use stays so meanwhile: its queue pairs live through a lost link.
  void OnLinkUp(Nanos now);

  /// Somebody else says that the address is his, or is about to. What follows: the claim is lost,
  /// the address has to be defended by an announcement, or it was defended just before.
  enum class Reaction : uint8_t { kLost, kDefend, kNone };
  Reaction OnConflict(Nanos now);

  bool probing() const { return probing_; }

  /// What is due: a probe, that the address may be used from now on and is announced, or that it
  /// is announced once more (RFC 5227, 2.3).
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

}  // namespace uroce::nic
