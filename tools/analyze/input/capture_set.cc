// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/input/capture_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace uroce::tools::analyze {

absl::StatusOr<CaptureSet> CaptureSet::Open(const std::vector<std::string>& paths) {
  CaptureSet set;
  for (const std::string& path : paths) {
    absl::StatusOr<std::unique_ptr<CaptureFile>> file =
        CaptureFile::Open(path, path == "-" ? "stdin" : path);
    if (!file.ok()) return file.status();
    set.Add(*std::move(file));
  }
  return set;
}

absl::StatusOr<CaptureSet> CaptureSet::OpenAs(const std::string& path, const std::string& name) {
  CaptureSet set;
  absl::StatusOr<std::unique_ptr<CaptureFile>> file = CaptureFile::Open(path, name);
  if (!file.ok()) return file.status();
  set.Add(*std::move(file));
  return set;
}

void CaptureSet::Add(std::unique_ptr<CaptureFile> file) {
  files_.push_back(std::move(file));
  has_head_.push_back(files_.back()->Next(heads_.emplace_back()));
}

bool CaptureSet::Next(SetFrame& next) {
  // The returned frame stays valid until this call: only now is its file read on.
  if (taken_ != SIZE_MAX) has_head_[taken_] = files_[taken_]->Next(heads_[taken_]);
  taken_ = SIZE_MAX;
  for (size_t i = 0; i < files_.size(); ++i) {
    if (!has_head_[i]) continue;
    if (taken_ == SIZE_MAX || heads_[i].time_ns < heads_[taken_].time_ns) taken_ = i;
  }
  if (taken_ == SIZE_MAX) return false;
  next.frame = heads_[taken_];
  next.file = static_cast<uint32_t>(taken_);
  return true;
}

absl::Status CaptureSet::status() const {
  for (const std::unique_ptr<CaptureFile>& file : files_) {
    if (!file->status().ok()) return file->status();
  }
  return absl::OkStatus();
}

uint32_t CapturePoints::NumberOf(uint32_t file, uint32_t interface_index, uint32_t inner) {
  const Key key{file, interface_index, inner};
  if (last_ < keys_.size() && keys_[last_] == key) return last_;
  const auto found = std::ranges::find(keys_, key);
  last_ = static_cast<uint32_t>(found - keys_.begin());
  // Beyond that many, all further interfaces count as one.
  if (found == keys_.end() && keys_.size() < kMost) keys_.push_back(key);
  last_ = std::min(last_, static_cast<uint32_t>(kMost - 1));
  return last_;
}

std::string CapturePoints::NameOf(uint32_t point, const CaptureSet& set) const {
  if (point >= keys_.size()) return "";
  const Key& key = keys_[point];
  const CaptureFile& file = *set.files()[key.file];
  std::string name = file.name();
  if (const size_t slash = name.rfind('/'); slash != std::string::npos) name.erase(0, slash + 1);
  if (key.inner != 0) return absl::StrCat(name, ": interface ", key.inner);
  const std::string& interface = file.interfaces()[key.interface_index].name;
  if (file.interfaces().size() > 1 || !interface.empty()) {
    absl::StrAppend(
        &name, ": ",
        interface.empty() ? absl::StrCat("interface ", key.interface_index) : interface);
  }
  return name;
}

}  // namespace uroce::tools::analyze
