// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/page/page.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace uroce::tools::analyze {

// Made by the build, which embeds page.css, page.html and page.js (embed.py).
extern const char kPageStyle[];
extern const char kPageBody[];
extern const char kPageScript[];

absl::StatusOr<std::string> PageOf(const std::string& json, const std::string& library_path) {
  std::ifstream file(library_path, std::ios::binary);
  std::ostringstream library;
  if (!file || !(library << file.rdbuf())) {
    return absl::InvalidArgumentError(
        absl::StrCat("--html: ", library_path, ": ", strerror(errno),
                     " (the library d3: apt-get install libjs-d3, or name it by --d3)"));
  }
  // "</" in a string would end the element.
  const std::string data = absl::StrReplaceAll(json, {{"</", "<\\/"}});
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<title>uroce analyze</title>\n<style>\n",
      kPageStyle, "</style>\n</head>\n<body>\n", kPageBody,
      "<script type=\"application/json\" id=\"report\">", data,
      "</script>\n<!-- d3, Copyright Michael Bostock, BSD 3-Clause: https://d3js.org -->\n<script>",
      library.str(), "</script>\n<script>\n", kPageScript, "</script>\n</body>\n</html>\n");
}

}  // namespace uroce::tools::analyze
