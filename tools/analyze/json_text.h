// SPDX-License-Identifier: Apache-2.0
// Writes JSON into a text, member by member: no tree of it is in memory, whose many small pieces
// take longer to allocate and to free than the text takes to write.
#pragma once

#include <concepts>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace uroce::tools::analyze {

/// The caller closes what it opens. Names of members need no escapes.
class JsonText {
 public:
  JsonText& Open(char bracket) {
    Separate();
    text_.push_back(bracket);
    return *this;
  }
  JsonText& Close(char bracket) {
    text_.push_back(bracket);
    return *this;
  }
  JsonText& Name(absl::string_view name) {
    Separate();
    absl::StrAppend(&text_, "\"", name, "\":");
    return *this;
  }
  template <std::integral Number>
  JsonText& Value(Number value) {
    Separate();
    if constexpr (std::same_as<Number, bool>) {
      text_.append(value ? "true" : "false");
    } else {
      absl::StrAppend(&text_, value);
    }
    return *this;
  }
  JsonText& Value(absl::string_view value);
  JsonText& Null() {
    Separate();
    text_.append("null");
    return *this;
  }
  template <typename T>
  JsonText& Member(absl::string_view name, const T& value) {
    return Name(name).Value(value);
  }
  /// Each element of `list` is a value.
  template <typename List>
  JsonText& Array(absl::string_view name, const List& list) {
    Name(name).Open('[');
    for (const auto& one : list) Value(one);
    return Close(']');
  }

  const std::string& text() const { return text_; }
  /// Keeps the memory for the next text.
  void Clear() { text_.clear(); }

 private:
  /// A comma between two members or elements.
  void Separate() {
    if (text_.empty()) return;
    const char last = text_.back();
    if (last != '{' && last != '[' && last != ':') text_.push_back(',');
  }

  std::string text_;
};

}  // namespace uroce::tools::analyze
