// SPDX-License-Identifier: Apache-2.0
#include "tools/views/stat_page.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/page/page.h"

namespace uroce::tools {
namespace views {

// Made by the build, which embeds the files of tools/views/page (tools/embed.py).
extern const char kPageStyle[];
extern const char kPageBody[];
extern const char kPageScript[];

}  // namespace views

absl::Status StatPage::Add(const std::string& json, absl::Time time) {
  if (looks_.size() == kMostLooks) {
    size_t kept = 1;
    for (size_t i = 2; i < looks_.size(); i += 2) looks_[kept++] = std::move(looks_[i]);
    looks_.resize(kept);
  }
  looks_.push_back(absl::StrCat("{\"ns\":", absl::ToUnixNanos(time), ",\"stat\":", json, "}"));
  const PageParts parts{"uroce stat", views::kPageStyle, views::kPageBody, views::kPageScript};
  const std::string fresh = file_ + ".new";
  absl::Status status = WritePage(parts, Report(), library_, fresh);
  if (!status.ok()) return status;
  if (rename(fresh.c_str(), file_.c_str()) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(file_, ": ", strerror(errno)));
}

std::string StatPage::Report() const {
  return absl::StrCat("{\"looks\":[", absl::StrJoin(looks_, ","), "]}");
}

}  // namespace uroce::tools
