// SPDX-License-Identifier: Apache-2.0
// Counts and limits the resources of all programs of one user.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nic/base/side_thread.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/queue/wake_pace.h"
#include "pipeline/datapath/thread/shared_rate.h"

namespace uroce::nic {

/// The limit and the use of one resource by all programs of a user. Control thread.
struct Quota {
  uint32_t uid = 0;
  uint64_t limit = 0;
  std::string flag;  ///< The setting of the limit, for messages.
  uint64_t used = 0;

  /// Checks that `more` fits; messages call the resource `kind`. Errors: ResourceExhausted.
  absl::Status Check(const char* kind, uint64_t more) const {
    // A limit may have been lowered below what is used.
    if (used <= limit && more <= limit - used) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(kind, ": user ", uid, " holds ", used, " of ", limit, ", see ", flag));
  }
};

/// One program's share of a quota, returned by the destructor. Without a quota there is no limit.
class QuotaShare {
 public:
  explicit QuotaShare(Quota* quota = nullptr) : quota_(quota) {}
  QuotaShare(QuotaShare&& other) noexcept
      : quota_(std::exchange(other.quota_, nullptr)), held_(std::exchange(other.held_, 0)) {}
  QuotaShare& operator=(QuotaShare&&) = delete;
  ~QuotaShare() { Give(held_); }

  /// As Quota::Check.
  absl::Status Check(const char* kind, uint64_t more) const {
    return quota_ == nullptr ? absl::OkStatus() : quota_->Check(kind, more);
  }
  /// Call it after Check.
  void Take(uint64_t amount) {
    held_ += amount;
    if (quota_ != nullptr) quota_->used += amount;
  }
  void Give(uint64_t amount) {
    held_ -= amount;
    if (quota_ != nullptr) quota_->used -= amount;
  }

 private:
  Quota* quota_;
  uint64_t held_ = 0;
};

/// The resources of one user, and their limits. Control thread.
class UserAccount {
 public:
  UserAccount(uint32_t uid, const Limits& limits)
      : rate(std::make_unique<datapath::SharedRate>(limits.rate_per_user_bps)),
        sockets{uid, limits.sockets_per_user, "--max-sockets-per-user"},
        mappings{uid, limits.mappings_per_user, "--max-mappings-per-user"},
        xrc_files{uid, limits.kinds.of(Kind::kXrcd).of_user, "--max-xrcd-per-user"},
        attachments{uid, limits.attachments_per_user, "--max-mcast-per-user"},
        queue_bytes{uid, limits.queue_bytes_per_user, "--max-queue-bytes-per-user"} {
    for (const KindRow& row : kKinds) {
      kinds_.push_back(
          {uid, limits.kinds.of(row.kind).of_user,
           absl::StrCat("--max-", absl::StrReplaceAll(row.setting, {{"_", "-"}}), "-per-user")});
    }
  }

  /// Applies to what the user asks for from now on; what it holds stays. While all workers stand
  /// still.
  void SetLimits(const Limits& limits) {
    rate->Set(limits.rate_per_user_bps);
    sockets.limit = limits.sockets_per_user;
    mappings.limit = limits.mappings_per_user;
    xrc_files.limit = limits.kinds.of(Kind::kXrcd).of_user;
    attachments.limit = limits.attachments_per_user;
    queue_bytes.limit = limits.queue_bytes_per_user;
    for (const KindRow& row : kKinds) of(row.kind).limit = limits.kinds.of(row.kind).of_user;
  }

  Quota& of(Kind kind) { return kinds_[static_cast<size_t>(kind)]; }
  const Quota& of(Kind kind) const { return kinds_[static_cast<size_t>(kind)]; }

  datapath::WakePace wake_pace;
  /// What all queue pairs of the user send together. Sessions refer to it.
  std::unique_ptr<datapath::SharedRate> rate;
  Quota sockets;      ///< For contexts, completion channels and files of rdma_cm; one fd each.
  Quota mappings;     ///< Segments, including removed ones that regions still use.
  Quota xrc_files;    ///< For domains that are being opened.
  Quota attachments;  ///< Queue pairs attached to multicast groups.
  Quota queue_bytes;  ///< Bytes taken in arenas.
  uint64_t memory_bytes = 0;
  /// Closes refused connections.
  std::shared_ptr<SideThread> refusals_thread = std::make_shared<SideThread>();

 private:
  std::vector<Quota> kinds_;  ///< Indexed by Kind. Its size never changes: shares point into it.
};

}  // namespace uroce::nic
