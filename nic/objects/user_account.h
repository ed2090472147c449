// SPDX-License-Identifier: Apache-2.0
// What the programs of one user hold together.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nic/base/side_thread.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/queue/record_pace.h"

namespace uroce::nic {

/// How much of one thing the programs of a user may hold together, and do. Control thread.
struct Quota {
  uint32_t uid = 0;
  uint64_t limit = 0;
  const char* flag = "";  ///< The setting that says the limit, for messages.
  uint64_t used = 0;

  /// Whether there is room for `more` of what messages call `kind`. Errors: ResourceExhausted.
  absl::Status Check(const char* kind, uint64_t more) const {
    if (more <= limit - used) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(kind, ": user ", uid, " holds ", used, " of ", limit, ", see ", flag));
  }
};

/// One program's share of a quota, given back at the end. Without a quota there is no limit.
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
  /// After Check.
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

/// Counted against the limits per user. Control thread.
struct UserAccount {
  UserAccount(uint32_t uid, const Limits& limits)
      : sockets{uid, limits.sockets_per_user, "--max-sockets-per-user"},
        segments{uid, limits.segments_per_user, "--max-segments-per-user"},
        mappings{uid, limits.mappings_per_user, "--max-mappings-per-user"},
        mrs{uid, limits.mrs_per_user, "--max-mr-per-user"},
        mr_parts{uid, limits.mr_parts_per_user, "--max-mr-parts-per-user"},
        mws{uid, limits.mws_per_user, "--max-mw-per-user"},
        cqs{uid, limits.cqs_per_user, "--max-cq-per-user"},
        qps{uid, limits.qps_per_user, "--max-qp-per-user"},
        srqs{uid, limits.srqs_per_user, "--max-srq-per-user"},
        xrcds{uid, limits.xrcds_per_user, "--max-xrcd-per-user"},
        xrc_files{uid, limits.xrcds_per_user, "--max-xrcd-per-user"},
        ahs{uid, limits.ahs_per_user, "--max-ah-per-user"},
        attachments{uid, limits.attachments_per_user, "--max-mcast-per-user"},
        queue_bytes{uid, limits.queue_bytes_per_user, "--max-queue-bytes-per-user"} {}

  datapath::RecordPace record_pace;
  Quota sockets;  ///< Of contexts, completion channels and files of rdma_cm; an fd each.
  Quota segments;
  Quota mappings;  ///< Segments, and those gone that regions still use.
  Quota mrs;
  Quota mr_parts;
  Quota mws;
  Quota cqs;
  Quota qps;
  Quota srqs;
  Quota xrcds;
  Quota xrc_files;  ///< Of domains that are being opened.
  Quota ahs;
  Quota attachments;  ///< Of queue pairs to multicast groups.
  Quota queue_bytes;  ///< In arenas.
  uint64_t memory_bytes = 0;
  /// Closes the connections that were turned away.
  std::shared_ptr<SideThread> refusals_thread = std::make_shared<SideThread>();
};

}  // namespace uroce::nic
