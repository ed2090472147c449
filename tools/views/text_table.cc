// SPDX-License-Identifier: Apache-2.0
#include "tools/views/text_table.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace uroce::tools {
namespace {

/// An address has more than one dot, so it is not a number.
bool IsNumber(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789.") == std::string::npos &&
         std::count(cell.begin(), cell.end(), '.') <= 1;
}

/// The output may go to a terminal, which obeys control characters: those of ASCII, and C1 in UTF-8
/// (0xc2, then 0x80 to 0x9f).
void MakePrintable(std::string& cell) {
  for (size_t i = 0; i < cell.size(); ++i) {
    const auto byte = static_cast<uint8_t>(cell[i]);
    const bool is_c1 =
        byte == 0xc2 && i + 1 < cell.size() && (static_cast<uint8_t>(cell[i + 1]) & 0xe0) == 0x80;
    if (byte < 0x20 || byte == 0x7f || is_c1) cell[i] = '?';
    if (is_c1) cell[i + 1] = '?';
  }
}

std::string Pad(const std::string& cell, size_t width) {
  const std::string blanks(width - cell.size(), ' ');
  return IsNumber(cell) ? blanks + cell : cell + blanks;
}

}  // namespace

TextTable::TextTable(std::vector<std::string> header) {
  for (std::string& cell : header) MakePrintable(cell);
  rows_.push_back(std::move(header));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  cells.resize(rows_.front().size());
  for (std::string& cell : cells) MakePrintable(cell);
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToString() const {
  std::vector<size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += Pad(row[i], widths[i]) + "  ";
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace uroce::tools
