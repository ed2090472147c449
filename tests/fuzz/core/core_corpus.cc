// SPDX-License-Identifier: Apache-2.0
// Writes the first inputs of the core's fuzzers, one folder for each target: the conversations of
// the golden captures, with their records as a dictionary; their frames; and the messages of
// connection managers among them. usage: core_corpus FOLDER
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/fuzz/core/core_script.h"
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

  void AddBytes(const char* target, const std::string& name, const std::string& bytes) {
    fs::create_directories(folder_ / target);
    std::ofstream(folder_ / target / name, std::ios::binary) << bytes;
  }
  void Add(const char* target, const std::string& name, const Script& script) {
    AddBytes(target, name, BytesOf(script));
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

std::string TextOf(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void AddFrames(const std::string& capture, Corpus& corpus) {
  int number = 0;
  for (const std::vector<uint8_t>& frame : ReadCapture(UROCE_GOLDEN_DIR "/" + capture + ".pcap")) {
    const std::string name = capture + " frame " + std::to_string(++number);
    corpus.AddBytes("decode", name, TextOf(frame));
    wire::Packet packet;
    wire::FrameView view;
    if (wire::Decode(frame, packet, view) != wire::DecodeResult::kOk) continue;
    if (packet.header.dest_qpn == Qpn(1)) corpus.AddBytes("cm", name, TextOf(packet.payload));
  }
}

void Write(const fs::path& folder) {
  Corpus corpus(folder);
  for (const char* capture : kGoldenCaptures) {
    AddFrames(capture, corpus);
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
