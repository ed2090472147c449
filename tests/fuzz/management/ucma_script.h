// SPDX-License-Identifier: Apache-2.0
// Invariants of rdma_cm's commands that hold for any bytes: two programs write them, to files that
// are opened and closed, while their hosts exchange messages.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tests/nic/ucma/ucma_bed.h"

namespace uroce::nic::ucma {

/// A script is a sequence of steps: this structure, then the `length` bytes to write.
struct UcmaStep {
  static constexpr uint8_t kServer = 1;  ///< In `what`: the second program takes the step.
  static constexpr uint8_t kRun = 2;     ///< All due work is done before the step.
  static constexpr uint8_t kReopen = 4;  ///< The file is closed and reopened before the step.
  uint8_t what = 0;
  uint8_t file = 0;      ///< Modulo kFiles.
  uint8_t old_file = 0;  ///< Likewise.
  uint8_t length = 0;
};

class UcmaRun {
 public:
  static constexpr uint8_t kFiles = 3;

  UcmaRun() {
    for (UcmaProgram* program : {&client_, &server_}) {
      for (uint8_t file = 0; file < kFiles; ++file) program->files().Open(FileId{file});
    }
  }

  rdma_cm::Network& network() { return network_; }
  /// How many commands were refused.
  int refused() const { return refused_; }
  /// Whether all invariants hold to the script's end.
  bool Holds(std::span<const uint8_t> script) {
    while (script.size() >= sizeof(UcmaStep)) {
      UcmaStep step;
      std::memcpy(&step, script.data(), sizeof(step));
      script = script.subspan(sizeof(step));
      const size_t length = std::min<size_t>(step.length * size_t{2}, script.size());
      if (!HoldsAfter(step, script.first(length))) return false;
      script = script.subspan(length);
    }
    return true;
  }

 private:
  bool HoldsAfter(const UcmaStep& step, std::span<const uint8_t> bytes) {
    UcmaProgram& program = (step.what & UcmaStep::kServer) != 0 ? server_ : client_;
    const FileId file{static_cast<uint32_t>(step.file % kFiles)};
    const FileId old_file{static_cast<uint32_t>(step.old_file % kFiles)};
    if ((step.what & UcmaStep::kRun) != 0) network_.Run();
    if ((step.what & UcmaStep::kReopen) != 0) program.Reopen(file);
    const Answer answer = program.WriteBytes({bytes.begin(), bytes.end()}, file, old_file);
    if (answer.error != 0) ++refused_;
    return FitsRoom(answer, bytes) && SignalsHold(program);
  }

  // An error must give no answer, and no answer may exceed its room.
  static bool FitsRoom(const Answer& answer, std::span<const uint8_t> bytes) {
    if (answer.error != 0) return answer.error > 0 && answer.response.empty();
    rdma_ucm_cmd_hdr header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    return answer.response.size() <= header.out;
  }

  // A file must be readable exactly while events wait, by a signal for each at most.
  static bool SignalsHold(UcmaProgram& program) {
    for (uint8_t file = 0; file < kFiles; ++file) {
      const auto waiting = static_cast<int>(program.files().event_count(FileId{file}));
      const int signals = program.signals(FileId{file});
      if (signals < std::min(waiting, 1) || signals > waiting) return false;
    }
    return true;
  }

  int refused_ = 0;
  rdma_cm::Network network_;
  UcmaProgram client_{network_[0]};
  UcmaProgram server_{network_[1]};
};

/// Builds a script.
class UcmaScript {
 public:
  template <typename Body>
  UcmaScript& Add(uint8_t what, uint32_t number, const Body& body, size_t out = 512) {
    const rdma_ucm_cmd_hdr header{number, sizeof(body), static_cast<uint16_t>(out)};
    const size_t padded = (sizeof(header) + sizeof(body) + 1) / 2 * 2;
    const UcmaStep step{.what = what, .length = static_cast<uint8_t>(padded / 2)};
    Append(&step, sizeof(step));
    Append(&header, sizeof(header));
    Append(&body, sizeof(body));
    bytes_.resize(bytes_.size() + padded - sizeof(header) - sizeof(body));
    return *this;
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  void Append(const void* data, size_t size) {
    const auto* from = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }
  std::vector<uint8_t> bytes_;
};

/// A server that listens, a client that connects to it, and the end of the connection.
inline std::vector<uint8_t> GoodUcmaScript(uint16_t space) {
  constexpr uint8_t kClient = 0, kServer = UcmaStep::kServer, kRun = UcmaStep::kRun;
  constexpr uint16_t kPort = 7471;
  rdma_ucm_create_id create{};
  create.uid = 7;
  create.ps = space;
  create.qp_type = IBV_QPT_RC;
  rdma_ucm_bind bind{};
  bind.id = 1;
  bind.addr_size = sizeof(sockaddr_in);
  bind.addr = Stored<__kernel_sockaddr_storage>(Address(0, kPort));
  rdma_ucm_resolve_addr resolve{};
  resolve.id = 1;
  resolve.timeout_ms = 1000;
  resolve.dst_size = sizeof(sockaddr_in);
  resolve.dst_addr = Stored<__kernel_sockaddr_storage>(Address(2, kPort));
  rdma_ucm_connect connect{};
  connect.id = 1;
  connect.conn_param.valid = 1;
  connect.conn_param.qp_num = 5;
  rdma_ucm_accept accept{};
  accept.id = 2;
  accept.uid = 8;
  accept.conn_param = connect.conn_param;
  rdma_ucm_accept establish{};
  establish.id = 1;
  rdma_ucm_destroy_id destroy{};
  destroy.id = 1;
  const rdma_ucm_get_event get{};
  return UcmaScript()
      .Add(kServer, RDMA_USER_CM_CMD_CREATE_ID, create)
      .Add(kServer, RDMA_USER_CM_CMD_BIND, bind)
      .Add(kServer, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{1, 4})
      .Add(kClient, RDMA_USER_CM_CMD_CREATE_ID, create)
      .Add(kClient, RDMA_USER_CM_CMD_RESOLVE_ADDR, resolve)
      .Add(kClient | kRun, RDMA_USER_CM_CMD_GET_EVENT, get)
      .Add(kClient, RDMA_USER_CM_CMD_QUERY, rdma_ucm_query{0, 1, 0})
      .Add(kClient, RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{1, 1000})
      .Add(kClient | kRun, RDMA_USER_CM_CMD_GET_EVENT, get)
      .Add(kClient, RDMA_USER_CM_CMD_QUERY, rdma_ucm_query{0, 1, 1})
      .Add(kClient, RDMA_USER_CM_CMD_CONNECT, connect)
      .Add(kServer | kRun, RDMA_USER_CM_CMD_GET_EVENT, get)
      .Add(kServer, RDMA_USER_CM_CMD_ACCEPT, accept)
      .Add(kClient | kRun, RDMA_USER_CM_CMD_GET_EVENT, get)
      .Add(kClient, RDMA_USER_CM_CMD_INIT_QP_ATTR, rdma_ucm_init_qp_attr{0, 1, 2})
      .Add(kClient, RDMA_USER_CM_CMD_ACCEPT, establish)
      .Add(kServer | kRun, RDMA_USER_CM_CMD_GET_EVENT, get)
      .Add(kServer, RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{2})
      .Add(kClient | kRun, RDMA_USER_CM_CMD_GET_EVENT, get)
      .Add(kClient, RDMA_USER_CM_CMD_DESTROY_ID, destroy)
      .Add(kServer | kRun, RDMA_USER_CM_CMD_DESTROY_ID, destroy)
      .bytes();
}

}  // namespace uroce::nic::ucma
