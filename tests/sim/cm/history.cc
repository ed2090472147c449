// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cm/history.h"

#include <algorithm>

#include "pipeline/wire/cm/message.h"

namespace uroce::sim::cm {
namespace {

using wire::RejReason;

constexpr auto ReasonOf(RejReason reason) { return static_cast<uint16_t>(reason); }

}  // namespace

std::string End::OnEvent(EventKind kind) {
  if (destroyed) return "told after its end";
  if (timewait_over) return "told after time wait";
  switch (kind) {
    case EventKind::kConnectRequest:
    case EventKind::kResolveRequest:
    case EventKind::kResolved:
    case EventKind::kDeviceRemoved:
      return "told what cannot be";
    case EventKind::kConnectReply:
      if (!active || replied || ended()) return "replied to at the wrong time";
      replied = true;
      return "";
    case EventKind::kEstablished:
      if (active || !accepted || established || ended()) return "established at the wrong time";
      established = true;
      return "";
    case EventKind::kRejected:
      if (established || ended()) return "rejected at the wrong time";
      was_rejected = true;
      return "";
    case EventKind::kUnreachable:
      if (established || ended()) return "unreachable at the wrong time";
      unreachable = true;
      return "";
    case EventKind::kDisconnected:
      if (ended() || !(established || accepted || replied)) return "disconnected at the wrong time";
      disconnected = true;
      return "";
    case EventKind::kTimewaitExit:
      if (!ended()) return "time wait is over that had not begun";
      timewait_over = true;
      return "";
  }
  return "an unknown event";
}

std::string End::ToString() const {
  std::string text = active ? "active" : "passive";
  text.append(" node ").append(std::to_string(node));
  const auto add = [&text](bool flag, const char* name) {
    if (flag) text.append(" ").append(name);
  };
  add(accepted, "accepted");
  add(rejected, "rejects");
  add(replied, "replied");
  add(established, "established");
  add(was_rejected, "rejected");
  if (was_rejected) text.append("=").append(std::to_string(reason));
  add(unreachable, "unreachable");
  add(disconnected, "disconnected");
  add(timed_out, "timed out");
  add(timewait_over, "rested");
  add(leaves, "leaves");
  add(destroyed, "destroyed");
  return text;
}

std::string Attempt::Judge(bool both_lived, uint64_t& busy) const {
  std::string fault;
  const auto any = [&](auto test) { return std::ranges::any_of(passive, test); };
  if (any([](const End& end) { return end.established; }) && !active.established) {
    fault = "established at the passive side alone";
  } else if (std::ranges::count_if(passive, [](const End& end) { return end.established; }) > 1) {
    fault = "established twice at the passive side";
  } else if (both_lived) {
    fault = JudgeOutcome(busy);
  }
  if (fault.empty()) return "";
  fault += "; " + active.ToString();
  for (const End& end : passive) fault += "; " + end.ToString();
  return fault;
}

// Retries never run out in a network that loses a tenth of frames, with programs that answer within
// half a minute.
std::string Attempt::JudgeOutcome(uint64_t& busy) const {
  const auto any = [&](auto test) { return std::ranges::any_of(passive, test); };
  if (!active.destroyed) return "the active program never ended";
  if (any([](const End& end) { return !end.destroyed; })) return "a passive program never ended";
  const auto unheard = [](const End& end) { return end.unreachable || end.timed_out; };
  if (unheard(active) || any(unheard)) return "unreachable, and no host died";
  if (active.established) {
    if (!any([](const End& end) { return end.accepted && !end.was_rejected; })) {
      return "established at the active side alone";
    }
  }
  const auto ends_it = [](const End& end) { return end.leaves || end.rejected; };
  const bool told = active.disconnected || any([](const End& end) { return end.disconnected; });
  if (told && !ends_it(active) && !any(ends_it)) return "disconnected, and no end did it";
  if (!active.was_rejected) return "";
  if (active.established) return "rejected and established";
  if (active.reason == ReasonOf(RejReason::kInvalidServiceId)) {
    return has_listener ? "no listener, where there is one" : "";
  }
  if (claims && active.reason == ReasonOf(RejReason::kStale)) return "";
  if (active.reason != ReasonOf(RejReason::kConsumerDefined)) return "rejected for no reason";
  if (any([](const End& end) { return end.rejected || end.destroyed; })) return "";
  if (busy == 0) return "rejected, and no end did it";
  --busy;
  return "";
}

}  // namespace uroce::sim::cm
