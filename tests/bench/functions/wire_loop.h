// SPDX-License-Identifier: Apache-2.0
// A connection over the in-process wire. One thread drives both ends and the program's posts and
// polls. Several benchmarks of a worker use it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "drivers/cable/cable_port.h"
#include "pipeline/datapath/capture/packet_records.h"
#include "tests/datapath/testbed.h"

namespace uroce::datapath {

/// Memory of a capture, of the default size; its reader takes all records at once.
class LoopCapture {
 public:
  explicit LoopCapture(uint32_t snap_bytes)
      : tap_(&page_, lines_.front().bytes, lines_.size() * sizeof(Line),
             {.snap_bytes = snap_bytes}) {}
  CaptureTap* tap() { return &tap_; }
  void TakeAll() { page_.consumed.value = page_.produced.value; }

 private:
  struct alignas(64) Line {
    uint8_t bytes[64];
  };
  std::vector<Line> lines_ = std::vector<Line>((64 << 20) / sizeof(Line));
  uroce_capture_page page_{};
  CaptureTap tap_;
};

/// WRITEs, READs or SENDs of one length, from one end to the other.
class WireLoop {
 public:
  static constexpr uint8_t kWrite = 0;
  static constexpr uint8_t kSend = 2;
  static constexpr uint8_t kRead = 4;
  /// More than a turn moves in the microsecond that it takes in the testbed.
  static constexpr uint64_t kLineBps = 10'000'000'000'000;

  explicit WireLoop(size_t buffer_bytes, congestion::Profile profile = congestion::Profile::kOff)
      : source_(Pattern(buffer_bytes, 1)), target_(buffer_bytes) {
    for (const auto& device : bed_.devices) {
      device->SetCongestion(congestion::DefaultsOf(profile), kLineBps);
    }
    bed_.attributes.path_mtu_bytes = 4096;
    bed_.attributes.timeout = 18;
    a_ = &bed_.AddEndpoint(0, {.sq_depth = 128, .cq_depth = 256, .max_sge = 1, .max_inline = 0});
    b_ = &bed_.AddEndpoint(1, {.rq_depth = 256});
    bed_.Connect(*a_, *b_);
    from_ = &bed_.Register(source_.data(), source_.size(), kAllAccess, MrMode::kMapped);
    to_ = &bed_.Register(target_.data(), target_.size(), kAllAccess, MrMode::kMapped);
    a_->hold_bell = true;
  }

  /// A limit of the sender that is never reached: each packet is counted, and none waits.
  void Pace() { a_->qp->flow().rate.SetLimit(kLineBps); }

  /// As frames that stay in the daemon do.
  void LeaveIcrcOut() {
    for (const auto& device : bed_.devices) device->leaves_icrc_out = true;
  }

  void RecordHistories() {
    for (Endpoint* end : {a_, b_}) end->qp->set_history(std::make_unique<PacketHistory>(64));
  }

  /// Captures every packet of both ends.
  void Capture(uint32_t snap_bytes) {
    capture_ = std::make_unique<LoopCapture>(snap_bytes);
    bed_.worker->Run([this] { bed_.worker->AddTap(capture_->tap()); });
  }

  /// Keeps `depth` messages of `length` bytes posted until `count` are complete; for SENDs also as
  /// many receives.
  void Move(uint8_t opcode, uint32_t length, uint32_t depth, uint64_t count) {
    const MemoryRegion& local = opcode == kRead ? *to_ : *from_;
    const MemoryRegion& remote = opcode == kRead ? *from_ : *to_;
    const Endpoint::Send send{.opcode = opcode,
                              .list = {Testbed::Sge(local, 0, length)},
                              .remote_addr = remote.iova,
                              .rkey = remote.key};
    uint64_t posted = 0;
    uint64_t completed = 0;
    while (completed < count) {
      const uint64_t before = posted;
      while (posted < count && posted - completed < depth) {
        if (opcode == kSend) b_->PostReceive(posted, {Testbed::Sge(remote, 0, length)});
        a_->PostSend(send);
        ++posted;
      }
      if (posted != before) a_->RingBell();
      bed_.Turn();
      if (capture_ != nullptr) capture_->TakeAll();
      uroce_cqe cqe;
      while (a_->PollSend(cqe)) {
        if (cqe.status != 0) abort();
        ++completed;
      }
      while (b_->PollReceive(cqe)) continue;
    }
  }

 private:
  std::unique_ptr<LoopCapture> capture_;  // Outlives the worker.
  drivers::Cable wire_ = (TestPool(), drivers::MakeCable({}, {}).value());
  Testbed bed_{{wire_.first.get(), wire_.second.get()}};
  std::vector<uint8_t> source_;
  std::vector<uint8_t> target_;
  Endpoint* a_;
  Endpoint* b_;
  MemoryRegion* from_;
  MemoryRegion* to_;
};

}  // namespace uroce::datapath
