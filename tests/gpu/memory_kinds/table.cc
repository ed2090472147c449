// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/memory_kinds/table.h"

#include <algorithm>
#include <iterator>

namespace uroce::memory_kinds {
namespace {

constexpr const char* kColumns[] = {"WRITE", "READ", "SEND", "immediate", "others"};

const char* NameOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRight:
      return "right";
    case Verdict::kWrong:
      return "WRONG";
    case Verdict::kMissing:
      return "missing";
  }
  return "";
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted + "\"";
}

/// The column of a cell: the verb that it ends with, or the last one.
size_t ColumnOf(const Cell& cell) {
  for (size_t i = 0; i + 1 < std::size(kColumns); ++i) {
    if (cell.what.ends_with(kColumns[i])) return i;
  }
  return std::size(kColumns) - 1;
}

/// The cells of one column: how many are right, and the others.
struct Column {
  size_t right = 0;
  std::string others;

  void Add(const Cell& cell) {
    if (cell.verdict == Verdict::kRight) {
      ++right;
    } else {
      others +=
          (others.empty() ? "" : "; ") + cell.what + ": " + NameOf(cell.verdict) + ", " + cell.why;
    }
  }
  std::string text() const {
    if (others.empty()) return right != 0 ? std::to_string(right) + " right" : "-";
    return right != 0 ? std::to_string(right) + " right; " + others : others;
  }
};

}  // namespace

void Table::Put(Cell cell) {
  for (Cell& its : cells_) {
    if (its.memory != cell.memory || its.order != cell.order || its.what != cell.what) continue;
    if (its.verdict == Verdict::kRight) its = cell;
    return;
  }
  cells_.push_back(std::move(cell));
}

void Table::Add(const std::string& memory, const std::string& order, const std::string& what,
                const std::string& wrong) {
  Put({memory, order, what, wrong.empty() ? Verdict::kRight : Verdict::kWrong, wrong});
}

void Table::AddMissing(const std::string& memory, const std::string& order, const std::string& what,
                       const std::string& why) {
  Put({memory, order, what, Verdict::kMissing, why});
}

size_t Table::count(Verdict verdict) const {
  return static_cast<size_t>(std::count_if(
      cells_.begin(), cells_.end(), [&](const Cell& cell) { return cell.verdict == verdict; }));
}

void Table::PrintText() const {
  std::printf("| memory | order of calls |");
  for (const char* const name : kColumns) std::printf(" %s |", name);
  std::printf("\n|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < cells_.size();) {
    const Cell& first = cells_[i];
    Column columns[std::size(kColumns)];
    for (; i < cells_.size(); ++i) {
      const Cell& cell = cells_[i];
      if (cell.memory != first.memory || cell.order != first.order) break;
      columns[ColumnOf(cell)].Add(cell);
    }
    std::printf("| %s | %s |", first.memory.c_str(), first.order.c_str());
    for (const Column& column : columns) std::printf(" %s |", column.text().c_str());
    std::printf("\n");
  }
  std::printf("%zu right, %zu wrong, %zu missing\n", count(Verdict::kRight), count(Verdict::kWrong),
              count(Verdict::kMissing));
}

void Table::WriteJson(std::FILE* file) const {
  std::fprintf(file, "[");
  const char* separator = "";
  for (const Cell& cell : cells_) {
    std::fprintf(file, "%s\n{\"memory\":%s,\"order\":%s,\"what\":%s,\"verdict\":%s,\"why\":%s}",
                 separator, Quoted(cell.memory).c_str(), Quoted(cell.order).c_str(),
                 Quoted(cell.what).c_str(), Quoted(NameOf(cell.verdict)).c_str(),
                 Quoted(cell.why).c_str());
    separator = ",";
  }
  std::fprintf(file, "\n]\n");
}

}  // namespace uroce::memory_kinds
