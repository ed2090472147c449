// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/programs/queue_floods.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "pipeline/shm/rings/doorbells.h"
#include "pipeline/shm/rings/shared_word.h"
#include "tests/nic/control/memory/lending.h"

namespace uroce::bench {
namespace {

using hostile::Program;
using hostile::QueuePair;

constexpr uint32_t kManyQueuePairs = 16'000;  // A program may have 16,384.
constexpr uint32_t kArmedQueues = 8'000;
constexpr uint32_t kStuckPairs = 7'600;  // More queue pairs than a worker has frames.
constexpr uint64_t kPage = 4096;

/// Device memory of a program that serves no stage: the daemon's copies do not end.
constexpr uint64_t kDeviceMemory = 0x7e0000000000;

uint32_t RegisterStaged(Program& program, uint32_t device) {
  struct {
    uroce_reg_mr request;
    uroce_mr_segment segment;
  } message{};
  message.request = {
      program.pds[device], IBV_ACCESS_LOCAL_WRITE, kDeviceMemory, kPage, kDeviceMemory, 1,
      UROCE_NONE};
  message.segment = {kDeviceMemory, kPage, UROCE_MR_STAGED, UROCE_NONE, 0, UROCE_WHY_DEVICE, 0};
  const nic::Answer made = program.client.Call(UROCE_REG_MR, message);
  Require(made.error == 0, "REG_MR");
  return made.As<uroce_reg_mr_reply>().lkey;
}

uint8_t* FirstSlot(const Program& program, const QueuePair& queue_pair) {
  return &program.At<uint8_t>(queue_pair.layout.sq_offset);
}

}  // namespace

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "flooder: %s\n", what);
  std::exit(1);
}

void SayReady() {
  std::puts("flooding");
  std::fflush(stdout);
}

void FloodDoorbells(Program& program) {
  for (uint32_t worker = 0;; worker = (worker + 1) % program.workers()) {
    uroce_doorbells& doorbells = program.doorbells(worker);
    for (uroce_line64& word : doorbells.words) rings::StoreRelaxed(word.value, ~uint64_t{0});
    for (uint64_t& summary : doorbells.summary) rings::StoreRelease(summary, ~uint64_t{0});
    const uint64_t one = 1;
    if (rings::LoadRelaxed(doorbells.sleeping.value) == 0) continue;
    Require(write(program.wake_fd(worker), &one, sizeof(one)) > 0, "the eventfd");
  }
}

void MakeManyQueuePairs(Program& program, uint32_t type) {
  while (program.queue_pairs.size() < kManyQueuePairs) {
    Require(program.MakeQueuePair(0, type), "CREATE_QP");
  }
}

void FillChannel(Program& program) {
  // Opens the channel's pipe again. The program's own fds are the devices' event pipe, name, and
  // channel.
  const nic::Answer channel = program.client.Handle(UROCE_CREATE_CHANNEL, program.contexts[0]);
  const std::string path = "/proc/self/fd/" + std::to_string(channel.fds.at(0).get());
  const Fd full(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  const std::vector<uint8_t> filler(kPage);
  while (write(full.get(), filler.data(), filler.size()) > 0) {
  }
  program.files.push_back(Fd(dup(channel.fds.at(0).get())));
  for (uint32_t i = 0; i < kArmedQueues; ++i) {
    const nic::Answer cq = program.client.Call(
        UROCE_CREATE_CQ, uroce_create_cq{program.contexts[0], 4, i + 1, channel.handle(), 0});
    Require(cq.error == 0, "CREATE_CQ");
    const nic::Answer made = program.client.Call(
        UROCE_CREATE_QP,
        uroce_create_qp{
            program.pds[0], IBV_QPT_RC, cq.handle(), cq.handle(), 9, 0, {1, 1, 1, 1, 0}});
    Require(made.error == 0, "CREATE_QP");
    QueuePair queue_pair{.type = IBV_QPT_RC, .layout = made.As<uroce_create_qp_reply>()};
    uroce_qp_attr attr{};
    attr.port_num = 1;
    attr.qp_state = IBV_QPS_INIT;
    attr.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    Require(program.Modify(queue_pair.layout.handle, attr), "INIT");
    attr.qp_state = IBV_QPS_ERR;
    attr.attr_mask = IBV_QP_STATE;
    Require(program.Modify(queue_pair.layout.handle, attr), "ERR");
    auto& page = program.At<uroce_cq_page>(cq.As<uroce_create_cq_reply>().page_offset);
    rings::StoreRelease(page.arm.value, UROCE_CQ_ARMED_NEXT);
    const uroce_send_wqe wqe{.wr_id = i, .opcode = IBV_WR_SEND, .flags = UROCE_SEND_SIGNALED};
    std::memcpy(FirstSlot(program, queue_pair), &wqe, sizeof(wqe));
    program.Post(queue_pair);
  }
}

void StartStuckCopies(Program& program) {
  const Fd memory(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  Require(nic::Lend(program.lend_socket(), nic::LendMemory(), memory.get()).error == 0, "lending");
  Require(program.client.Call(UROCE_CREATE_STAGE).error == 0, "CREATE_STAGE");
  const uroce_sge sges[] = {{kDeviceMemory, 64, RegisterStaged(program, 0)},
                            {kDeviceMemory, 64, RegisterStaged(program, 1)}};
  const uroce_send_wqe wqe{
      .wr_id = 1, .opcode = IBV_WR_SEND, .flags = UROCE_SEND_SIGNALED, .num_sge = 1};
  for (uint32_t i = 0; i < kStuckPairs; ++i) {
    const size_t first = program.queue_pairs.size();
    for (const uint32_t device : {0u, 1u}) {
      Require(program.MakeQueuePair(device, IBV_QPT_RC), "CREATE_QP");
    }
    for (const uint32_t device : {0u, 1u}) {
      QueuePair& its = program.queue_pairs[first + device];
      const QueuePair& peer = program.queue_pairs[first + 1 - device];
      // Without a timeout, since those that find no room for a frame would fail in time.
      Require(program.Connect(its.layout.handle, peer.layout.qp_num, device, /*timeout=*/0),
              "connecting");
      uint8_t* const slot = FirstSlot(program, its);
      std::memcpy(slot, &wqe, sizeof(wqe));
      std::memcpy(slot + sizeof(wqe), &sges[device], sizeof(uroce_sge));
      program.Post(its);
    }
  }
}

}  // namespace uroce::bench
