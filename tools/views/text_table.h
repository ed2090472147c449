// SPDX-License-Identifier: Apache-2.0
// Text in columns that are as wide as their widest cell.
#pragma once

#include <string>
#include <vector>

namespace uroce::tools {

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

}  // namespace uroce::tools
