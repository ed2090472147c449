// SPDX-License-Identifier: Apache-2.0
#include "nic/base/log.h"

#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

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

std::unique_ptr<spdlog::formatter> MakeFormatter(bool is_json, bool is_journal) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PriorityFlag>('P').add_flag<QuotedFlag>('Q');
  constexpr char kTime[] = "%Y-%m-%dT%H:%M:%S.%e%z";
  const std::string text =
      is_json ? absl::StrCat("{\"timestamp\":\"", kTime, "\",\"level\":\"%l\",\"message\":%Q}")
              : absl::StrCat(kTime, " uroced %l: %v");
  formatter->set_pattern(absl::StrCat(is_journal ? "%P" : "", text));
  return formatter;
}

/// Whether standard error is the file that JOURNAL_STREAM names by "DEVICE:INODE".
bool IsJournal() {
  const char* journal_stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  return journal_stream != nullptr && fstat(STDERR_FILENO, &status) == 0 &&
         absl::StrCat(status.st_dev, ":", status.st_ino) == journal_stream;
}

spdlog::level::level_enum LevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::critical;
}

}  // namespace

void StartLog(bool is_json, const std::string& level) {
  auto logger = spdlog::stderr_logger_mt("uroced");
  logger->set_formatter(MakeFormatter(is_json, IsJournal()));
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

void SetLogLevel(const std::string& level) { spdlog::set_level(spdlog::level::from_str(level)); }

namespace {

// A pipe that takes anything has room for a page: a line fits, with its time and escapes of JSON.
constexpr size_t kMaxLineBytes = 2048;

/// Whether standard error takes a line at once. A reader of the log that stops must not stop the
/// daemon: programs cause lines.
bool IsWritable() {
  pollfd log{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&log, 1, 0) > 0;
}

std::mutex writing;
uint64_t left_out = 0;  ///< Lines since the last that was written.

}  // namespace

void WriteLog(LogLevel level, fmt::string_view format, const fmt::format_args& arguments) {
  const spdlog::level::level_enum its_level = LevelOf(level);
  spdlog::logger* const logger = spdlog::default_logger_raw();
  if (!logger->should_log(its_level)) return;
  const std::string line = fmt::vformat(format, arguments).substr(0, kMaxLineBytes);
  const std::lock_guard lock(writing);
  if (left_out != 0 && IsWritable()) {
    logger->warn("{} lines are left out here: the log took no more", std::exchange(left_out, 0));
  }
  if (left_out != 0 || !IsWritable()) {
    ++left_out;
    return;
  }
  logger->log(its_level, spdlog::string_view_t(line));
}

}  // namespace uroce::nic
