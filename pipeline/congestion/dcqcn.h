// SPDX-License-Identifier: Apache-2.0
// DCQCN: the reaction point of one flow, as the paper defines it or in the integers of NVIDIA's
// NICs, and when a receiver of marked packets sends CNPs (docs/protocol/congestion.md, sections 4,
// 6 and 7).
#pragma once

#include <array>
#include <cstdint>
#include <variant>

#include "pipeline/base/types.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/wire/packet.h"

namespace uroce::congestion {

/// Current and target rate, in bits per second.
struct DcqcnRates {
  double current;
  double target;
};

/// One increase step: fast recovery, additive increase or hyper increase. `timer_events` and
/// `byte_events` are the events of the timer and of the byte counter since the last cut.
DcqcnRates Increase(const ReactionSettings& settings, DcqcnRates rates, uint32_t timer_events,
                    uint32_t byte_events, double line_bps);

/// DCQCN's reaction point as the paper defines it (docs/protocol/congestion.md, section 6).
/// One flow, from its first CNP until its rate is back at the line rate. Rates are in bits per
/// second. Timers run only in Advance, which the caller calls before OnCnp and OnSent.
/// Pure. `now` never goes back.
class Dcqcn {
 public:
  /// Made at the first CNP of the flow.
  Dcqcn(const ReactionSettings& settings, double line_bps, Nanos now);

  /// Applies the events of all timers that have expired by `now`.
  void Advance(const ReactionSettings& settings, Nanos now);
  /// A further CNP. It is ignored within rate_reduce_monitor_period of the last cut.
  void OnCnp(const ReactionSettings& settings, Nanos now);
  /// `bytes` were sent, retransmissions included.
  void OnSent(const ReactionSettings& settings, uint32_t bytes);

  double rate_bps() const { return rates_.current; }
  double target_bps() const { return rates_.target; }
  double alpha() const { return alpha_; }
  /// True within a thousandth of the line rate: the flow needs no limit any more.
  bool is_back() const { return rates_.current >= line_ * 0.999; }

 private:
  void Cut(const ReactionSettings& settings, Nanos now);
  void OnEvent(const ReactionSettings& settings);

  double line_;
  DcqcnRates rates_;
  double alpha_ = 1;
  uint64_t bytes_ = 0;  ///< Since the last byte event.
  uint32_t timer_events_ = 0;
  uint32_t byte_events_ = 0;
  Nanos cut_at_;
  Nanos alpha_at_;     ///< Next event of the alpha timer.
  Nanos increase_at_;  ///< Next event of the rate timer.
};

/// DCQCN's reaction point in the integers of NVIDIA's NICs (docs/protocol/congestion.md, section
/// 7). One flow, from its first CNP until its rate is back at the line rate. Rates are in Mb/s,
/// alpha in 1/1024. Timers run only in Advance, which the caller calls before OnCnp and OnSent.
/// Pure. `now` never goes back.
class DcqcnMlx {
 public:
  /// Made at the first CNP. Cuts the rate at once, unless rate_to_set_on_first_cnp sets the rate.
  DcqcnMlx(const ReactionSettings& settings, double line_bps, Nanos now);

  /// Applies the events of all timers that have expired by `now`.
  void Advance(const ReactionSettings& settings, Nanos now);
  /// A further CNP: the rate is cut at the end of its rate_reduce_monitor_period.
  void OnCnp(const ReactionSettings& settings, Nanos now);
  /// `bytes` were sent, retransmissions included.
  void OnSent(const ReactionSettings& settings, uint32_t bytes);

  double rate_bps() const { return rate_ * 1e6; }
  double target_bps() const { return target_ * 1e6; }
  /// In parts of kAlphaOne.
  uint32_t alpha() const { return alpha_; }
  static constexpr uint32_t kAlphaOne = 1024;
  /// True within a thousandth of the line rate: the flow needs no limit any more.
  bool is_back() const {
    return cut_at_ == kNever && uint64_t{rate_} * 1000 >= uint64_t{line_} * 999;
  }

 private:
  void Cut(const ReactionSettings& settings, Nanos now);
  void Increase(const ReactionSettings& settings);
  void UpdateAlpha(const ReactionSettings& settings);
  int64_t AlphaPeriods(const ReactionSettings& settings, Nanos now) const;

  uint32_t line_;
  uint32_t rate_;
  uint32_t target_;
  uint32_t alpha_;
  uint32_t time_stage_ = 0;
  uint32_t byte_stage_ = 0;
  uint64_t bytes_ = 0;         ///< Since the last byte event.
  bool cnp_for_alpha_ = true;  ///< A CNP came since the last update of alpha.
  Nanos began_;                ///< Start of the first monitor period.
  Nanos cut_at_ = kNever;      ///< End of a monitor period in which a CNP came.
  Nanos alpha_at_;
  Nanos increase_at_;
};

/// The reaction point of one flow: Dcqcn or DcqcnMlx, by the profile.
/// Exists from the first CNP of a flow until its rate is back. Pure. See Dcqcn and DcqcnMlx.
class ReactionPoint {
 public:
  ReactionPoint(const Settings& settings, double line_bps, Nanos now)
      : form_(Make(settings, line_bps, now)) {}

  void Advance(const ReactionSettings& settings, Nanos now) {
    std::visit([&](auto& form) { form.Advance(settings, now); }, form_);
  }
  void OnCnp(const ReactionSettings& settings, Nanos now) {
    std::visit([&](auto& form) { form.OnCnp(settings, now); }, form_);
  }
  /// A packet leaves at `now`; sets `rate_bps`. False: the rate is back, no limit is needed.
  bool OnSent(const ReactionSettings& settings, uint32_t bytes, Nanos now, double& rate_bps) {
    return std::visit(
        [&](auto& form) {
          form.Advance(settings, now);
          form.OnSent(settings, bytes);
          rate_bps = form.rate_bps();
          return !form.is_back();
        },
        form_);
  }
  double rate_bps() const {
    return std::visit([](const auto& form) { return form.rate_bps(); }, form_);
  }
  double target_bps() const {
    return std::visit([](const auto& form) { return form.target_bps(); }, form_);
  }
  /// How congested the path is: 0 to 1.
  double alpha() const {
    if (const Dcqcn* paper = std::get_if<Dcqcn>(&form_)) return paper->alpha();
    return 1.0 * std::get<DcqcnMlx>(form_).alpha() / DcqcnMlx::kAlphaOne;
  }
  bool is_back() const {
    return std::visit([](const auto& form) { return form.is_back(); }, form_);
  }
  const std::variant<Dcqcn, DcqcnMlx>& form() const { return form_; }

 private:
  using Form = std::variant<Dcqcn, DcqcnMlx>;
  static Form Make(const Settings& settings, double line_bps, Nanos now) {
    if (settings.profile == Profile::kDcqcnMlx) return DcqcnMlx(settings.rp, line_bps, now);
    return Dcqcn(settings.rp, line_bps, now);
  }

  Form form_;
};

// When a receiver of marked packets sends CNPs (docs/protocol/congestion.md, section 4).

/// Whether a CNP answers a mark on a packet of `opcode`. True for requests and READ responses,
/// false for CNPs and acknowledgements.
constexpr bool IsNotified(wire::Opcode opcode) {
  if (opcode == wire::Opcode::kCnp || wire::IsOfManufacturer(opcode)) return false;
  const wire::Opcode operation = wire::OperationOf(opcode);
  return operation != wire::Opcode::kAcknowledge && operation != wire::Opcode::kAtomicAcknowledge;
}

/// One flow: at most one CNP in each interval, and at most one for the packets of a burst, which
/// all have the same time. Pure.
class NotificationPoint {
 public:
  /// A packet with a mark has come. True: the caller must send a CNP, which counts as sent.
  /// `interval` is min_time_between_cnps.
  bool OnMarked(Nanos now, Nanos interval) {
    const bool is_first = last_ == kNever;
    if (!is_first && (now - last_ < interval || now == last_)) return false;
    last_ = now;
    return true;
  }

 private:
  Nanos last_ = kNever;  ///< Time of the last CNP; kNever when there was none.
};

/// The flows of datagrams, which may have many senders: a hash table of fixed size. Flows with the
/// same place share one interval. Pure, one thread.
class DatagramNotificationPoints {
 public:
  bool OnMarked(const Gid& source, Qpn source_qpn, Nanos now, Nanos interval) {
    return points_[PlaceOf(source, source_qpn)].OnMarked(now, interval);
  }

 private:
  static constexpr uint32_t kPlaces = 1024;

  static uint32_t PlaceOf(const Gid& source, Qpn source_qpn) {
    uint32_t hash = source_qpn.value() * 0x9e3779b1;
    for (const uint8_t byte : source.bytes) hash = (hash ^ byte) * 0x01000193;
    return (hash ^ hash >> 16) % kPlaces;
  }

  std::array<NotificationPoint, kPlaces> points_;
};

}  // namespace uroce::congestion
