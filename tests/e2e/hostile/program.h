// SPDX-License-Identifier: Apache-2.0
// A program that has all it needs to do harm: objects of every kind, and the memory it shares with
// the daemon.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/nic/control_client.h"

namespace uroce::hostile {

using Random = std::mt19937_64;

/// 0 to limit - 1.
inline uint64_t Below(Random& random, uint64_t limit) { return random() % limit; }

/// One queue pair as its program knows it.
struct QueuePair {
  uroce_create_qp_reply layout{};
  uint32_t posted = 0;
};

class Program {
 public:
  Program(const std::string& socket_path, Random& random);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// False: the daemon refused something that it should grant.
  bool Make();

  nic::ControlClient client;
  nic::Answer hello;
  uint8_t* arena = nullptr;
  std::vector<nic::Fd> files;  ///< Segments, pipes.
  std::vector<uint32_t> contexts, pds, cqs, channels, segments;
  std::vector<uroce_reg_mr_reply> regions;
  std::vector<QueuePair> queue_pairs;
  int lend_socket() const { return hello.fds.at(2).get(); }
  int wake_fd() const { return hello.fds.at(1).get(); }
  uroce_doorbells* doorbells() const {
    return reinterpret_cast<uroce_doorbells*>(arena + UROCE_DOORBELLS_OFFSET);
  }

 private:
  bool MakeContext(uint32_t device);
  bool MakeQueuePair(uint32_t device);
  bool MakeRegion(uint32_t device);
  /// Connects two of its own, on the two devices.
  bool Connect(const QueuePair& from, const QueuePair& to, uint32_t from_device);

  Random& random_;
};

}  // namespace uroce::hostile
