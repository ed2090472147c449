// SPDX-License-Identifier: Apache-2.0
// What the parts of a worker that do a queue pair's work are tested with: beside PartsTest memory,
// and the parts that they work with.
#pragma once

#include <fcntl.h>
#include <sched.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/worker/completion_publisher.h"
#include "pipeline/datapath/worker/copy_engine.h"
#include "pipeline/datapath/worker/effects.h"
#include "pipeline/datapath/worker/schedule.h"
#include "pipeline/datapath/worker/state_changes.h"
#include "tests/datapath/worker/parts/parts.h"

namespace uroce::datapath {

class WorkPartsTest : public PartsTest {
 protected:
  // The helper may still run a copy that no queue pair waits for, and write to what a test owns.
  ~WorkPartsTest() override {
    acknowledge_all_ = [](QueuePair&) {};  // What the test had in its place has gone.
    for (const auto& endpoint : endpoints_) states_.End(*endpoint->qp);
    while (InFlight() != 0) {
      sched_yield();
      copies_.TakeFinished([](QueuePair&, MoveResult) {});
    }
  }
  uint32_t InFlight() const {
    uint32_t jobs = 0;
    for (const auto& program : programs_) {
      const CopyHelper* const helper = program->session.copy_helper();
      if (helper != nullptr) jobs += helper->in_flight(0);
    }
    return jobs;
  }

  static Attributes Wanted() {
    Attributes attributes;
    attributes.remote_write = attributes.remote_read = attributes.remote_atomic = true;
    attributes.path_mtu_bytes = 1024;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4;
    attributes.timeout = 10;
    attributes.retry_count = 7;
    return attributes;
  }
  /// Adds a queue pair of a new program, ready to send and to receive.
  Endpoint& AddConnected() {
    Endpoint& endpoint = AddEndpoint(AddProgram());
    for (const auto state :
         {transport::QpState::kInit, transport::QpState::kRtr, transport::QpState::kRts}) {
      endpoint.qp->core().Modify(state, Wanted());
      endpoint.qp->reports().PublishState(state);
    }
    return endpoint;
  }
  /// `bytes` of this process as a region of the program of `qp`.
  template <typename T>
  MemoryRegion& Register(const QueuePair& qp, std::vector<T>& bytes, MrMode mode) {
    regions_.push_back(std::make_unique<MemoryRegion>());
    MemoryRegion& region = *regions_.back();
    region.key = 0x1000 + static_cast<uint32_t>(regions_.size()) * 0x100;
    region.pd = kTestPd;
    region.access = kAllAccess;
    region.iova = reinterpret_cast<uint64_t>(bytes.data());
    region.length_bytes = bytes.size() * sizeof(T);
    region.session = qp.config().session;
    auto* const mapped =
        mode == MrMode::kMapped ? reinterpret_cast<uint8_t*>(bytes.data()) : nullptr;
    region.segments = {{.iova = region.iova,
                        .length_bytes = region.length_bytes,
                        .mode = mode,
                        .mapped = mapped,
                        .app_addr = region.iova}};
    EXPECT_TRUE(keys_.Publish(&region));
    return region;
  }
  static void StartHelper(const QueuePair& qp) {
    qp.config().session->StartCopyHelper(
        {.fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC), .user = Credentials::Own()});
  }
  /// A WRITE of `frame`'s bytes to the beginning of the region, shown to the transport of `qp`.
  transport::Effect ReceiveWrite(QueuePair& qp, const MemoryRegion& to, rte_mbuf* frame) {
    packet_.header.opcode = wire::Opcode::kWriteOnly;
    packet_.header.psn = qp.core().expected_psn();
    packet_.header.ack_request = true;
    packet_.header.reth = {.va = to.iova, .rkey = Rkey(to.key), .length_bytes = frame->data_len};
    packet_.payload = {rte_pktmbuf_mtod(frame, const uint8_t*), frame->data_len};
    transport::Effect effect;
    EXPECT_EQ(qp.core().reliable().OnPacket(packet_, time_.now(), effect),
              transport::PacketResult::kAccepted);
    return effect;
  }
  static rte_mbuf* NewFrame(const std::vector<uint8_t>& payload) {
    rte_mbuf* const frame = rte_pktmbuf_alloc(TestPool());
    std::memcpy(rte_pktmbuf_append(frame, static_cast<uint16_t>(payload.size())), payload.data(),
                payload.size());
    return frame;
  }
  /// The syndrome of the answer that `qp` owes; nothing: it owes none.
  std::optional<uint8_t> Answer(QueuePair& qp) {
    transport::TxPacket packet;
    if (!qp.core().HasAcknowledgement() || !qp.core().PollPacket(time_.now(), packet)) return {};
    return packet.header.aeth.syndrome;
  }

  wire::Packet packet_;
  KeyTable keys_{16};
  std::vector<std::unique_ptr<MemoryRegion>> regions_;
  FrameStash stash_{TestPool()};
  ReadyLists ready_{sessions_, time_};
  CompletionPublisher completions_{nullptr, time_};
  StallWatch stalls_{time_};
  CopyEngine copies_{{.worker = 0,
                      .keys = keys_,
                      .ports = objects_.ports(),
                      .sessions = sessions_,
                      .time = time_,
                      .stalls = stalls_},
                     CopyBatches(keys_, waiting_packets_.frames(), stash_)};
  KeyChanges key_changes_{keys_, nullptr, ready_, time_};
  KeptFramePool kept_frames_{{.of_worker = 128, .of_program = 128, .of_queue_pair = 128}};
  Effects effects_{keys_, copies_, key_changes_, kept_frames_, time_};
  FailedQueuePairs failed_{nullptr, time_};
  std::function<void(QueuePair&)> acknowledge_all_ = [](QueuePair&) {};
  CongestionControl congestion_{stash_, time_};
  StateChanges states_{{.completions = completions_,
                        .congestion = congestion_,
                        .effects = effects_,
                        .failed = failed_,
                        .kept_frames = kept_frames_,
                        .key_changes = key_changes_,
                        .ready = ready_,
                        .waiting_packets = waiting_packets_,
                        .time = time_,
                        .acknowledge_all = [this](QueuePair& qp) { acknowledge_all_(qp); }}};
};

}  // namespace uroce::datapath
