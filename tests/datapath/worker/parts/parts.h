// SPDX-License-Identifier: Apache-2.0
// What the parts of a worker are tested with, each alone: a device, programs and queue pairs.
#pragma once

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <memory>
#include <vector>

#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/datapath/worker/copy_engine.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/datapath/worker/objects.h"
#include "pipeline/datapath/worker/schedule.h"
#include "tests/datapath/testbed.h"

namespace uroce::datapath {

/// The first of two workers. Time is what the test says.
class PartsTest : public testing::Test {
 protected:
  PartsTest() {
    device_.mac = {2, 0, 0, 0, 0, 1};
    device_.addresses = {{Testbed::AddressOf(device_)}};
    port_ = &objects_.AddDevice(&device_, cross_worker_, recorder_.taps());
    time_.Begin(Nanos(1'000'000));
  }
  ~PartsTest() override {
    for (const auto& endpoint : endpoints_) objects_.Remove(*endpoint->qp);
    for (const auto& program : programs_) sessions_.Remove(&program->session);
  }

  /// Adds a program of a new user.
  Session& AddProgram() { return AddProgram(static_cast<uint32_t>(programs_.size() + 1)); }
  Session& AddProgram(uint32_t user) {
    programs_.push_back(
        std::make_unique<Program>(static_cast<uint32_t>(programs_.size() + 1), user));
    sessions_.Add(&programs_.back()->session, time_.now());
    return programs_.back()->session;
  }
  Endpoint& AddEndpoint(Session& session) {
    const auto number = static_cast<uint32_t>(endpoints_.size());
    endpoints_.push_back(std::make_unique<Endpoint>(&session, &device_, Qpn(100 + 2 * number),
                                                    number, Endpoint::Limits{}));
    objects_.Add(*endpoints_.back()->qp, sessions_);
    return *endpoints_.back();
  }
  /// Adds a queue pair of a new program.
  QueuePair& AddQueuePair() { return *AddEndpoint(AddProgram()).qp; }
  static rte_mbuf* NewFrame() { return rte_pktmbuf_alloc(TestPool()); }

  static constexpr FrameLimits kWaiting{.of_worker = 4096, .of_program = 4096, .of_queue_pair = 8};

  struct Program {
    Program(uint32_t id, uint32_t user) : session(id, {{.doorbells = doorbells.get()}}, user) {}

    std::unique_ptr<uroce_doorbells> doorbells = std::make_unique<uroce_doorbells>();
    Session session;
  };

  rte_mempool* const pool_ = TestPool();  ///< First: DPDK has to be there for all that follows.
  TestPort wire_;
  Device device_{"test", 0, &wire_, 2};
  TurnTime time_;
  CrossWorkerQueues queues_{2, [](uint32_t) {}};
  CrossWorkerLink cross_worker_{&queues_, 0};
  FrameRecorder recorder_{time_};
  Objects objects_{0};
  DevicePort* port_ = nullptr;
  WaitingPackets waiting_packets_{kWaiting, cross_worker_.gates(), recorder_};
  SessionList sessions_{0, kNever, waiting_packets_.frames().all()};
  std::vector<std::unique_ptr<Program>> programs_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

}  // namespace uroce::datapath
