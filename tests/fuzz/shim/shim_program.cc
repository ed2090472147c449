// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/shim/shim_program.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "pipeline/shm/abi/uroce_arena.h"
#include "tests/fuzz/shim/guarded_output.h"

namespace uroce::fuzz {
namespace {

constexpr uint8_t kPattern = 0x5a;

void NeverBlock(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

const char* ShimProgram::call_ = "";

const ShimProgram::Entry ShimProgram::kCalls[kCallCount] = {
    {"open_device", &ShimProgram::OpenDevice},
    {"end", &ShimProgram::End},
    {"alloc_pd", &ShimProgram::AllocPd},
    {"create_comp_channel", &ShimProgram::CreateChannel},
    {"create_cq", &ShimProgram::CreateCq},
    {"create_cq_ex", &ShimProgram::CreateCqEx},
    {"resize_cq", &ShimProgram::ResizeCq},
    {"modify_cq", &ShimProgram::ModifyCq},
    {"create_qp", &ShimProgram::CreateQp},
    {"modify_qp", &ShimProgram::ModifyQp},
    {"query_qp", &ShimProgram::QueryQp},
    {"create_srq", &ShimProgram::CreateSrq},
    {"modify_srq", &ShimProgram::ModifySrq},
    {"query_srq", &ShimProgram::QuerySrq},
    {"post_send", &ShimProgram::PostSend},
    {"wr_complete", &ShimProgram::PostExtended},
    {"post_recv", &ShimProgram::PostReceive},
    {"post_srq_recv", &ShimProgram::PostSrqReceive},
    {"poll_cq", &ShimProgram::Poll},
    {"start_poll", &ShimProgram::PollEx},
    {"req_notify_cq", &ShimProgram::Notify},
    {"get_cq_event", &ShimProgram::GetCqEvent},
    {"get_async_event", &ShimProgram::GetAsyncEvent},
    {"reg_mr", &ShimProgram::RegMr},
    {"rereg_mr", &ShimProgram::ReregMr},
    {"query_port", &ShimProgram::QueryPort},
    {"query_gid", &ShimProgram::QueryGids},
    {"create_ah", &ShimProgram::CreateAh},
    {"create_ah_from_wc", &ShimProgram::AhFromWc},
    {"alloc_mw", &ShimProgram::AllocMw},
    {"bind_mw", &ShimProgram::BindMw},
    {"attach_mcast", &ShimProgram::Multicast},
    {"open_xrcd", &ShimProgram::OpenXrcd},
    {"create_srq_ex", &ShimProgram::CreateXrcSrq},
    {"create_qp_ex", &ShimProgram::CreateTarget},
    {"open_qp", &ShimProgram::OpenTarget},
    {"import", &ShimProgram::Import},
    {"open rdma_cm", &ShimProgram::OpenCm},
    {"write rdma_cm", &ShimProgram::WriteCm},
};

uint8_t* ShimProgram::Memory() {
  static auto* const memory = static_cast<uint8_t*>(
      mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  return memory;
}

ShimProgram::ShimProgram() { std::fill_n(Memory(), kMemoryBytes, kPattern); }

ShimProgram::~ShimProgram() {
  // The memory stays mapped, whatever the daemon had mapped there.
  std::fill_n(Memory(), kMemoryBytes, kPattern);
}

const char* ShimProgram::call() { return call_; }

void ShimProgram::Do(uint8_t call, ScriptReader& reader) {
  const Entry& entry = kCalls[call % kCallCount];
  call_ = entry.name;
  (this->*entry.function)(reader);
}

void ShimProgram::Expect(bool is_right, const char* what) {
  if (!is_right && failure_.empty()) failure_ = std::string(call_) + ": " + what;
}

void ShimProgram::ExpectErrno(int error) {
  Expect(error >= 0 && error <= kGreatestErrno, "an error that is none");
}

void ShimProgram::ExpectMinusOne(int result) {
  Expect(result == 0 || (result == -1 && errno > 0 && errno <= kGreatestErrno),
         "a failure without an error");
}

void* ShimProgram::PickAny(Kind kind, uint32_t number) const {
  const auto is_one = [kind](const Held& held) { return held.kind == kind; };
  const auto count = static_cast<uint32_t>(std::ranges::count_if(held_, is_one));
  if (count == 0) return nullptr;
  uint32_t left = number % count;
  for (const Held& held : held_) {
    if (is_one(held) && left-- == 0) return held.object;
  }
  return nullptr;
}

bool ShimProgram::Has(Kind kind, const void* object) const {
  return std::ranges::any_of(
      held_, [&](const Held& held) { return held.kind == kind && held.object == object; });
}

bool ShimProgram::HasRoom(Kind kind) const {
  return static_cast<size_t>(std::ranges::count_if(
             held_, [kind](const Held& held) { return held.kind == kind; })) < kMost;
}

bool ShimProgram::IsUsed(const void* object) const {
  return std::ranges::any_of(held_, [object](const Held& held) {
    return std::ranges::find(held.uses, object) != held.uses.end();
  });
}

void ShimProgram::Hold(Kind kind, void* object, std::vector<const void*> uses) {
  if (object == nullptr) return Expect(errno > 0 && errno <= kGreatestErrno, "no error");
  Expect(!Has(kind, object), "the same object twice");
  held_.push_back({kind, object, std::move(uses)});
}

int ShimProgram::EndObject(const Held& held) {
  switch (held.kind) {
    case Kind::kContext:
      return ibv_close_device(static_cast<ibv_context*>(held.object)) == 0 ? 0 : errno;
    case Kind::kPd:
      return ibv_dealloc_pd(static_cast<ibv_pd*>(held.object));
    case Kind::kChannel:
      return ibv_destroy_comp_channel(static_cast<ibv_comp_channel*>(held.object));
    case Kind::kCq:
      return ibv_destroy_cq(static_cast<ibv_cq*>(held.object));
    case Kind::kQp:
      return ibv_destroy_qp(static_cast<ibv_qp*>(held.object));
    case Kind::kSrq:
      return ibv_destroy_srq(static_cast<ibv_srq*>(held.object));
    case Kind::kMr:
      return ibv_dereg_mr(static_cast<ibv_mr*>(held.object));
    case Kind::kAh:
      return ibv_destroy_ah(static_cast<ibv_ah*>(held.object));
    case Kind::kMw:
      return ibv_dealloc_mw(static_cast<ibv_mw*>(held.object));
    case Kind::kXrcd:
      return ibv_close_xrcd(static_cast<ibv_xrcd*>(held.object));
    case Kind::kImportedPd:
      ibv_unimport_pd(static_cast<ibv_pd*>(held.object));
      return 0;
    case Kind::kCmFile:
      return close(static_cast<int>(reinterpret_cast<intptr_t>(held.object)));
    case Kind::kCount:
      break;
  }
  return 0;
}

/// Without a daemon completions must end: those of posted requests, and those left in the rings.
void ShimProgram::Drain() {
  constexpr int kMostPolls = 1 << 16;
  for (const Held& held : held_) {
    if (held.kind != Kind::kCq) continue;
    call_ = "poll_cq without a daemon";
    ibv_wc wcs[32];
    int polls = 0;
    while (polls < kMostPolls && ibv_poll_cq(static_cast<ibv_cq*>(held.object), 32, wcs) > 0) {
      ++polls;
    }
    Expect(polls < kMostPolls, "completions without end");
  }
}

void ShimProgram::EndAll() {
  // A command notices that the daemon is gone.
  ibv_device** const list = ibv_get_device_list(nullptr);
  if (list != nullptr) ibv_free_device_list(list);
  Drain();
  for (; !held_.empty(); held_.pop_back()) {
    call_ = "end of an object without its daemon";
    const int error = EndObject(held_.back());
    // The end of the first object may be the command that notices that the daemon is gone.
    Expect(error == 0 || error == EIO, "refused");
    if (error != 0) Expect(EndObject(held_.back()) == 0, "refused twice");
  }
}

void ShimProgram::OpenDevice(ScriptReader& reader) {
  const uint32_t index = reader.Number(1);
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) return;
  for (int i = 0; i < count; ++i) {
    Expect(std::string(ibv_get_device_name(list[i])).size() < IBV_SYSFS_NAME_MAX, "a long name");
  }
  ibv_context* context = nullptr;
  if (count > 0 && HasRoom(Kind::kContext)) {
    context = ibv_open_device(list[index % static_cast<uint32_t>(count)]);
    Hold(Kind::kContext, context, {});
  }
  ibv_free_device_list(list);
  if (context != nullptr) NeverBlock(context->async_fd);
}

void ShimProgram::End(ScriptReader& reader) {
  const auto kind = static_cast<Kind>(reader.Number(1) % static_cast<uint32_t>(Kind::kCount));
  void* object = Pick<void>(kind, reader.Number(1));
  if (object == nullptr || IsUsed(object)) return;
  const auto held =
      std::ranges::find_if(held_, [&](const Held& one) { return one.object == object; });
  const int error = EndObject(*held);
  ExpectErrno(error);
  if (error == 0) held_.erase(held);
}

void ShimProgram::AllocPd(ScriptReader& reader) {
  auto* context = Pick<ibv_context>(Kind::kContext, reader.Number(1));
  if (context == nullptr || !HasRoom(Kind::kPd)) return;
  Hold(Kind::kPd, ibv_alloc_pd(context), {context});
}

void ShimProgram::CreateChannel(ScriptReader& reader) {
  auto* context = Pick<ibv_context>(Kind::kContext, reader.Number(1));
  if (context == nullptr || !HasRoom(Kind::kChannel)) return;
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  Hold(Kind::kChannel, channel, {context});
  if (channel != nullptr) NeverBlock(channel->fd);
}

void ShimProgram::CreateCq(ScriptReader& reader) {
  auto* context = Pick<ibv_context>(Kind::kContext, reader.Number(1));
  const auto depth = static_cast<int>(reader.Number(1));
  auto* channel = Pick<ibv_comp_channel>(Kind::kChannel, reader.Number(1));
  if (context == nullptr || !HasRoom(Kind::kCq)) return;
  if (channel != nullptr && channel->context != context) channel = nullptr;
  Hold(Kind::kCq, ibv_create_cq(context, depth, this, channel, 0), {context, channel});
}

void ShimProgram::CreateCqEx(ScriptReader& reader) {
  auto* context = Pick<ibv_context>(Kind::kContext, reader.Number(1));
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = reader.Number(1);
  attr.cq_context = this;
  attr.wc_flags = reader.Number(2);
  if (context == nullptr || !HasRoom(Kind::kCq)) return;
  Hold(Kind::kCq, ibv_create_cq_ex(context, &attr), {context});
}

void ShimProgram::ResizeCq(ScriptReader& reader) {
  auto* cq = Pick<ibv_cq>(Kind::kCq, reader.Number(1));
  const auto depth = static_cast<int>(reader.Number(1));
  if (cq != nullptr) ExpectErrno(ibv_resize_cq(cq, depth));
}

void ShimProgram::ModifyCq(ScriptReader& reader) {
  auto* cq = Pick<ibv_cq>(Kind::kCq, reader.Number(1));
  ibv_modify_cq_attr attr = {IBV_CQ_ATTR_MODERATE, {4, 100}};
  if (cq != nullptr) ExpectErrno(ibv_modify_cq(cq, &attr));
}

void ShimProgram::CreateQp(ScriptReader& reader) {
  auto* pd = Pick<ibv_pd>(Kind::kPd, reader.Number(1));
  ibv_qp_init_attr_ex attr = {};
  attr.send_cq = Pick<ibv_cq>(Kind::kCq, reader.Number(1));
  attr.recv_cq = Pick<ibv_cq>(Kind::kCq, reader.Number(1));
  const uint32_t wish = reader.Number(1);
  constexpr ibv_qp_type kTypes[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND};
  attr.qp_type = kTypes[wish % 4];
  if ((wish & 4) != 0) attr.srq = Pick<ibv_srq>(Kind::kSrq, wish >> 4);
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  if ((wish & 8) != 0) {
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
  }
  attr.pd = pd;
  attr.cap.max_send_wr = reader.Number(1) + 1;
  attr.cap.max_recv_wr = reader.Number(1) + 1;
  attr.cap.max_send_sge = reader.Number(1) % (UROCE_MAX_SGE + 1);
  attr.cap.max_recv_sge = reader.Number(1) % (UROCE_MAX_SGE + 1);
  attr.cap.max_inline_data = reader.Number(1) * 2 % (UROCE_MAX_INLINE + 1);
  if (pd == nullptr || !HasRoom(Kind::kQp)) return;
  Hold(Kind::kQp, ibv_create_qp_ex(pd->context, &attr),
       {pd, attr.send_cq, attr.recv_cq, attr.srq, pd->context});
}

void ShimProgram::ModifyQp(ScriptReader& reader) {
  auto* qp = Pick<ibv_qp>(Kind::kQp, reader.Number(1));
  ibv_qp_attr attr = {};
  attr.qp_state = static_cast<ibv_qp_state>(reader.Number(1) % 7);
  if (qp != nullptr) ExpectErrno(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

void ShimProgram::QueryQp(ScriptReader& reader) {
  auto* qp = Pick<ibv_qp>(Kind::kQp, reader.Number(1));
  if (qp == nullptr) return;
  GuardedOutput<ibv_qp_attr> attr;
  GuardedOutput<ibv_qp_init_attr> init;
  ExpectErrno(ibv_query_qp(qp, attr.data(), 0, init.data()));
  Expect(attr.IsIntact() && init.IsIntact(), "written beyond its output");
}

void ShimProgram::CreateSrq(ScriptReader& reader) {
  auto* pd = Pick<ibv_pd>(Kind::kPd, reader.Number(1));
  ibv_srq_init_attr attr = {};
  attr.attr.max_wr = reader.Number(1) + 1;
  attr.attr.max_sge = reader.Number(1) % (UROCE_MAX_SGE + 1);
  if (pd == nullptr || !HasRoom(Kind::kSrq)) return;
  Hold(Kind::kSrq, ibv_create_srq(pd, &attr), {pd, pd->context});
}

void ShimProgram::ModifySrq(ScriptReader& reader) {
  auto* srq = Pick<ibv_srq>(Kind::kSrq, reader.Number(1));
  ibv_srq_attr attr = {};
  attr.max_wr = reader.Number(1) + 1;
  const auto mask = static_cast<int>(reader.Number(1) % 4);
  if (srq != nullptr) ExpectErrno(ibv_modify_srq(srq, &attr, mask));
}

void ShimProgram::QuerySrq(ScriptReader& reader) {
  auto* srq = Pick<ibv_srq>(Kind::kSrq, reader.Number(1));
  GuardedOutput<ibv_srq_attr> attr;
  if (srq != nullptr) ExpectErrno(ibv_query_srq(srq, attr.data()));
  uint32_t number = 0;
  if (srq != nullptr) ExpectErrno(ibv_get_srq_num(srq, &number));
  Expect(attr.IsIntact(), "written beyond its output");
}

ibv_send_wr ShimProgram::SendRequest(ScriptReader& reader, ibv_sge* sges, uint32_t most_sges) {
  ibv_send_wr wr = {};
  wr.opcode = static_cast<ibv_wr_opcode>(reader.Number(1) % 16);
  wr.send_flags = reader.Number(1);
  wr.num_sge = static_cast<int>(reader.Number(1) % most_sges);
  const uint32_t length = reader.Number(1);
  for (int i = 0; i < wr.num_sge; ++i) {
    sges[i] = {reinterpret_cast<uintptr_t>(Memory()), length, 0x100};
  }
  wr.sg_list = sges;
  wr.wr.rdma = {0x1000, 77};
  if (wr.opcode == IBV_WR_BIND_MW) {
    wr.bind_mw = {Pick<ibv_mw>(Kind::kMw, 0), 1, {Pick<ibv_mr>(Kind::kMr, 0), 0, length, 0}};
  }
  return wr;
}

void ShimProgram::PostSend(ScriptReader& reader) {
  auto* qp = Pick<ibv_qp>(Kind::kQp, reader.Number(1));
  const uint32_t times = reader.Number(1) % 32;
  ibv_sge sges[20];
  ibv_send_wr wrs[2] = {SendRequest(reader, sges, 20), {}};
  if (qp == nullptr || qp->qp_type == IBV_QPT_XRC_RECV) return;
  if (qp->qp_type == IBV_QPT_UD) {
    wrs[0].wr.ud = {Pick<ibv_ah>(Kind::kAh, 0), 5, 6};
  }
  wrs[1] = wrs[0];
  wrs[0].next = &wrs[1];
  for (uint32_t i = 0; i < times; ++i) {
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(qp, wrs, &bad);
    ExpectErrno(error);
    Expect(error == 0 || bad == &wrs[0] || bad == &wrs[1], "a bad request that is none");
  }
}

void ShimProgram::PostExtended(ScriptReader& reader) {
  auto* qp = Pick<ibv_qp>(Kind::kQp, reader.Number(1));
  const uint32_t times = reader.Number(1) % 32;
  const uint32_t inline_bytes = reader.Number(1);
  ibv_qp_ex* extended = qp == nullptr ? nullptr : ibv_qp_to_qp_ex(qp);
  if (extended == nullptr) return;
  for (uint32_t i = 0; i < times; ++i) {
    ibv_wr_start(extended);
    ibv_wr_send(extended);
    if (qp->qp_type == IBV_QPT_UD) {
      ibv_wr_set_ud_addr(extended, Pick<ibv_ah>(Kind::kAh, 0), 5, 6);
    }
    ibv_wr_set_inline_data(extended, Memory(), inline_bytes);
    ExpectErrno(ibv_wr_complete(extended));
  }
}

void ShimProgram::PostReceive(ScriptReader& reader) {
  auto* qp = Pick<ibv_qp>(Kind::kQp, reader.Number(1));
  const uint32_t times = reader.Number(1) % 32;
  ibv_sge sges[20] = {};
  ibv_recv_wr wr = {7, nullptr, sges, static_cast<int>(reader.Number(1) % 20)};
  if (qp == nullptr || qp->qp_type == IBV_QPT_XRC_RECV) return;
  for (uint32_t i = 0; i < times; ++i) {
    ibv_recv_wr* bad = nullptr;
    ExpectErrno(ibv_post_recv(qp, &wr, &bad));
  }
}

void ShimProgram::PostSrqReceive(ScriptReader& reader) {
  auto* srq = Pick<ibv_srq>(Kind::kSrq, reader.Number(1));
  const uint32_t times = reader.Number(1) % 32;
  ibv_sge sges[20] = {};
  ibv_recv_wr wr = {7, nullptr, sges, static_cast<int>(reader.Number(1) % 20)};
  if (srq == nullptr) return;
  for (uint32_t i = 0; i < times; ++i) {
    ibv_recv_wr* bad = nullptr;
    ExpectErrno(ibv_post_srq_recv(srq, &wr, &bad));
  }
}

void ShimProgram::Poll(ScriptReader& reader) {
  auto* cq = Pick<ibv_cq>(Kind::kCq, reader.Number(1));
  const uint32_t room = reader.Number(1) % 33;
  if (cq == nullptr) return;
  GuardedOutput<ibv_wc> wcs(room);
  const int count = ibv_poll_cq(cq, static_cast<int>(room), wcs.data());
  Expect(count >= -1 && count <= static_cast<int>(room), "more than there is room for");
  Expect(wcs.IsIntact(), "written beyond its output");
}

void ShimProgram::PollEx(ScriptReader& reader) {
  auto* cq = Pick<ibv_cq>(Kind::kCq, reader.Number(1));
  uint32_t most = reader.Number(1);
  if (cq == nullptr) return;
  ibv_cq_ex* extended = reinterpret_cast<ibv_cq_ex*>(cq);
  ibv_poll_cq_attr attr = {};
  const int error = ibv_start_poll(extended, &attr);
  ExpectErrno(error);
  if (error != 0) return;
  do {
    static_cast<void>(ibv_wc_read_opcode(extended));
    static_cast<void>(ibv_wc_read_byte_len(extended));
    static_cast<void>(ibv_wc_read_wc_flags(extended));
  } while (most-- > 0 && ibv_next_poll(extended) == 0);
  ibv_end_poll(extended);
}

void ShimProgram::Notify(ScriptReader& reader) {
  auto* cq = Pick<ibv_cq>(Kind::kCq, reader.Number(1));
  const uint32_t solicited = reader.Number(1) % 2;
  if (cq != nullptr) ExpectErrno(ibv_req_notify_cq(cq, static_cast<int>(solicited)));
}

void ShimProgram::GetCqEvent(ScriptReader& reader) {
  auto* channel = Pick<ibv_comp_channel>(Kind::kChannel, reader.Number(1));
  if (channel == nullptr) return;
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  const int result = ibv_get_cq_event(channel, &cq, &cq_context);
  ExpectMinusOne(result);
  if (result != 0) return;
  Expect(Has(Kind::kCq, cq), "an event of no CQ");
  if (!failure_.empty()) return;
  Expect(cq_context == this, "another's context");
  ibv_ack_cq_events(cq, 1);
}

void ShimProgram::GetAsyncEvent(ScriptReader& reader) {
  auto* context = Pick<ibv_context>(Kind::kContext, reader.Number(1));
  if (context == nullptr) return;
  ibv_async_event event = {};
  const int result = ibv_get_async_event(context, &event);
  ExpectMinusOne(result);
  if (result != 0) return;
  CheckEvent(event);
  if (failure_.empty()) ibv_ack_async_event(&event);
}

void ShimProgram::CheckEvent(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return Expect(Has(Kind::kCq, event.element.cq), "an event of no CQ");
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return Expect(Has(Kind::kSrq, event.element.srq), "an event of no SRQ");
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return Expect(Has(Kind::kQp, event.element.qp), "an event of no QP");
    default:
      return;
  }
}

}  // namespace uroce::fuzz
