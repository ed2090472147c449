// SPDX-License-Identifier: Apache-2.0
// One end of a reliable connection: a device of verbs, and what programs do with it.
#pragma once

#include <infiniband/verbs.h>

#include <string>

namespace uroce::memory_kinds {

/// What the other end must know.
struct EndInfo {
  uint32_t qpn;
  uint32_t rkey;
  uint64_t address;
  ibv_gid gid;
};

class End {
 public:
  static constexpr uint32_t kDepth = 64;

  /// Ends the program with status 2 if the device is missing.
  explicit End(const char* name);
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  /// Without the address and the rkey of memory.
  EndInfo info() const;
  /// Connects, also again. `timeout` is 4.096 us * 2^timeout.
  void Connect(const EndInfo& peer, uint8_t timeout);
  /// Makes another queue pair in place of this one; completions of the former are dropped.
  void Reset();

  /// Registers with all rights; null: errno says why.
  ibv_mr* Register(uint64_t address, size_t bytes);
  /// A DMA-buf, whose bytes lie at `address` for the program.
  ibv_mr* RegisterDmabuf(uint64_t address, size_t bytes, int fd);

  /// Posts, signaled. Returns "" or what failed.
  std::string Post(ibv_send_wr& request);
  /// Between `local` and bytes of the peer.
  std::string PostOneSided(ibv_wr_opcode opcode, ibv_sge local, uint64_t remote, uint32_t rkey);
  bool Receive(ibv_recv_wr& receive);
  /// Waits for the next completion. Returns "" or its status.
  std::string Await();

 private:
  void MakeQueuePair();

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_gid gid_ = {};
  int gid_index_ = 0;
};

}  // namespace uroce::memory_kinds
