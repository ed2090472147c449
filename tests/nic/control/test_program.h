// SPDX-License-Identifier: Apache-2.0
// A daemon with two NICs on an in-process wire, 10.0.0.1 and 10.0.0.2, and programs that talk to it
// by commands alone.
#pragma once

#include <infiniband/verbs.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nic/net/address.h"
#include "tests/nic/control/client.h"

namespace uroce::nic {

using Json = nlohmann::json;

/// Of the one daemon of this process, which runs as long as the tests do.
const std::string& SocketPath();

/// A program with a context of one device, a PD and a CQ.
struct TestProgram {
  explicit TestProgram(uint32_t device = 0) : client(SocketPath()) {
    hello = client.Hello();
    context = client.Call(UROCE_OPEN_CONTEXT, uroce_open_context{device, 0}).handle();
    pd = client.Handle(UROCE_ALLOC_PD, context).handle();
    cq = MakeCq().handle();
  }
  Answer MakeCq(uint32_t cqe = 16, uint32_t channel = UROCE_NONE) {
    return client.Call(UROCE_CREATE_CQ, uroce_create_cq{context, cqe, 0x1234, channel, 0});
  }
  Answer MakeQp(uroce_qp_cap cap = {16, 16, 1, 1, 0}, uint32_t type = IBV_QPT_RC,
                std::optional<uint32_t> srq = std::nullopt) {
    return client.Call(UROCE_CREATE_QP, uroce_create_qp{pd, type, cq, cq, 0x77, 0, cap,
                                                        srq ? 1u : 0, srq.value_or(0)});
  }
  Answer MakeSrq(uint32_t max_wr, uint32_t max_sge = 1, uint32_t limit = 0) {
    return client.Call(UROCE_CREATE_SRQ,
                       uroce_create_srq{pd, max_wr, max_sge, limit, 0x99, 0, 0, 0, 0});
  }
  Answer Register(const uroce_reg_mr& request, const std::vector<uroce_mr_segment>& segments) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(segments.data());
    return client.Call(UROCE_REG_MR, request,
                       {bytes, bytes + segments.size() * sizeof(uroce_mr_segment)});
  }
  Answer RegisterMapped(uint64_t addr, uint64_t length, uint32_t segment, uint32_t access = 7) {
    return Register({pd, access, addr, length, addr, 1, UROCE_NONE},
                    {{addr, length, UROCE_MR_MAPPED, segment, 0, 0, 0}});
  }
  Answer Modify(uint32_t qp, uroce_qp_attr attr) {
    return client.Call(UROCE_MODIFY_QP, uroce_modify_qp{qp, attr});
  }

  ControlClient client;
  Answer hello;
  uint32_t context = 0, pd = 0, cq = 0;
};

/// What a tool is told; `what`: UROCE_DUMP_*.
Json Dump(uint32_t what);

/// Attributes that bring a queue pair from each state to the next.
uroce_qp_attr ToInit();
uroce_qp_attr ToRtr(const Gid& dgid, uint8_t sgid_index);
uroce_qp_attr ToRts();

/// Of an address in words.
Gid GidOf(const char* text);

}  // namespace uroce::nic
