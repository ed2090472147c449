// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/parties/workload.h"

#include <algorithm>
#include <cstring>

namespace uroce::sim {
namespace {

using transport::SendWork;
using transport::WorkOpcode;

constexpr uint32_t kLongerThanAnyReceive = 30'000;

class Planner {
 public:
  Planner(const WorkloadConfig& config, const RemoteMemory& target, Random& random)
      : config_(config), random_(random), target_(target) {
    const auto bytes = target.At(RemoteMemory::kBase, target.size_bytes());
    model_.assign(bytes.begin(), bytes.end());
  }

  Workload Plan() {
    const uint32_t illegal_at = config_.illegal ? random_.Below(config_.works) : config_.works;
    for (uint32_t i = 0; i < config_.works; ++i) {
      Add(i, i == illegal_at);
      // The peer has executed the READ, and would execute the works after it.
      if (workload_.works.back().scatter_fails) break;
    }
    workload_.memory = std::move(model_);
    return std::move(workload_);
  }

 private:
  void Add(uint32_t index, bool illegal) {
    PlannedWork planned;
    SendWork& work = planned.work;
    work.wr_id = work.slot = index;
    work.opcode = random_.OneOf({WorkOpcode::kWrite, WorkOpcode::kWriteWithImm, WorkOpcode::kSend,
                                 WorkOpcode::kSendWithImm, WorkOpcode::kSendWithInvalidate,
                                 WorkOpcode::kRead, WorkOpcode::kRead, WorkOpcode::kCompareSwap,
                                 WorkOpcode::kFetchAdd, WorkOpcode::kAtomicWrite,
                                 WorkOpcode::kBindWindow, WorkOpcode::kLocalInvalidate});
    work.signaled = random_.Happens(700) || index + 1 == config_.works;
    work.solicited = random_.Happens(300);
    work.fence = random_.Happens(100);
    work.immediate = static_cast<uint32_t>(random_.Next());
    work.invalidate_rkey = Rkey(static_cast<uint32_t>(random_.Next()));
    work.rkey = target_.rkey();
    work.length_bytes = Length();
    if (illegal) {
      PlanIllegal(planned);
      workload_.works.push_back(std::move(planned));
      return;
    }
    switch (work.opcode) {
      case WorkOpcode::kBindWindow:
      case WorkOpcode::kLocalInvalidate:
        work.length_bytes = 0;
        break;
      case WorkOpcode::kRead:
        PlanRead(planned);
        break;
      case WorkOpcode::kCompareSwap:
      case WorkOpcode::kFetchAdd:
        PlanAtomic(planned);
        break;
      case WorkOpcode::kAtomicWrite:
        PlanAtomicWrite(planned);
        break;
      default:
        PlanMessage(planned);
        break;
    }
    workload_.works.push_back(std::move(planned));
  }

  uint32_t Length() {
    const uint32_t mtu = config_.path_mtu;
    const uint32_t length = random_.OneOf<uint32_t>(
        {0, 1, 64, mtu - 1, mtu, mtu + 1, 2 * mtu, 5 * mtu + 3, random_.Below(config_.most_bytes)});
    return std::min(length, config_.most_bytes);
  }

  void PlanMessage(PlannedWork& planned) {
    SendWork& work = planned.work;
    planned.local.resize(work.length_bytes);
    random_.Fill(planned.local);
    const bool is_write =
        work.opcode == WorkOpcode::kWrite || work.opcode == WorkOpcode::kWriteWithImm;
    if (is_write) PlanWrite(planned);
    if (work.opcode == WorkOpcode::kWrite || workload_.has_illegal) return;
    PlannedReceive receive;
    receive.work = work.slot;
    if (!is_write) receive.data = planned.local;
    receive.length_bytes = work.length_bytes;
    receive.opcode = work.opcode;
    receive.solicited = work.solicited;
    receive.immediate_or_rkey = work.opcode == WorkOpcode::kSendWithInvalidate
                                    ? work.invalidate_rkey.value()
                                    : work.immediate;
    workload_.receives.push_back(std::move(receive));
  }

  void PlanWrite(PlannedWork& planned) {
    SendWork& work = planned.work;
    const uint32_t at = PlaceOf(work.length_bytes);
    work.remote_va = RemoteMemory::kBase + at;
    Store(at, planned.local);
    // An empty WRITE uses no memory, so neither address nor key need be valid.
    if (work.length_bytes == 0) {
      work.remote_va = random_.Next();
      work.rkey = Rkey(static_cast<uint32_t>(random_.Next()));
    }
  }

  /// Where a WRITE goes: over or around the WRITE before it, over the counters, or anywhere.
  uint32_t PlaceOf(uint32_t length) {
    // The last third is never written: READs find its first contents.
    const uint32_t last = target_.size_bytes() / 3 * 2 - length;
    switch (random_.Below(8)) {
      case 0:
        return std::min(written_at_, last);
      case 1:
        return std::min(written_at_ + random_.Below(written_bytes_ + 1), last);
      case 2:  // A flag after its data.
        return std::min(written_at_ + written_bytes_, last);
      case 3:
        return random_.Below(RemoteMemory::kCounters * 8);
      default:
        return random_.Below(last + 1);
    }
  }

  /// After an illegal work nothing is executed.
  void Store(uint32_t at, const std::vector<uint8_t>& bytes) {
    if (workload_.has_illegal) return;
    std::ranges::copy(bytes, model_.begin() + at);
    written_at_ = at;
    written_bytes_ = static_cast<uint32_t>(bytes.size());
  }

  void PlanRead(PlannedWork& planned) {
    SendWork& work = planned.work;
    // Around the last write, where nothing is ever written, or anywhere.
    const uint32_t last = target_.size_bytes() - work.length_bytes;
    const uint32_t kind = random_.Below(4);
    uint32_t at = random_.Below(last + 1);
    if (kind < 2) at = std::min(written_at_ + random_.Below(written_bytes_ + 1), last);
    if (kind == 2) at = std::min(target_.size_bytes() / 3 * 2, last);
    work.remote_va = RemoteMemory::kBase + at;
    planned.local.resize(work.length_bytes);
    planned.expected.assign(model_.begin() + at, model_.begin() + at + work.length_bytes);
  }

  /// A counter, or a word of the last write.
  uint32_t WordOf() {
    const uint32_t counter = random_.Below(RemoteMemory::kCounters) * 8;
    const uint32_t within = written_at_ + random_.Below(written_bytes_ + 1);
    return random_.Happens(500) ? counter : within / 8 * 8;
  }

  void PlanAtomic(PlannedWork& planned) {
    SendWork& work = planned.work;
    const uint32_t at = WordOf();
    uint64_t original = 0;
    std::memcpy(&original, &model_[at], 8);
    work.remote_va = RemoteMemory::kBase + at;
    work.length_bytes = 8;
    planned.local.resize(8);
    planned.expected.resize(8);
    std::memcpy(planned.expected.data(), &original, 8);
    planned.stored.resize(8);
    const uint64_t result = PlanResult(work, original);
    std::memcpy(planned.stored.data(), &result, 8);
    Store(at, planned.stored);
  }

  /// The value that the atomic is to leave in place of `original`.
  uint64_t PlanResult(SendWork& work, uint64_t original) {
    if (work.opcode == WorkOpcode::kFetchAdd) {
      work.compare_add = random_.Next();
      return original + work.compare_add;
    }
    const bool hits = random_.Happens(600);
    work.compare_add = hits ? original : original + 1;
    work.swap = random_.Next();
    return hits ? work.swap : original;
  }

  /// A late repetition would undo what other works did to the word meanwhile.
  void PlanAtomicWrite(PlannedWork& planned) {
    const uint32_t at = WordOf();
    planned.work.remote_va = RemoteMemory::kBase + at;
    planned.work.length_bytes = 8;
    planned.local.resize(8);
    random_.Fill(planned.local);
    Store(at, planned.local);
  }

  /// Plans a work that must fail, and its status.
  void PlanIllegal(PlannedWork& planned) {
    using transport::WcStatus;
    SendWork& work = planned.work;
    workload_.has_illegal = true;
    work.signaled = work.fence = false;
    work.length_bytes = 1 + random_.Below(config_.most_bytes);
    work.remote_va = RemoteMemory::kBase;
    planned.failure = WcStatus::kRemAccessErr;
    switch (random_.Below(10)) {
      case 0:
        work.opcode = WorkOpcode::kWrite;
        work.rkey = Rkey(target_.rkey().value() + 1);
        break;
      case 1:  // One byte beyond the end.
        work.opcode = WorkOpcode::kWrite;
        work.remote_va += target_.size_bytes() - work.length_bytes + 1;
        break;
      case 2:
        work.opcode = WorkOpcode::kRead;
        work.remote_va = RemoteMemory::kBase - 1;
        break;
      case 3:
        work.opcode = WorkOpcode::kFetchAdd;
        work.length_bytes = 8;
        work.remote_va = RemoteMemory::kBase + 4;
        planned.failure = WcStatus::kRemInvReqErr;
        break;
      case 4:
        work.opcode = WorkOpcode::kSend;
        work.length_bytes = kLongerThanAnyReceive;
        planned.failure = WcStatus::kRemInvReqErr;
        break;
      case 5:
        work.opcode = WorkOpcode::kSend;
        planned.gather_fails = true;
        planned.failure = WcStatus::kLocProtErr;
        break;
      case 6:
        work.opcode = WorkOpcode::kRead;
        planned.scatter_fails = true;
        planned.failure = WcStatus::kLocProtErr;
        break;
      case 7:
        work.malformed = true;
        work.opcode = WorkOpcode::kSend;
        planned.failure = WcStatus::kLocQpOpErr;
        break;
      case 8:
        work.opcode = WorkOpcode::kBindWindow;
        planned.failure = WcStatus::kMwBindErr;
        break;
      default:
        work.opcode = WorkOpcode::kLocalInvalidate;
        planned.failure = WcStatus::kLocQpOpErr;
        break;
    }
    planned.local.resize(work.length_bytes);
  }

  const WorkloadConfig& config_;
  Random& random_;
  const RemoteMemory& target_;
  std::vector<uint8_t> model_;
  uint32_t written_at_ = 0;  ///< Of the last work that stores bytes.
  uint32_t written_bytes_ = 0;
  Workload workload_;
};

}  // namespace

Workload MakeWorkload(const WorkloadConfig& config, const RemoteMemory& target, Random& random) {
  return Planner(config, target, random).Plan();
}

}  // namespace uroce::sim
