// SPDX-License-Identifier: Apache-2.0
// Quotas: how much of what is limited one user, one program or one peer may hold.
#include "nic/base/quota.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace uroce::nic {

absl::Status Quota::Check(const char* kind, uint64_t more) const {
  // A limit may have been lowered below what is used.
  if (used <= limit && more <= limit - used) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(kind, ": user ", uid, " holds ", used, " of ", limit, ", see ", flag));
}

Admission::Admission(const Limits& limits) : limits_(limits), counts_(std::make_shared<Counts>()) {}

void Admission::SetLimits(const Limits& limits) {
  const std::lock_guard lock(counts_->mutex);
  limits_ = limits;
}

absl::StatusOr<Admission::Place> Admission::Admit(uid_t uid, bool is_privileged) {
  const std::lock_guard lock(counts_->mutex);
  const auto found = counts_->of_user.find(uid);
  const uint32_t used = found == counts_->of_user.end() ? 0 : found->second;
  const uint32_t total = limits_.total + (is_privileged ? kReserved : 0);
  const uint32_t per_user = limits_.per_user + (is_privileged ? kReserved : 0);
  if (used >= per_user) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "user ", uid, " has ", used, " programs connected, see --max-sessions-per-user"));
  }
  if (counts_->total >= total) {
    return absl::ResourceExhaustedError(
        absl::StrCat(counts_->total, " programs are connected, see --max-sessions"));
  }
  ++counts_->total;
  ++counts_->of_user[uid];
  return Place(nullptr, [counts = counts_, uid](void*) {
    const std::lock_guard leaving(counts->mutex);
    --counts->total;
    if (--counts->of_user[uid] == 0) counts->of_user.erase(uid);
  });
}

}  // namespace uroce::nic
