// SPDX-License-Identifier: Apache-2.0
#include "tools/views/terminal.h"

#include <algorithm>
#include <utility>

#include "tools/client/printable.h"

namespace uroce::tools {
namespace {

/// An address has more than one dot, so it is not a number.
bool IsNumber(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789.") == std::string::npos &&
         std::count(cell.begin(), cell.end(), '.') <= 1;
}

std::string Pad(const std::string& cell, size_t width) {
  const std::string blanks(width - cell.size(), ' ');
  return IsNumber(cell) ? blanks + cell : cell + blanks;
}

}  // namespace

TextTable::TextTable(std::vector<std::string> header) {
  for (std::string& cell : header) cell = Printable(std::move(cell));
  rows_.push_back(std::move(header));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  cells.resize(rows_.front().size());
  for (std::string& cell : cells) cell = Printable(std::move(cell));
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

// Its macros have names like move.
#define NCURSES_NOMACROS
#include <curses.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace uroce::tools {

struct Screen::Terminal {
  SCREEN* screen = nullptr;
};

absl::StatusOr<std::unique_ptr<Screen>> Screen::Open() {
  const bool is_terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  SCREEN* const screen = is_terminal ? newterm(nullptr, stdout, stdin) : nullptr;
  if (screen == nullptr) {
    return absl::FailedPreconditionError(
        "top: standard output is no terminal that a full screen fits; try --batch");
  }
  set_term(screen);
  cbreak();
  noecho();
  curs_set(0);
  return std::unique_ptr<Screen>(new Screen(std::make_unique<Terminal>(Terminal{screen})));
}

Screen::Screen(std::unique_ptr<Terminal> terminal) : terminal_(std::move(terminal)) {}

Screen::~Screen() {
  endwin();
  delscreen(terminal_->screen);
}

void Screen::Show(const std::string& text) {
  erase();
  int line = 0;
  for (const absl::string_view each : absl::StrSplit(text, '\n')) {
    if (line >= LINES) break;
    mvaddnstr(line, 0, each.data(), std::min(static_cast<int>(each.size()), COLS));
    ++line;
  }
  refresh();
}

bool Screen::Await(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (auto now = Clock::now(); now < end; now = Clock::now()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - now);
    timeout(static_cast<int>(left.count()) + 1);
    const int key = getch();
    if (key == 'q') return false;
    if (key == ERR && isatty(STDIN_FILENO) != 1) return false;
  }
  return true;
}

}  // namespace uroce::tools
