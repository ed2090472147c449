// SPDX-License-Identifier: Apache-2.0
// Writes what the fuzzers of the core begin with: the conversations of the golden captures, a
// folder a target, and their records as a dictionary. usage: core_corpus FOLDER
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/fuzz/core_script.h"
#include "tests/golden/conversation.h"

namespace uroce::sim {
namespace {

namespace fs = std::filesystem;
using Script = std::vector<CoreRecord>;

std::string BytesOf(const Script& script) {
  return {reinterpret_cast<const char*>(script.data()), script.size() * sizeof(CoreRecord)};
}

class Corpus {
 public:
  explicit Corpus(fs::path folder) : folder_(std::move(folder)) {}

  void Add(const char* target, const std::string& name, const Script& script) {
    fs::create_directories(folder_ / target);
    std::ofstream(folder_ / target / name, std::ios::binary) << BytesOf(script);
    for (const CoreRecord& record : script) words_.insert(BytesOf({record}));
  }
  void WriteDictionary() const {
    std::ofstream file(folder_ / "core.dict");
    for (const std::string& word : words_) {
      file << '"';
      for (const char byte : word) {
        char text[5];
        std::snprintf(text, sizeof text, "\\x%02x", static_cast<unsigned char>(byte));
        file << text;
      }
      file << "\"\n";
    }
  }

 private:
  fs::path folder_;
  std::set<std::string> words_;
};

void Write(const fs::path& folder) {
  Corpus corpus(folder);
  for (const char* capture : kGoldenCaptures) {
    const Conversations connections(UROCE_GOLDEN_DIR, capture);
    for (const Conversation& conversation : connections.all()) {
      corpus.Add("requester", conversation.name, ScriptOfRequester(conversation));
      corpus.Add("responder", conversation.name, ScriptOfReceiver(conversation));
    }
    for (const auto& [target, service] :
         {std::pair("uc", wire::Service::kUc), std::pair("ud", wire::Service::kUd)}) {
      const Conversations others(UROCE_GOLDEN_DIR, capture, service);
      for (const Conversation& conversation : others.all()) {
        corpus.Add(target, conversation.name, ScriptOfReceiver(conversation));
      }
    }
  }
  corpus.WriteDictionary();
}

}  // namespace
}  // namespace uroce::sim

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: core_corpus FOLDER\n");
    return 2;
  }
  uroce::sim::Write(argv[1]);
  return 0;
}
