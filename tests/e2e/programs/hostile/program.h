// SPDX-License-Identifier: Apache-2.0
// A program that has all it needs to do harm: objects of every kind, and the memory it shares with
// the daemon.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/nic/control/client.h"

namespace uroce::hostile {

using Random = std::mt19937_64;

/// 0 to limit - 1.
inline uint64_t Below(Random& random, uint64_t limit) { return random() % limit; }

/// One queue pair as its program knows it.
struct QueuePair {
  uint32_t type = 0;  ///< enum ibv_qp_type
  uroce_create_qp_reply layout{};
  uint32_t posted = 0;
};

constexpr uint32_t kQkey = 0x1234;

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
  std::vector<Fd> files;  ///< Segments, pipes.
  std::vector<uint32_t> contexts, pds, cqs, channels, segments;
  std::vector<uroce_reg_mr_reply> regions;
  std::vector<QueuePair> queue_pairs;
  std::vector<uroce_create_srq_reply> shared_queues;  ///< Of XRC, one on each device.
  std::vector<uint32_t> addresses;                    ///< Handles: from each device to the other.
  // The fds of HELLO: the arena, an eventfd for each worker, the socket on which fds are lent.
  uint32_t workers() const { return static_cast<uint32_t>(hello.fds.size()) - 2; }
  int wake_fd(uint32_t worker) const { return hello.fds.at(1 + worker).get(); }
  int lend_socket() const { return hello.fds.back().get(); }
  uroce_doorbells& doorbells(uint32_t worker) const {
    return reinterpret_cast<uroce_doorbells*>(arena + UROCE_DOORBELLS_OFFSET)[worker];
  }
  /// Rings for the queue pair, and wakes its worker.
  void Ring(const uroce_create_qp_reply& layout) const;
  /// What lies at an offset of the arena.
  template <typename T>
  T& At(uint64_t offset) const {
    return *reinterpret_cast<T*>(arena + offset);
  }

  bool MakeQueuePair(uint32_t device, uint32_t type);
  bool Modify(uint32_t handle, const uroce_qp_attr& attr);
  /// Connects a queue pair of `device` to one on the other device.
  bool Connect(uint32_t handle, uint32_t peer_qpn, uint32_t device, uint8_t timeout = 10);
  /// Posts what is in its next slot, and rings.
  void Post(QueuePair& queue_pair);

 private:
  bool MakeContext(uint32_t device);
  /// A domain with a queue and a target queue pair.
  bool MakeExtended(uint32_t device);
  bool MakeRegion(uint32_t device);
  /// Has datagrams sent and taken.
  bool StartDatagrams(const QueuePair& queue_pair, uint32_t device);
  uroce_ah_attr WayFrom(uint32_t device);

  Random& random_;
  std::vector<uroce_target_reply> targets_;
};

}  // namespace uroce::hostile
