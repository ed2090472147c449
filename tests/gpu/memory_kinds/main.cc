// SPDX-License-Identifier: Apache-2.0
// Tests every kind of memory of a program with a GPU, under `uroce run`: each cell by content.
// Usage: memory_kinds [--devices A,B] [--json FILE] [--only host|device] [--lossy]
// --lossy: the network loses packets, among them the only answer to a request that is refused.
// Exit status 1: a cell is wrong. 2: something is missing, and no cell was tested. 3: no GPU.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/gpu/memory_kinds/tests.h"

namespace uroce::memory_kinds {
namespace {

constexpr size_t kPeerBytes = 64 << 20;
constexpr int kNoGpu = 3;

struct Options {
  std::string devices[2] = {"uroce0", "uroce1"};
  const char* json = nullptr;
  std::string only;
  bool exports = false;
  bool is_lossy = false;
};

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (flag == "--export") {
      options.exports = true;
      continue;
    }
    if (flag == "--lossy") {
      options.is_lossy = true;
      continue;
    }
    if (value == nullptr) return false;
    ++i;
    if (flag == "--json") {
      options.json = value;
    } else if (flag == "--only") {
      options.only = value;
    } else if (flag == "--devices" && std::strchr(value, ',') != nullptr) {
      options.devices[0].assign(value, std::strchr(value, ','));
      options.devices[1] = std::strchr(value, ',') + 1;
    } else {
      return false;
    }
  }
  return true;
}

int Run(const Options& options, const char* self) {
  Network network(options.devices[0].c_str(), options.devices[1].c_str());
  const Peer peer(network, kPeerBytes);
  Table table;
  Bench bench{network, table, peer, options.is_lossy};
  if (options.only != "device") TestHostMemory(bench);
  if (options.only != "host") TestDeviceMemory(bench, self);
  table.PrintText();
  if (options.json != nullptr) {
    std::FILE* const file = std::fopen(options.json, "w");
    if (file == nullptr) return 2;
    table.WriteJson(file);
    std::fclose(file);
  }
  return table.count(Verdict::kWrong) == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: memory_kinds [--devices A,B] [--json FILE] [--only PART] [--lossy]\n");
    return 2;
  }
  const std::string missing = LoadApi();
  if (!missing.empty()) {
    std::printf("no GPU: %s\n", missing.c_str());
    return kNoGpu;
  }
  return options.exports ? ExportMemory() : Run(options, "/proc/self/exe");
}

}  // namespace

// ---- What the tests share ----

Peer::Peer(Network& network, size_t bytes)
    : address_(reinterpret_cast<uint64_t>(new uint8_t[bytes]())),
      mr_(network.Register(1, address_, bytes)) {
  if (mr_ == nullptr) {
    std::perror("ibv_reg_mr of the peer");
    std::exit(2);
  }
}

Place Peer::place(size_t offset) const { return {mr_, address_ + offset}; }

Bytes Peer::Read(size_t offset, size_t length) const {
  return ReadBytes(By::kCpu, address_ + offset, length, false);
}

void Peer::Write(size_t offset, const Bytes& bytes) const {
  WriteBytes(By::kCpu, address_ + offset, bytes, false);
}

std::string Difference(const Bytes& got, const Bytes& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i >= got.size() || got[i] != wanted[i]) {
      return "byte " + std::to_string(i) + " of " + std::to_string(wanted.size());
    }
  }
  return "";
}

std::string CheckOut(Bench& bench, Verb verb, By by, Place place, size_t length, bool is_device) {
  const Bytes pattern = bench.NextPattern(length);
  WriteBytes(by, place.address, pattern, is_device);
  bench.peer.Write(0, Bytes(length, 0));
  const std::string failed =
      bench.network.Move(verb, 0, place, bench.peer.place(), static_cast<uint32_t>(length));
  return failed.empty() ? Difference(bench.peer.Read(0, length), pattern) : failed;
}

std::string CheckIn(Bench& bench, Verb verb, By by, Place place, size_t length, bool is_device) {
  const Bytes pattern = bench.NextPattern(length);
  bench.peer.Write(0, pattern);
  const std::string failed =
      bench.network.Move(verb, 1, bench.peer.place(), place, static_cast<uint32_t>(length));
  if (!failed.empty()) return failed;
  return Difference(ReadBytes(by, place.address, length, is_device), pattern);
}

}  // namespace uroce::memory_kinds

int main(int argc, char** argv) { return uroce::memory_kinds::Main(argc, argv); }
