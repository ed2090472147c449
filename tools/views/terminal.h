// SPDX-License-Identifier: Apache-2.0
// What is shown on a terminal: tables of text, and a whole terminal that shows one text after the
// other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace uroce::tools {

// ---- A table of text ----

/// Rows under a header. Cells with a number are aligned to the right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header);
  /// A short row is filled with empty cells; '?' stands for control characters.
  void AddRow(std::vector<std::string> cells);
  /// Whether the table has only its header.
  bool empty() const { return rows_.size() == 1; }
  /// One line for each row, without blanks at the ends of lines.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// ---- The whole terminal ----

/// The terminal of standard input and output, until the end of the object. One at a time.
class Screen {
 public:
  /// Errors: FailedPrecondition, standard output is no terminal that can do this.
  static absl::StatusOr<std::unique_ptr<Screen>> Open();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// Shows the lines of `text` that fit.
  void Show(const std::string& text);
  /// Waits for a key. Returns false when it is q.
  bool Await(double seconds);

 private:
  struct Terminal;
  explicit Screen(std::unique_ptr<Terminal> terminal);
  const std::unique_ptr<Terminal> terminal_;
};

}  // namespace uroce::tools
