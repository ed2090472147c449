// SPDX-License-Identifier: Apache-2.0
// What was found, as a table and as JSON.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace uroce::memory_kinds {

enum class Verdict : uint8_t {
  kRight,
  kWrong,
  kMissing,  ///< The driver or the NIC does not do it. Not counted as right.
};

/// One cell: a kind of memory in one order of calls, and what was done with it.
struct Cell {
  std::string memory;
  std::string order;
  std::string what;
  Verdict verdict = Verdict::kRight;
  std::string why;  ///< Of a cell that is not right.
};

class Table {
 public:
  /// "" as `wrong` is right. A second result for the same cell counts if it is worse.
  void Add(const std::string& memory, const std::string& order, const std::string& what,
           const std::string& wrong);
  void AddMissing(const std::string& memory, const std::string& order, const std::string& what,
                  const std::string& why);
  void PrintText() const;
  void WriteJson(std::FILE* file) const;
  size_t count(Verdict verdict) const;

 private:
  void Put(Cell cell);
  std::vector<Cell> cells_;
};

}  // namespace uroce::memory_kinds
