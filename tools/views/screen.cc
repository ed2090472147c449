// SPDX-License-Identifier: Apache-2.0
#include "tools/views/screen.h"

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
