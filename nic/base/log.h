// SPDX-License-Identifier: Apache-2.0
// The daemon's log. Sources that write a line see only the light part of the format library.
#pragma once

#include <fmt/core.h>

#include <string>

namespace uroce::nic {

enum class LogLevel : unsigned char { kDebug, kInfo, kWarning, kError };

/// Sends the log to standard error, each line with its time and level: as text, or as an object of
/// JSON. Lines for systemd's journal also have its priority in front, "<6>" and the like
/// (sd-daemon(3)). Times are those of RFC 3339, in local time with its offset from UTC.
void StartLog(bool is_json, const std::string& level);
/// `level` is a value of the setting log_level.
void SetLogLevel(const std::string& level);
/// Writes a line, unless the log's level leaves it out, or standard error takes nothing now: such
/// lines are counted, and a later line says how many are left out. Waits for no reader. Any thread.
void WriteLog(LogLevel level, fmt::string_view format, const fmt::format_args& arguments);

template <typename... Arguments>
void LogDebug(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  WriteLog(LogLevel::kDebug, format, fmt::make_format_args(arguments...));
}
template <typename... Arguments>
void LogInfo(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  WriteLog(LogLevel::kInfo, format, fmt::make_format_args(arguments...));
}
template <typename... Arguments>
void LogWarning(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  WriteLog(LogLevel::kWarning, format, fmt::make_format_args(arguments...));
}
template <typename... Arguments>
void LogError(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  WriteLog(LogLevel::kError, format, fmt::make_format_args(arguments...));
}

}  // namespace uroce::nic
