// SPDX-License-Identifier: Apache-2.0
#include "nic/log_format.h"

#include <spdlog/pattern_formatter.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"

namespace uroce::nic {
namespace {

/// The priority of syslog(3).
char PriorityOf(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::critical:
      return '2';
    case spdlog::level::err:
      return '3';
    case spdlog::level::warn:
      return '4';
    case spdlog::level::info:
      return '6';
    default:
      return '7';
  }
}

class PriorityFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& to) override {
    for (const char each : {'<', PriorityOf(message.level), '>'}) to.push_back(each);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PriorityFlag>();
  }
};

/// The message as a string of JSON.
class QuotedFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& to) override {
    const std::string text(message.payload.data(), message.payload.size());
    const std::string quoted =
        nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    to.append(quoted.data(), quoted.data() + quoted.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<QuotedFlag>();
  }
};

}  // namespace

std::unique_ptr<spdlog::formatter> MakeLogFormatter(LogForm form) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PriorityFlag>('P').add_flag<QuotedFlag>('Q');
  constexpr char kTime[] = "%Y-%m-%dT%H:%M:%S.%e%z";
  const std::string text =
      form.is_json ? absl::StrCat("{\"timestamp\":\"", kTime, "\",\"level\":\"%l\",\"message\":%Q}")
                   : absl::StrCat(kTime, " uroced %l: %v");
  formatter->set_pattern(absl::StrCat(form.is_journal ? "%P" : "", text));
  return formatter;
}

bool IsJournal(const char* journal_stream, dev_t device, ino_t inode) {
  return journal_stream != nullptr && absl::StrCat(device, ":", inode) == journal_stream;
}

}  // namespace uroce::nic
