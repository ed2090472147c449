// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/workload.h"

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
    const auto data = target.At(RemoteMemory::kDataBase, target.data_bytes());
    model_.assign(data.begin(), data.end());
  }

  Workload Plan() {
    const uint32_t illegal_at = config_.illegal ? random_.Below(config_.works) : config_.works;
    for (uint32_t i = 0; i < config_.works; ++i) {
      Add(i, i == illegal_at);
      // The peer has executed the READ, and would execute what is behind it.
      if (workload_.works.back().scatter_fails) break;
    }
    workload_.memory = std::move(model_);
    workload_.memory_with_flushed = std::move(model_with_flushed_);
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
    // The last third is never written: READs find what was there from the start.
    const uint32_t writable = target_.data_bytes() / 3 * 2;
    if (write_mark_ + work.length_bytes > writable) {
      work.length_bytes = 0;
      planned.local.clear();
    }
    work.remote_va = RemoteMemory::kDataBase + write_mark_;
    auto& model = workload_.has_illegal ? model_with_flushed_ : model_;
    std::copy(planned.local.begin(), planned.local.end(), model.begin() + write_mark_);
    write_mark_ += work.length_bytes;
    // An empty WRITE names no memory: neither address nor key need be right.
    if (work.length_bytes == 0) {
      work.remote_va = random_.Next();
      work.rkey = Rkey(static_cast<uint32_t>(random_.Next()));
    }
  }

  void PlanRead(PlannedWork& planned) {
    SendWork& work = planned.work;
    // Either what earlier works wrote, or what nobody writes.
    const uint32_t third = target_.data_bytes() / 3;
    const bool written = random_.Happens(500);
    const uint32_t from = written ? 0 : 2 * third;
    const uint32_t available = written ? write_mark_ : target_.data_bytes() - 2 * third;
    work.length_bytes = std::min(work.length_bytes, available);
    const uint32_t at = from + random_.Below(available - work.length_bytes + 1);
    work.remote_va = RemoteMemory::kDataBase + at;
    planned.local.resize(work.length_bytes);
    planned.expected.assign(model_.begin() + at, model_.begin() + at + work.length_bytes);
  }

  void PlanAtomic(PlannedWork& planned) {
    SendWork& work = planned.work;
    const uint32_t index = random_.Below(RemoteMemory::kCounters);
    uint64_t ignored = 0;  // Behind an illegal work nothing is executed.
    uint64_t& counter = workload_.has_illegal ? ignored : workload_.counters[index];
    work.remote_va = RemoteMemory::kBase + index * 8;
    work.length_bytes = 8;
    planned.local.resize(8);
    planned.expected.resize(8);
    std::memcpy(planned.expected.data(), &counter, 8);
    if (work.opcode == WorkOpcode::kFetchAdd) {
      work.compare_add = random_.Next();
      counter += work.compare_add;
    } else {
      const bool hits = random_.Happens(600);
      work.compare_add = hits ? counter : counter + 1;
      work.swap = random_.Next();
      if (hits) counter = work.swap;
    }
  }

  /// Onto a counter: once more, later, would undo what atomics did to it meanwhile.
  void PlanAtomicWrite(PlannedWork& planned) {
    const uint32_t index = random_.Below(RemoteMemory::kCounters);
    planned.work.remote_va = RemoteMemory::kBase + index * 8;
    planned.work.length_bytes = 8;
    planned.local.resize(8);
    random_.Fill(planned.local);
    if (workload_.has_illegal) return;
    std::memcpy(&workload_.counters[index], planned.local.data(), 8);
  }

  /// Something that must fail, and how.
  void PlanIllegal(PlannedWork& planned) {
    using transport::WcStatus;
    SendWork& work = planned.work;
    workload_.has_illegal = true;
    model_with_flushed_ = model_;
    work.signaled = work.fence = false;
    work.length_bytes = 1 + random_.Below(config_.most_bytes);
    work.remote_va = RemoteMemory::kDataBase;
    planned.failure = WcStatus::kRemAccessErr;
    switch (random_.Below(10)) {
      case 0:
        work.opcode = WorkOpcode::kWrite;
        work.rkey = Rkey(target_.rkey().value() + 1);
        break;
      case 1:  // One byte behind the end.
        work.opcode = WorkOpcode::kWrite;
        work.remote_va += target_.data_bytes() - work.length_bytes + 1;
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
  std::vector<uint8_t> model_with_flushed_;  ///< From an illegal work on.
  uint32_t write_mark_ = 0;
  Workload workload_;
};

}  // namespace

Workload MakeWorkload(const WorkloadConfig& config, const RemoteMemory& target, Random& random) {
  return Planner(config, target, random).Plan();
}

}  // namespace uroce::sim
