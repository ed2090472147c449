// SPDX-License-Identifier: Apache-2.0
// The two halves of the table, and what they share.
#pragma once

#include <memory>
#include <string>

#include "tests/gpu/memory_kinds/network.h"
#include "tests/gpu/memory_kinds/table.h"
#include "tests/gpu/verbs/api.h"

namespace uroce::memory_kinds {

/// Memory of the peer, end 1: ordinary, and registered.
class Peer {
 public:
  Peer(Network& network, size_t bytes);
  Place place(size_t offset = 0) const;
  Bytes Read(size_t offset, size_t length) const;
  void Write(size_t offset, const Bytes& bytes) const;

 private:
  uint64_t address_;
  ibv_mr* mr_;
};

/// What the tests work with.
struct Bench {
  Network& network;
  Table& table;
  const Peer& peer;
  bool is_lossy = false;  ///< The network loses packets.
  uint64_t number = 0;    ///< Of the newest pattern.

  Bytes NextPattern(size_t length) { return Pattern(length, ++number); }
};

/// Moves a pattern out of `place` of end 0 and another one into it. `by` writes and reads there.
/// Returns "" or what is wrong.
std::string CheckOut(Bench& bench, Verb verb, By by, Place place, size_t length, bool is_device);
std::string CheckIn(Bench& bench, Verb verb, By by, Place place, size_t length, bool is_device);
/// How bytes differ from what they should be; "" where they do not.
std::string Difference(const Bytes& got, const Bytes& wanted);

/// Memory of the host: kinds, orders of calls, and who reads and writes.
void TestHostMemory(Bench& bench);
/// Memory of devices.
void TestDeviceMemory(Bench& bench, const char* self);
/// The other process of an import: has memory with a pattern, whose handle it prints. Ends when its
/// standard input does.
int ExportMemory();

}  // namespace uroce::memory_kinds
