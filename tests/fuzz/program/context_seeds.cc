// SPDX-License-Identifier: Apache-2.0
// Programs whose objects are of several contexts, and programs that import the contexts of others.
#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "tests/fuzz/program/program_script.h"
#include "tests/fuzz/program/seed_script.h"

namespace uroce::fuzz {
namespace {

// Handles that the first program gives after those of MadeProgram.
constexpr uint32_t kContextA = 2;
constexpr uint32_t kContextB = 3;
constexpr uint32_t kPdA = 2;
constexpr uint32_t kPdB = 3;
constexpr uint32_t kCqA = 2;
constexpr uint32_t kCqB = 3;
constexpr uint32_t kChannelA = 0;
constexpr uint32_t kChannelB = 1;

uroce_create_cq CqOf(uint32_t context, uint32_t channel) {
  return {.context = context, .cqe = 15, .user_handle = context, .channel = channel};
}

uroce_create_qp QpOf(uint32_t pd, uint32_t send_cq, uint32_t receive_cq) {
  return {.pd = pd,
          .qp_type = IBV_QPT_RC,
          .send_cq = send_cq,
          .recv_cq = receive_cq,
          .user_handle = 9,
          .cap = {kDepth - 1, kDepth - 1, 2, 2, 64}};
}

/// Two contexts of one device, each with objects of all kinds that others use.
void MakeTwoContexts(Script& script) {
  for (const uint32_t context : {kContextA, kContextB}) {
    script.Call(UROCE_OPEN_CONTEXT, uroce_open_context{0, 0}).Handle(UROCE_ALLOC_PD, context);
    script.Handle(UROCE_CREATE_CHANNEL, context);
    script.Call(UROCE_CREATE_CQ, CqOf(context, context - kContextA));
    script.Call(UROCE_CREATE_SRQ,
                uroce_create_srq{context, 8, 1, 0, context, IBV_SRQT_BASIC, 0, 0, 0});
    script.Call(UROCE_OPEN_XRCD, uroce_open_xrcd{context, UROCE_NONE, 0, 0});
    script.Call(UROCE_CREATE_SRQ, uroce_create_srq{context, 8, 1, 0, context, IBV_SRQT_XRC,
                                                   context - kContextA, context, 0});
    script.Call(UROCE_CREATE_TARGET, uroce_create_target{context - kContextA, 0, 7});
    script.Call(UROCE_CREATE_QP, QpOf(context, context, context));
    script.Call(UROCE_ALLOC_MW, uroce_alloc_mw{context, IBV_MW_TYPE_2});
  }
}

/// Asks for objects of each context that would use objects of the other one, then ends what they
/// would use.
std::vector<uint8_t> UsesOfAnotherContext() {
  Script script;
  MakeTwoContexts(script);
  script.Call(UROCE_CREATE_CQ, CqOf(kContextB, kChannelA));
  script.Call(UROCE_CREATE_CQ, CqOf(kContextA, kChannelB));
  script.Call(UROCE_CREATE_QP, QpOf(kPdA, kCqB, kCqA))
      .Call(UROCE_CREATE_QP, QpOf(kPdB, kCqB, kCqA));
  script.Call(UROCE_CREATE_SRQ, uroce_create_srq{kPdB, 8, 1, 0, 6, IBV_SRQT_XRC, 0, kCqA, 0});
  script.Handle(UROCE_CLOSE_CONTEXT, kContextA).Handle(UROCE_DESTROY_CHANNEL, kChannelA);
  script.Handle(UROCE_DESTROY_QP, 2).Handle(UROCE_DESTROY_CQ, kCqA);
  script.Call(UROCE_CREATE_CQ, CqOf(kContextB, kChannelB)).Short(kTurns, 4, 1);
  return script.Handle(UROCE_CLOSE_CONTEXT, kContextB).bytes();
}

/// Ends objects and contexts while others use them, and connections of both contexts work.
std::vector<uint8_t> EndsInUse() {
  Script script;
  MakeTwoContexts(script);
  PostSend(script, 0, 0, {.opcode = IBV_WR_RDMA_WRITE}, 3000);
  for (const uint32_t handle : {kPdA, kPdB}) script.Handle(UROCE_DEALLOC_PD, handle);
  for (const uint32_t handle : {kCqA, kCqB}) script.Handle(UROCE_DESTROY_CQ, handle);
  for (const uint32_t handle : {kChannelA, kChannelB}) script.Handle(UROCE_DESTROY_CHANNEL, handle);
  for (const uint32_t handle : {0u, 1u}) script.Handle(UROCE_CLOSE_XRCD, handle);
  script.Handle(UROCE_CLOSE_CONTEXT, kContextB).Short(kTurns, 4, 1).Handle(UROCE_CLOSE_CONTEXT, 0);
  script.Call(UROCE_OPEN_CONTEXT, uroce_open_context{0, 0});
  return script.Short(kTurns, 4, 1).Handle(UROCE_CLOSE_CONTEXT, kContextA).bytes();
}

/// The context and domain of the first program, imported by the present one.
void ImportDomain(Script& script, uint32_t context) {
  const uint32_t name[] = {kNameOf,     kNameOf + 1, kNameOf + 2,
                           kNameOf + 3, kNameOf + 4, kNameOf + 5};
  script.Call(UROCE_IMPORT_CONTEXT, name).Call(UROCE_IMPORT_PD, uroce_import{context, 0});
}

/// Another program waits in the domain for what the first one writes by the key of copied memory.
std::vector<uint8_t> SharedDomain() {
  Script script;
  LendMemory(script, 1);
  ImportDomain(script, 2);
  script.Other().Call(UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0});
  ImportDomain(script, 0);
  script.Call(UROCE_CREATE_CQ, uroce_create_cq{0, 31, 0, UROCE_NONE, 0});
  script.Call(UROCE_CREATE_QP,
              uroce_create_qp{0, IBV_QPT_RC, 0, 0, 9, 0, {kDepth - 1, kDepth - 1, 2, 2, 64}});
  Connect(script, 0, 2, kQpnOf + 1);
  script.Other();
  RegisterCopied(script, 2);
  uroce_modify_qp reset{};
  reset.handle = 1;
  reset.attr.attr_mask = IBV_QP_STATE;
  script.Call(UROCE_MODIFY_QP, reset);
  Connect(script, 1, 1, kQpnOf + 2);
  PostSend(script, 1, 0, {.opcode = IBV_WR_RDMA_WRITE}, 64, kKeyOf + 2);
  return script.Short(kTurns, 20, 1).bytes();
}

/// Imports domains and regions from contexts of the program itself, by the right context and by
/// wrong ones.
std::vector<uint8_t> Imports() {
  Script script;
  ImportDomain(script, kContextA);
  for (const uint32_t owner : {0u, 1u, 2u}) {
    script.Call(UROCE_IMPORT_PD, uroce_import{owner, 0});
    script.Call(UROCE_IMPORT_MR, uroce_import{owner, 0});
    script.Call(UROCE_IMPORT_MR, uroce_import{owner + 2, 1});
  }
  return script.Handle(UROCE_DEALLOC_PD, 2).Handle(UROCE_CLOSE_CONTEXT, 2).bytes();
}

/// Another program uses the first one's domain, context and region while the first one ends them,
/// and asks once more for what has ended.
std::vector<uint8_t> ImportsThatOutlive() {
  Script script;
  script.Other().Call(UROCE_HELLO, uroce_hello{UROCE_ABI_VERSION, 0});
  ImportDomain(script, 0);
  script.Call(UROCE_IMPORT_MR, uroce_import{0, 0});
  script.Handle(UROCE_CREATE_CHANNEL, 0).Call(UROCE_CREATE_CQ, CqOf(0, 0));
  script.Call(UROCE_CREATE_QP, QpOf(0, 0, 0));
  Connect(script, 0, 2, kQpnOf + 1);
  script.Call(UROCE_CREATE_SRQ, uroce_create_srq{0, 8, 1, 0, 5, IBV_SRQT_BASIC, 0, 0, 0});
  script.Other().Handle(UROCE_DEREG_MR, 0).Handle(UROCE_DEALLOC_PD, 0).Short(kTurns, 4, 1);
  script.Handle(UROCE_CLOSE_CONTEXT, 0).Call(UROCE_OPEN_CONTEXT, uroce_open_context{0, 0});
  script.Handle(UROCE_ALLOC_PD, 2).Other();
  script.Call(UROCE_IMPORT_PD, uroce_import{0, 0}).Call(UROCE_IMPORT_PD, uroce_import{0, 2});
  script.Call(UROCE_IMPORT_MR, uroce_import{0, 0}).Short(kTurns, 4, 1);
  ImportDomain(script, 1);
  return script.Handle(UROCE_CLOSE_CONTEXT, 0).bytes();
}

}  // namespace

std::vector<std::vector<uint8_t>> ContextScripts() {
  return {UsesOfAnotherContext(), EndsInUse(), SharedDomain(), Imports(), ImportsThatOutlive()};
}

}  // namespace uroce::fuzz
