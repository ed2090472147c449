// SPDX-License-Identifier: Apache-2.0
#include "tools/views/listing.h"

#include <array>
#include <cassert>

#include "absl/strings/str_cat.h"

namespace uroce::tools {
namespace {

constexpr Listing kListings[] = {
    {UROCE_DUMP_DEVICES, "devices", "uroce-devices", 1, false},
    {UROCE_DUMP_STAT, "stat", "uroce-stat", 1, false},
    {UROCE_DUMP_QP, "qp", "uroce-qp", 1, true},
    {UROCE_DUMP_MR, "mr", "uroce-mr", 1, true},
    {UROCE_DUMP_CM, "cm", "uroce-cm", 1, true},
    {UROCE_DUMP_SRQ, "srq", "uroce-srq", 1, true},
    {UROCE_DUMP_PEERS, "peers", "uroce-peers", 1, false},
    {UROCE_DUMP_SWITCH, "switch", "uroce-switch", 1, false},
    {UROCE_DUMP_CC, "cc", "uroce-cc", 1, true},
    {UROCE_DUMP_CC_SETTINGS, "cc parameters", "uroce-cc-parameters", 1, false},
    {UROCE_DUMP_CQ, "cq", "uroce-cq", 1, true},
    {UROCE_DUMP_PD, "pd", "uroce-pd", 1, true},
    {UROCE_DUMP_CTX, "ctx", "uroce-ctx", 1, true},
    {UROCE_DUMP_CONFIG, "config", "uroce-config", 1, false},
};

/// Members of a queue pair that name the objects it uses, and the member that they name.
struct Use {
  uroce_dump_what what;
  const char* member;
  std::array<const char*, 2> of_queue_pair;
};
constexpr Use kUses[] = {
    {UROCE_DUMP_CQ, "handle", {"send_cq", "receive_cq"}},
    {UROCE_DUMP_SRQ, "handle", {"srq", "srq"}},
    {UROCE_DUMP_CTX, "handle", {"ctx", "ctx"}},
    {UROCE_DUMP_PD, "pd", {"pd", "pd"}},
    {UROCE_DUMP_MR, "pd", {"pd", "pd"}},
};

const Use* FindUse(uroce_dump_what what) {
  for (const Use& use : kUses) {
    if (use.what == what) return &use;
  }
  return nullptr;
}

bool IsSame(const Json& left, const char* of_left, const Json& right, const char* of_right) {
  const auto in_left = left.find(of_left);
  const auto in_right = right.find(of_right);
  return in_left != left.end() && in_right != right.end() && *in_left == *in_right;
}

bool Uses(const Json& queue_pair, const Use& use, const Json& object) {
  if (!object.is_object() || !IsSame(queue_pair, "session", object, "session")) return false;
  for (const char* member : use.of_queue_pair) {
    if (IsSame(queue_pair, member, object, use.member)) return true;
  }
  return false;
}

}  // namespace

const Listing& ListingOf(uroce_dump_what what) {
  for (const Listing& listing : kListings) {
    if (listing.what == what) return listing;
  }
  assert(false);
  return kListings[0];
}

std::string FiltersText(uroce_dump_what what) {
  if (!ListingOf(what).has_pid) return "Only device=NAME";
  return FindUse(what) == nullptr
             ? "Only device=NAME, pid=NUMBER, qpn=NUMBER"
             : "Only device=NAME, pid=NUMBER, qpn=NUMBER (what this queue pair uses)";
}

absl::Status CheckFilters(uroce_dump_what what, const Selection& select) {
  const Listing& listing = ListingOf(what);
  if (listing.has_pid || (!select.pid && !select.qpn)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(listing.command, ": ", select.pid ? "pid" : "qpn",
                                                 "= selects nothing here, device= does"));
}

bool IsUsedByQueuePairs(uroce_dump_what what) { return FindUse(what) != nullptr; }

absl::StatusOr<std::string> OnlyUsedBy(uint32_t qpn, const std::string& queue_pairs,
                                       uroce_dump_what what, const std::string& json) {
  const absl::StatusOr<Json> users = ParseDump(queue_pairs);
  if (!users.ok()) return users.status();
  absl::StatusOr<Json> dump = ParseDump(json);
  if (!dump.ok()) return dump.status();
  const std::vector<Json> user = SelectObjects(*users, {.qpn = qpn});
  const Use* const use = FindUse(what);
  for (auto& [name, value] : dump->items()) {
    if (!IsListOfObjects(value)) continue;
    Json kept = Json::array();
    for (Json& object : value) {
      if (user.empty() || use == nullptr || !Uses(user.front(), *use, object)) continue;
      object["qpn"] = qpn;
      kept.push_back(std::move(object));
    }
    value = std::move(kept);
  }
  return dump->dump();
}

}  // namespace uroce::tools
