// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/config_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nic/settings/daemon_settings.h"
#include "nic/settings/limit_profiles.h"
#include "pipeline/os/suggestion.h"

namespace uroce::nic {
namespace {

absl::Status Complain(const std::string& origin, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(origin, ": ", what));
}

// The text of a flag with this value. Arrays are joined by '+', as addresses are.
absl::StatusOr<std::string> TextOf(const toml::node& node, const std::string& origin) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return absl::StrCat(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  const toml::array* array = node.as_array();
  if (array == nullptr) return Complain(origin, "must be a string, a number, true or false");
  std::string joined;
  for (const toml::node& element : *array) {
    const auto* text = element.as_string();
    if (text == nullptr) return Complain(origin, "must be a list of strings");
    absl::StrAppend(&joined, joined.empty() ? "" : "+", text->get());
  }
  return joined;
}

struct Entry {
  std::string key;
  const toml::node* node;
  uint32_t line;  // Of the key.
};

// toml++ sorts its keys, but the order in the file decides which NIC is the first.
std::vector<Entry> InFileOrder(const toml::table& table) {
  std::vector<Entry> entries;
  for (const auto& [key, node] : table) {
    entries.push_back({std::string(key.str()), &node, key.source().begin.line});
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.node->source().begin < b.node->source().begin;
  });
  return entries;
}

std::string Spelt(absl::string_view key, char other, char usual) {
  return absl::StrReplaceAll(key, {{std::string(1, other), std::string(1, usual)}});
}

/// The key of a field as flags spell it: those of ports and switches have hyphens, parameters of
/// congestion control have none, and those of wires have names of NICs.
std::string FieldKey(const std::string& device_kind, const std::string& key) {
  const bool is_free = device_kind == "wire" || absl::StrContains(key, "cc.");
  return is_free ? key : Spelt(key, '_', '-');
}

/// Collects the settings of one file. Underscores and hyphens are the same in keys.
class TableReader {
 public:
  explicit TableReader(std::string name) : name_(std::move(name)) {}

  absl::Status Read(const toml::table& file) {
    for (const Entry& entry : InFileOrder(file)) {
      absl::Status status;
      if (entry.key == "port" || entry.key == "wire" || entry.key == "switch") {
        status = ReadDevices(entry);
      } else if (entry.key == "limits") {
        status = ReadLimits(entry);
      } else {
        status = ReadScalar(entry, Origin(entry, entry.key), false);
      }
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  std::vector<Setting> TakeSettings() { return std::move(settings_); }

 private:
  std::string Origin(const Entry& entry, absl::string_view key) const {
    return absl::StrCat(name_, ":", entry.line, ": ", key);
  }

  absl::Status ReadDevices(const Entry& entry) {
    const toml::array* array = entry.node->as_array();
    if (array == nullptr || !array->is_array_of_tables()) {
      return Complain(Origin(entry, entry.key),
                      absl::StrCat("must be written as [[", entry.key, "]]"));
    }
    for (const toml::node& element : *array) {
      const std::string origin =
          absl::StrCat(name_, ":", element.source().begin.line, ": ", entry.key);
      Setting setting{origin, entry.key, "", {}};
      for (const Entry& field : InFileOrder(*element.as_table())) {
        if (absl::Status status = ReadField(field, "", setting); !status.ok()) return status;
      }
      settings_.push_back(std::move(setting));
    }
    return absl::OkStatus();
  }

  /// `cc.rpg_ai_rate = 20` is a table in TOML, and `uroce1.cc.rpg_ai_rate = 20` one in another.
  absl::Status ReadField(const Entry& field, const std::string& prefix, Setting& setting,
                         int depth = 0) {
    const std::string key = absl::StrCat(prefix, field.key);
    if (const toml::table* table = field.node->as_table(); table != nullptr && depth < 2) {
      for (const Entry& member : InFileOrder(*table)) {
        absl::Status status = ReadField(member, key + ".", setting, depth + 1);
        if (!status.ok()) {
          return status;
        }
      }
      return absl::OkStatus();
    }
    absl::StatusOr<std::string> text =
        TextOf(*field.node, Origin(field, absl::StrCat(setting.key, ".", key)));
    if (!text.ok()) return text.status();
    setting.fields.emplace_back(FieldKey(setting.key, key), *std::move(text));
    return absl::OkStatus();
  }

  absl::Status ReadLimits(const Entry& entry) {
    const toml::table* limits = entry.node->as_table();
    if (limits == nullptr) {
      return Complain(Origin(entry, entry.key),
                      "must be written as [limits], with profile or single limits");
    }
    for (const Entry& limit : InFileOrder(*limits)) {
      const std::string origin = Origin(limit, absl::StrCat("limits.", limit.key));
      absl::Status status = limit.key == kProfileKey ? AddScalar(*limit.node, origin, kLimitsKey)
                                                     : ReadScalar(limit, origin, true);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status ReadScalar(const Entry& entry, const std::string& origin, bool is_limit) {
    const std::string written = Spelt(entry.key, '-', '_');
    const absl::string_view replacement = ReplacementOf(written);
    const std::string key = replacement.empty() ? written : std::string(replacement);
    const auto& infos = SettingInfos();
    const auto info = std::find_if(infos.begin(), infos.end(), [&](const SettingInfo& candidate) {
      return key == candidate.key;
    });
    if (info == infos.end() && !(key == "fault" && !is_limit)) {
      std::vector<std::string> names = {"port", "wire", "switch", "fault", "limits"};
      for (const SettingInfo& candidate : infos) names.emplace_back(candidate.key);
      if (is_limit) names.emplace_back(kProfileKey);
      return Complain(
          origin, absl::StrCat("unknown key", Suggestion(key, names), "; see uroced --help-all"));
    }
    if (info != infos.end() && info->is_limit() != is_limit) {
      return Complain(origin, info->is_limit() ? "belongs under [limits]" : "is no limit");
    }
    if (const toml::array* faults = entry.node->as_array(); faults != nullptr && key == "fault") {
      for (const toml::node& fault : *faults) {
        if (absl::Status status = AddScalar(fault, origin, key); !status.ok()) return status;
      }
      return absl::OkStatus();
    }
    absl::Status status = AddScalar(*entry.node, origin, key);
    if (status.ok()) settings_.back().has_former_name = key != written;
    return status;
  }

  absl::Status AddScalar(const toml::node& node, const std::string& origin,
                         const std::string& key) {
    absl::StatusOr<std::string> text = TextOf(node, origin);
    if (!text.ok()) return text.status();
    settings_.push_back({origin, key, *std::move(text), {}});
    return absl::OkStatus();
  }

  const std::string name_;
  std::vector<Setting> settings_;
};

}  // namespace

absl::StatusOr<std::vector<Setting>> ParseConfigFile(absl::string_view text,
                                                     const std::string& name) {
  try {
    TableReader reader(name);
    if (absl::Status status = reader.Read(toml::parse(std::string(text))); !status.ok())
      return status;
    return reader.TakeSettings();
  } catch (const toml::parse_error& error) {  // The library reports errors only in this way.
    return Complain(absl::StrCat(name, ":", error.source().begin.line),
                    std::string(error.description()));
  }
}

}  // namespace uroce::nic
