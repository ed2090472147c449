// SPDX-License-Identifier: Apache-2.0
// Writes scripts of good programs, and the parts that several of them have.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "tests/fuzz/program/program_script.h"

namespace uroce::fuzz {

inline constexpr uint64_t kBytes = 64 << 10;
inline constexpr uint32_t kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr uint32_t kDepth = 8;  // Granted to a program that asks for one less.

class Script {
 public:
  template <typename T>
  Script& Call(uint32_t command, const T& body) {
    static_assert(sizeof(T) % 4 == 0);
    bytes_.push_back(static_cast<uint8_t>(command));
    bytes_.push_back(sizeof(T) / 4);
    return Add(&body, sizeof(T));
  }
  Script& Call(uint32_t command) {
    bytes_.push_back(static_cast<uint8_t>(command));
    bytes_.push_back(0);
    return *this;
  }
  Script& Handle(uint32_t command, uint32_t handle) {
    return Call(command, uroce_handle{handle, 0});
  }
  template <typename T>
  Script& Memory(uint32_t offset, const T& value) {
    bytes_.push_back(kMemory);
    Add(&offset, 3);
    bytes_.push_back(sizeof(T));
    return Add(&value, sizeof(T));
  }
  Script& Short(Record kind, uint32_t value, size_t width) {
    bytes_.push_back(kind);
    return Add(&value, width);
  }
  Script& Other() {
    bytes_.push_back(kOther);
    return *this;
  }
  Script& Then(const std::vector<uint8_t>& other) { return Add(other.data(), other.size()); }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  Script& Add(const void* data, size_t count) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), bytes, bytes + count);
    return *this;
  }
  std::vector<uint8_t> bytes_;
};

/// Connects a queue pair of the present program to one that is at 10.0.0.`peer_host`.
void Connect(Script& script, uint32_t qp, uint8_t peer_host, uint32_t peer_qpn);
/// Registers a segment's memory.
void Register(Script& script, uint32_t pd, uint32_t segment);
/// Registers memory that has no segment.
void RegisterCopied(Script& script, uint32_t pd);
/// Lends a file as the program's memory (program_script.cc has the kinds).
void LendMemory(Script& script, uint32_t kind);
/// Writes a send request of the n-th queue pair of MadeProgram to its slot, and rings the doorbell.
/// `rkey`: 0 stands for the peer's.
void PostSend(Script& script, uint32_t qp, uint32_t index, uroce_send_wqe wqe, uint32_t length,
              uint32_t rkey = 0);

/// Programs of several contexts, and programs that share some (context_seeds.cc).
std::vector<std::vector<uint8_t>> ContextScripts();

}  // namespace uroce::fuzz
