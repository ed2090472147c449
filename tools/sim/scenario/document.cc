// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/scenario/document.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "pipeline/os/amount.h"
#include "pipeline/os/suggestion.h"

namespace uroce::tools::sim {
namespace {

std::string Spelling(const toml::node& node) {
  std::ostringstream text;
  if (const auto* integer = node.as_integer()) text << integer->get();
  if (const auto* number = node.as_floating_point()) text << number->get();
  return text.str();
}

Node NodeOf(const toml::node& from) {
  Node node{.line = from.source().begin.line, .text = {}, .items = {}, .fields = {}};
  if (const auto* table = from.as_table()) {
    for (const auto& [key, value] : *table) {
      node.fields.push_back({std::string(key.str()), NodeOf(value)});
      node.fields.back().value.line = key.source().begin.line;
    }
    // toml++ sorts its keys.
    std::ranges::stable_sort(node.fields, {}, [](const auto& field) { return field.value.line; });
  } else if (const auto* array = from.as_array()) {
    node.kind = Node::Kind::kList;
    for (const toml::node& item : *array) node.items.push_back(NodeOf(item));
  } else if (const auto* text = from.as_string()) {
    node.kind = Node::Kind::kText;
    node.text = text->get();
  } else if (const auto* flag = from.as_boolean()) {
    node.kind = Node::Kind::kFlag;
    node.is_set = flag->get();
  } else {
    node.kind = Node::Kind::kNumber;
    node.text = Spelling(from);
  }
  return node;
}

}  // namespace

const Node* Node::Find(absl::string_view key) const {
  const auto found =
      std::ranges::find_if(fields, [&](const auto& field) { return field.key == key; });
  return found == fields.end() ? nullptr : &found->value;
}

absl::StatusOr<Node> ParseDocument(const std::string& text, const std::string& file) {
  try {
    return NodeOf(toml::parse(text));
  } catch (const toml::parse_error& error) {  // The library reports errors only in this way.
    return absl::InvalidArgumentError(
        absl::StrCat(file, ":", error.source().begin.line, ": ", std::string(error.description())));
  }
}

absl::Status SetValue(Node& document, const std::string& path, const std::string& value) {
  Node* at = &document;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(path, '.'))) {
    uint32_t index = 0;
    if (at->kind == Node::Kind::kList) {
      if (!absl::SimpleAtoi(part, &index) || index >= at->items.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": \"", part, "\" is no number below ", at->items.size()));
      }
      at = &at->items[index];
      continue;
    }
    if (at->kind != Node::Kind::kTable) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": \"", part, "\" is in no table"));
    }
    if (at->Find(part) == nullptr) at->fields.push_back({part, Node{}});
    at = const_cast<Node*>(at->Find(part));
  }
  const absl::StatusOr<Node> parsed = ParseDocument("value = " + value, path);
  const uint32_t line = at->line;
  *at = parsed.ok() ? *parsed->Find("value")
                    : Node{.kind = Node::Kind::kText, .text = value, .items = {}, .fields = {}};
  at->line = line;
  return absl::OkStatus();
}

void Errors::Add(uint32_t line, absl::string_view key, absl::string_view what) {
  if (!status_.ok()) return;
  const std::string place = line == 0 ? file_ : absl::StrCat(file_, ":", line);
  status_ = absl::InvalidArgumentError(absl::StrCat(place, ": ", key, ": ", what));
}

// ---- reading ----

const Node* Section::Read(absl::string_view key) {
  read_.insert(std::string(key));
  return node_.Find(key);
}

void Section::Fail(absl::string_view key, absl::string_view what) {
  const Node* const node = node_.Find(key);
  const std::string path = name_.empty() ? std::string(key)
                           : key.empty() ? name_
                                         : absl::StrCat(name_, ".", key);
  errors_.Add(node == nullptr ? node_.line : node->line, path, what);
}

std::string Section::Text(const char* key, const std::string& usual) {
  const Node* const node = Read(key);
  if (node == nullptr) return usual;
  if (node->kind == Node::Kind::kText || node->kind == Node::Kind::kNumber) return node->text;
  Fail(key, "must be a text");
  return usual;
}

uint32_t Section::Choice(const char* key, const std::vector<std::string>& words, uint32_t usual) {
  if (Read(key) == nullptr) return usual;
  const std::string text = Text(key);
  const auto found = std::ranges::find(words, text);
  if (found != words.end()) return static_cast<uint32_t>(found - words.begin());
  Fail(key, absl::StrCat("\"", text, "\" is none of ", absl::StrJoin(words, ", "),
                         Suggestion(text, words)));
  return usual;
}

bool Section::Flag(const char* key, bool usual) {
  const Node* const node = Read(key);
  if (node == nullptr) return usual;
  if (node->kind == Node::Kind::kFlag) return node->is_set;
  Fail(key, "must be true or false");
  return usual;
}

uint64_t Section::Amount(const char* key, uint64_t usual, uint64_t least, uint64_t most) {
  if (Read(key) == nullptr) return usual;
  const auto amount = ParseAmount(Text(key));
  if (amount && *amount >= least && *amount <= most) return *amount;
  Fail(key, absl::StrCat("\"", Text(key), "\" is no number from ", least, " to ", most,
                         ", with K, M or G behind it if you like"));
  return usual;
}

double Section::Number(const char* key, double usual, double least, double most) {
  if (Read(key) == nullptr) return usual;
  std::string text = Text(key);
  double number = 0, unit = 1;
  if (!text.empty() && text.back() == '%') {
    text.pop_back();
    unit = 0.01;
  }
  if (absl::SimpleAtod(text, &number) && number * unit >= least && number * unit <= most) {
    return number * unit;
  }
  Fail(key, absl::StrCat("\"", Text(key), "\" is no number from ", least, " to ", most));
  return usual;
}

Nanos Section::Time(const char* key, Nanos usual, Nanos most) {
  if (Read(key) == nullptr) return usual;
  absl::Duration time;
  if (absl::ParseDuration(Text(key), &time) && time >= absl::ZeroDuration() &&
      time <= absl::Nanoseconds(most.count())) {
    return Nanos(absl::ToInt64Nanoseconds(time));
  }
  Fail(key,
       absl::StrCat("\"", Text(key), "\" is no time with its unit from 0s to ",
                    absl::FormatDuration(absl::Nanoseconds(most.count())), ", for example 10us"));
  return usual;
}

std::vector<std::string> Section::Words(const char* key) {
  const Node* const node = Read(key);
  if (node == nullptr) return {};
  if (node->kind == Node::Kind::kText) return {node->text};
  std::vector<std::string> words;
  for (const Node& item : node->items) {
    if (item.kind == Node::Kind::kText) words.push_back(item.text);
  }
  if (node->kind == Node::Kind::kList && words.size() == node->items.size()) return words;
  Fail(key, "must be a text or a list of texts");
  return {};
}

Section Section::Table(const char* key) {
  static const Node kEmpty{};
  const Node* const node = Read(key);
  const std::string name = name_.empty() ? key : absl::StrCat(name_, ".", key);
  if (node == nullptr) return Section(kEmpty, name, errors_);
  if (node->kind != Node::Kind::kTable) Fail(key, absl::StrCat("must be a table [", name, "]"));
  return Section(*node, name, errors_);
}

std::vector<Section> Section::Tables(const char* key) {
  const Node* const node = Read(key);
  std::vector<Section> sections;
  if (node == nullptr) return sections;
  const bool is_list = node->kind == Node::Kind::kList;
  if (!is_list) Fail(key, absl::StrCat("must be written as [[", key, "]]"));
  for (const Node& item : node->items) {
    if (item.kind != Node::Kind::kTable) {
      Fail(key, absl::StrCat("must be written as [[", key, "]]"));
      break;
    }
    sections.emplace_back(item, name_.empty() ? key : absl::StrCat(name_, ".", key), errors_);
  }
  return sections;
}

std::vector<std::pair<std::string, std::string>> Section::All() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [key, value] : node_.fields) all.emplace_back(key, Text(key.c_str()));
  return all;
}

void Section::Finish() {
  for (const auto& [key, value] : node_.fields) {
    if (read_.contains(key)) continue;
    const std::vector<std::string> known(read_.begin(), read_.end());
    return Fail(key, absl::StrCat("unknown key", Suggestion(key, known)));
  }
}

}  // namespace uroce::tools::sim
