// SPDX-License-Identifier: Apache-2.0
// The form of the daemon's log lines.
#pragma once

#include <spdlog/formatter.h>
#include <sys/types.h>

#include <memory>

namespace uroce::nic {

struct LogForm {
  bool is_json = false;     ///< {"timestamp":...,"level":...,"message":...}
  bool is_journal = false;  ///< "<6>" and the like in front, sd-daemon(3).
};

/// Timestamps are those of RFC 3339, in local time with its offset from UTC.
std::unique_ptr<spdlog::formatter> MakeLogFormatter(LogForm form);

/// Whether `journal_stream`, the value of JOURNAL_STREAM or null, names the file: "DEVICE:INODE".
bool IsJournal(const char* journal_stream, dev_t device, ino_t inode);

}  // namespace uroce::nic
