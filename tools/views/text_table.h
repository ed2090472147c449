// SPDX-License-Identifier: Apache-2.0
// Columns of text, as wide as their widest cell.
#pragma once

#include <string>
#include <vector>

namespace uroce::tools {

/// Rows under a header. Cells that hold a number are aligned to the right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header);
  /// A short row is filled with empty cells; '?' stands for control characters.
  void AddRow(std::vector<std::string> cells);
  /// Whether there is no row but the header.
  bool empty() const { return rows_.size() == 1; }
  /// One line a row, without blanks at their ends.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace uroce::tools
