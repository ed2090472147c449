// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/story/finding.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace uroce::tools::analyze {
namespace {

constexpr std::array<absl::string_view, kSeverityCount> kSeverityNames = {"note", "warning",
                                                                          "error"};

constexpr std::array<KindInfo, kFindingKindCount> kKinds = {{
    {"icrc-error", "ICRC error", Severity::kWarning, "docs/protocol/wire-format.md, section 7.1"},
    {"malformed", "malformed frame", Severity::kWarning,
     "docs/protocol/wire-format.md, sections 1 to 5"},
    {"loss", "lost packet", Severity::kWarning, "docs/protocol/congestion.md, section 10.1"},
    {"reordering", "reordering", Severity::kWarning, "docs/protocol/transport.md, section 4.1"},
    {"duplicate", "duplicate made by the network", Severity::kWarning,
     "docs/protocol/transport.md, section 4.3"},
    {"congestion", "congestion", Severity::kNote, "docs/protocol/congestion.md, sections 3 and 4"},
    {"pause", "pause", Severity::kNote, "docs/protocol/congestion.md, section 9"},
    {"rnr", "receiver not ready", Severity::kWarning, "docs/protocol/transport.md, section 3.3"},
    {"refused", "request refused", Severity::kError, "docs/protocol/transport.md, section 6"},
    {"violation", "protocol violation", Severity::kError, ""},
    {"sequence-nak", "sequence NAK", Severity::kWarning, "docs/protocol/transport.md, section 4.1"},
    {"timeout", "timeout", Severity::kWarning, "docs/protocol/transport.md, section 3.3"},
    {"go-back-n", "go-back-N", Severity::kWarning, "docs/protocol/transport.md, section 3.4"},
    {"selective-repeat", "selective repeat", Severity::kNote, "pipeline/wire/selective-repeat.md"},
    {"retries-exhausted", "retries exhausted", Severity::kError,
     "docs/protocol/transport.md, section 3.2"},
    {"rnr-exhausted", "RNR retries exhausted", Severity::kError,
     "docs/protocol/transport.md, section 3.2"},
    {"rejected", "connection rejected", Severity::kWarning, "docs/protocol/cm.md, section 9"},
    {"unanswered", "connection request unanswered", Severity::kError,
     "docs/protocol/cm.md, section 7"},
    {"setup-resent", "message of the connection manager sent again", Severity::kWarning,
     "docs/protocol/cm.md, section 6"},
    {"no-disconnect", "connection without DREQ", Severity::kNote, "docs/protocol/cm.md, section 7"},
    {"not-captured", "packets missing in the capture", Severity::kNote, ""},
}};

}  // namespace

absl::string_view NameOf(Severity severity) {
  return kSeverityNames[static_cast<size_t>(severity)];
}

std::optional<Severity> SeverityOf(absl::string_view name) {
  for (size_t i = 0; i < kSeverityNames.size(); ++i) {
    if (kSeverityNames[i] == name) return static_cast<Severity>(i);
  }
  return std::nullopt;
}

const KindInfo& InfoOf(FindingKind kind) { return kKinds[static_cast<size_t>(kind)]; }

void Finding::AddFrame(uint64_t number) {
  for (uint64_t& frame : frames) {
    if (frame == number) return;
    if (frame != 0) continue;
    frame = number;
    return;
  }
}

uint32_t FindingLog::Add(Finding finding) {
  const auto kind = static_cast<size_t>(finding.kind);
  ++counts_[kind];
  if (finding.severity == Severity::kNote) finding.severity = InfoOf(finding.kind).severity;
  if (finding.rule.empty()) finding.rule = std::string(InfoOf(finding.kind).rule);
  ++severities_[static_cast<size_t>(finding.severity)];
  finding.id = next_id_++;
  if (kept_[kind] == kMostOfAKind) {
    ++left_out_;
    return finding.id;
  }
  ++kept_[kind];
  findings_.push_back(std::move(finding));
  return findings_.back().id;
}

Finding* FindingLog::FindNew(uint32_t id) {
  constexpr size_t kMostLookedAt = 256;
  const size_t end = findings_.size() > kMostLookedAt ? findings_.size() - kMostLookedAt : 0;
  for (size_t i = findings_.size(); i > end; --i) {
    if (findings_[i - 1].id == id) return &findings_[i - 1];
  }
  return nullptr;
}

void FindingLog::Recount() {
  std::array<uint64_t, kFindingKindCount> kept{};
  for (const Finding& finding : findings_) ++kept[static_cast<size_t>(finding.kind)];
  for (size_t i = 0; i < kept.size(); ++i) counts_[i] -= kept_[i] - kept[i];
  kept_ = kept;
  severities_ = {};
  for (const Finding& finding : findings_) ++severities_[static_cast<size_t>(finding.severity)];
  for (size_t i = 0; i < kept.size(); ++i) {
    severities_[static_cast<size_t>(kKinds[i].severity)] += counts_[i] - kept[i];
  }
}

std::vector<Finding> FindingLog::Sorted() const {
  std::vector<Finding> sorted = findings_;
  std::ranges::stable_sort(
      sorted, {}, [](const Finding& finding) { return std::tuple(finding.time_ns, finding.kind); });
  return sorted;
}

uint64_t FindingLog::count(Severity severity) const {
  return severities_[static_cast<size_t>(severity)];
}

}  // namespace uroce::tools::analyze
