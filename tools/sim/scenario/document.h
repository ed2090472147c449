// SPDX-License-Identifier: Apache-2.0
// A TOML file as values with their lines, and readers of its tables that collect the first error:
// one line with file, line and key.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pipeline/base/types.h"

namespace uroce::tools::sim {

/// A value of a TOML file.
struct Node {
  struct Field;
  enum class Kind : uint8_t { kText, kNumber, kFlag, kList, kTable };
  Kind kind = Kind::kTable;
  uint32_t line = 0;
  std::string text;     ///< kText, and the spelling of kNumber.
  bool is_set = false;  ///< kFlag.
  std::vector<Node> items;
  std::vector<Field> fields;  ///< kTable, in the order of the file.

  const Node* Find(absl::string_view key) const;
};

struct Node::Field {
  std::string key;
  Node value;
};

/// Parses TOML. Errors: kInvalidArgument, "file:line: what is wrong".
absl::StatusOr<Node> ParseDocument(const std::string& text, const std::string& file);

/// Sets the value at a path such as "switch.ecn" or "workload.0.senders"; tables that are missing
/// are made. `value` is TOML, or otherwise a text. Errors: a part of the path is no table.
absl::Status SetValue(Node& document, const std::string& path, const std::string& value);

/// The first error of a document. Later ones are dropped.
class Errors {
 public:
  explicit Errors(std::string file) : file_(std::move(file)) {}
  void Add(uint32_t line, absl::string_view key, absl::string_view what);
  const absl::Status& status() const { return status_; }
  const std::string& file() const { return file_; }

 private:
  const std::string file_;
  absl::Status status_;
};

/// Reads a table. Each read returns `usual` where the key is missing or wrong. Finish refuses the
/// keys that were not read. `errors` and the node outlive it.
class Section {
 public:
  Section(const Node& node, std::string name, Errors& errors)
      : node_(node), name_(std::move(name)), errors_(errors) {}

  bool Has(absl::string_view key) const { return node_.Find(key) != nullptr; }
  bool IsTable(absl::string_view key) const {
    const Node* const node = node_.Find(key);
    return node != nullptr && node->kind == Node::Kind::kTable;
  }
  std::string Text(const char* key, const std::string& usual = "");
  /// One of `words`: its index.
  uint32_t Choice(const char* key, const std::vector<std::string>& words, uint32_t usual = 0);
  bool Flag(const char* key, bool usual);
  /// A whole number, or a text such as "4K": K, M and G are powers of 1000.
  uint64_t Amount(const char* key, uint64_t usual, uint64_t least, uint64_t most);
  uint32_t Count(const char* key, uint32_t usual, uint32_t least, uint32_t most) {
    return static_cast<uint32_t>(Amount(key, usual, least, most));
  }
  double Number(const char* key, double usual, double least, double most);
  /// A text with its unit, such as "10us".
  Nanos Time(const char* key, Nanos usual, Nanos most = Nanos(3'600'000'000'000));
  /// A text, or a list of texts.
  std::vector<std::string> Words(const char* key);

  /// The table `key`; without one an empty one.
  Section Table(const char* key);
  /// The tables [[key]].
  std::vector<Section> Tables(const char* key);
  /// The keys and values of this table, which count as read.
  std::vector<std::pair<std::string, std::string>> All();

  void Fail(absl::string_view key, absl::string_view what);
  /// Complains of keys that were not read.
  void Finish();
  const std::string& name() const { return name_; }
  const Errors& errors() const { return errors_; }

 private:
  const Node* Read(absl::string_view key);

  const Node& node_;
  const std::string name_;
  Errors& errors_;
  std::set<std::string> read_;
};

}  // namespace uroce::tools::sim
