// SPDX-License-Identifier: Apache-2.0
#include "pipeline/transport/selective_resend.h"

#include <algorithm>
#include <bit>

#include "pipeline/transport/psn_distance.h"

namespace uroce::transport {

void SelectiveResend::Start(wire::Psn una) {
  lost_.Clear();
  resent_.Clear();
  resent_before_.Clear();
  una_ = una;
}

bool SelectiveResend::Add(wire::Psn psn) {
  if (lost_.Contains(psn) || resent_.Contains(psn) || resent_before_.Contains(psn)) return false;
  lost_.Insert(psn);
  return true;
}

void SelectiveResend::OnResent(wire::Psn psn, uint32_t packets) {
  const uint32_t within = std::min(packets, PacketSet::kWindow - Distance(una_, psn));
  lost_.Erase(psn, within);
  for (uint32_t i = 0; i < within; ++i) resent_.Insert(psn + i);
}

void SelectiveResend::NextRound() {
  if (resent_.empty() && resent_before_.empty()) return;
  resent_before_ = resent_;
  resent_.Clear();
}

uint32_t SelectiveResend::Add(wire::Psn from, uint64_t missing) {
  const uint64_t known = lost_.Word(from) | resent_.Word(from) | resent_before_.Word(from);
  lost_.Insert(from, missing & ~known);
  return static_cast<uint32_t>(std::popcount(missing & ~known));
}

bool SelectiveResend::OnArrived(wire::Psn from, uint64_t kept) {
  lost_.Erase(from, kept);
  const uint64_t resent = resent_.Word(from) & kept;
  if (resent == 0) return false;
  const auto last = static_cast<uint32_t>(std::bit_width(resent)) - 1;
  resent_.Erase(una_, Distance(una_, from + last));
  return true;
}

bool SelectiveResend::Forget(wire::Psn una) {
  const uint32_t packets = Distance(una_, una);
  const bool resent = !resent_.empty() && resent_.ToMember(una_) < packets;
  for (PacketSet* const set : {&lost_, &resent_, &resent_before_}) set->Erase(una_, packets);
  una_ = una;
  return resent;
}

}  // namespace uroce::transport
