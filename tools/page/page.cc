// SPDX-License-Identifier: Apache-2.0
#include "tools/page/page.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace uroce::tools {

// Made by the build, which embeds page.css and graphs.js (tools/embed.py).
extern const char kPageStyle[];
extern const char kGraphsScript[];

namespace {

constexpr char kLibraryPath[] = "/usr/share/javascript/d3/d3.min.js";

}  // namespace

absl::StatusOr<std::string> PageOf(const PageParts& parts, const std::string& json,
                                   const std::string& library_path) {
  const std::string path = library_path.empty() ? kLibraryPath : library_path;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream library;
  if (!file || !(library << file.rdbuf())) {
    return absl::InvalidArgumentError(
        absl::StrCat("--html: ", path, ": ", strerror(errno),
                     " (the library d3: apt-get install libjs-d3, or name it by --d3)"));
  }
  // In a string "</script" would end the element, and "<!--<script" hide its end.
  const std::string data = absl::StrReplaceAll(json, {{"<", "\\u003c"}});
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>", parts.title,
      "</title>\n<style>\n", kPageStyle, parts.style, "</style>\n</head>\n<body>\n", parts.body,
      "<script type=\"application/json\" id=\"report\">", data,
      "</script>\n<!-- d3, Copyright Michael Bostock, BSD 3-Clause: https://d3js.org -->\n<script>",
      library.str(), "</script>\n<script>\n", kGraphsScript, "</script>\n<script>\n", parts.script,
      "</script>\n</body>\n</html>\n");
}

absl::Status WritePage(const PageParts& parts, const std::string& json,
                       const std::string& library_path, const std::string& file) {
  const absl::StatusOr<std::string> page = PageOf(parts, json, library_path);
  if (!page.ok()) return page.status();
  std::ofstream stream(file, std::ios::binary);
  if (stream << *page && stream.flush()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", strerror(errno)));
}

}  // namespace uroce::tools
