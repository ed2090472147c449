// SPDX-License-Identifier: Apache-2.0
// Programs that use all of the shim, with a correct daemon, and with one that is slightly
// malicious.
#include <rdma/rdma_user_cm.h>

#include <cstring>
#include <initializer_list>

#include "pipeline/shm/abi/uroce_commands.h"
#include "tests/fuzz/shim/shim_script.h"

namespace uroce::fuzz {
namespace {

using Bytes = std::vector<uint8_t>;

class Script {
 public:
  Script& Do(uint8_t record, std::initializer_list<uint8_t> operands) {
    bytes_.push_back(record);
    bytes_.insert(bytes_.end(), operands);
    return *this;
  }
  Script& Complete(uint8_t cq, const CompletionFields& fields) {
    Do(kCompletion, {cq, 0});
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&fields);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(fields));
    return *this;
  }
  /// Writes `value` at `place` after the header of the next reply to `command`.
  template <typename Value>
  Script& Alter(uint8_t command, size_t place, const Value& value) {
    const auto at = static_cast<uint16_t>(sizeof(uroce_reply) + place);
    Do(kAlterReply, {command, static_cast<uint8_t>(at), static_cast<uint8_t>(at >> 8),
                     static_cast<uint8_t>(sizeof(value))});
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(value));
    return *this;
  }
  Script& Event(bool is_async, uint8_t object, uint8_t type) {
    const uint8_t shown = is_async ? type : uint8_t{255};
    return Do(kEvent, {is_async, object, 0, 0, 0, 0, 0, 0, 0, 0, shown, 16});
  }
  Script& Then(const Bytes& bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  /// Makes one of each object of a program, and moves its queue pair to RTS.
  Script& Make() {
    Do(kOpenDevice, {0}).Do(kAllocPd, {0}).Do(kCreateChannel, {0}).Do(kCreateCq, {0, 16, 0});
    return Do(kCreateQp, {0, 0, 0, 8, 7, 7, 2, 2, 64}).Do(kModifyQp, {0, 1}).Do(kModifyQp, {0, 3});
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

Bytes Queues() {
  Script script;
  script.Make().Do(kPostSend, {0, 3, 0, 2, 2, 64}).Do(kPostSend, {0, 1, 2, 10, 1, 60});
  script.Do(kPostReceive, {0, 3, 1}).Do(kPostExtended, {0, 1, 32});
  for (uint16_t i = 0; i < 3; ++i) {
    script.Complete(0, {.opcode = 1, .wqe_index = i});
    script.Complete(0, {.flags = UROCE_CQE_RECEIVE, .opcode = 128, .wqe_index = i});
  }
  script.Do(kPoll, {0, 4}).Do(kPollEx, {0, 8}).Do(kPoll, {0, 4}).Do(kNotify, {0, 0});
  script.Event(false, 0, 0).Do(kGetCqEvent, {0}).Event(true, 1, 1).Do(kGetAsyncEvent, {0});
  script.Event(true, 0, 0).Do(kGetAsyncEvent, {0}).Event(true, 255, 9).Do(kGetAsyncEvent, {0});
  script.Do(kResizeCq, {0, 40}).Do(kPoll, {0, 4}).Do(kModifyCq, {0}).Do(kQueryQp, {0});
  script.Do(kModifyQp, {0, 6}).Do(kPostReceive, {0, 1, 1}).Do(kModifyQp, {0, 0});
  return script.Do(kEnd, {4, 0}).Do(kEnd, {3, 0}).Do(kEnd, {2, 0}).Do(kEnd, {1, 0}).bytes();
}

Bytes Others() {
  Script script;
  script.Do(kWorkers, {1, 1})
      .Make()
      .Do(kWorkers, {1, 0})
      .Do(kCreateQp, {0, 0, 0, 2, 3, 3, 1, 1, 0});
  script.Do(kCreateSrq, {0, 8, 2}).Do(kPostSrqReceive, {0, 4, 1}).Do(kModifySrq, {0, 20, 1});
  script.Do(kQuerySrq, {0}).Do(kCreateQp, {0, 0, 0, 4, 7, 7, 2, 2, 64}).Event(true, 3, 12);
  script.Do(kGetAsyncEvent, {0}).Do(kCreateAh, {0}).Do(kAhFromWc, {0, 2}).Do(kAllocMw, {0});
  script.Do(kQueryPort, {0}).Do(kQueryGids, {0, 10}).Do(kQueryGids, {0, 1}).Do(kMulticast, {0});
  script.Do(kOpenXrcd, {0, 0}).Do(kCreateXrcSrq, {0, 0, 0, 7}).Do(kCreateTarget, {0});
  script.Do(kOpenTarget, {0, 0x21, 0x43, 0}).Do(kCreateQp, {0, 0, 0, 3, 7, 7, 2, 2, 64});
  script.Do(kCreateCqEx, {0, 9, 0, 0}).Do(kImport, {0, 3}).Do(kOpenXrcd, {0, 1});
  return script.Do(kEnd, {5, 0}).Do(kEnd, {7, 0}).Do(kEnd, {8, 0}).Do(kEnd, {9, 0}).bytes();
}

Bytes Memory() {
  Script script;
  script.Make().Do(kRegMr, {0, 0, 0, 0, 64, 1}).Do(kRegMr, {0, 8, 0, 100, 0, 1});
  script.Do(kAllocMw, {0}).Do(kBindMw, {0, 0, 0}).Do(kReregMr, {0, 0, 32});
  script.Do(kReplyFds, {UROCE_CREATE_SEGMENT, 1, 1}).Do(kRegMr, {0, 0, 0x40, 0, 64, 1});
  return script.Do(kEnd, {8, 0}).Do(kEnd, {6, 0}).Do(kEnd, {6, 0}).bytes();
}

Bytes ConnectionManager() {
  Script script;
  script.Do(kOpenDevice, {0}).Do(kOpenCm, {});
  script.Do(kAnswerCm, {0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0});
  script.Do(kWriteCm, {0, RDMA_USER_CM_CMD_CREATE_ID, 4, 0, 7, 0});
  script.Do(kAnswerCm, {0, 0, 0, 0, 1, 0, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8});
  script.Do(kSignal, {2, 1, 1}).Do(kWriteCm, {0, RDMA_USER_CM_CMD_GET_EVENT, 64, 1, 1, 0});
  script.Do(kAnswerCm, {0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0});
  script.Do(kWriteCm, {0, RDMA_USER_CM_CMD_QUERY, 0, 1, 1, 0});
  script.Do(kWriteCm, {0, RDMA_USER_CM_CMD_SET_OPTION, 0, 0, 1, 0});
  script.Do(kWriteCm, {0, RDMA_USER_CM_CMD_MIGRATE_ID, 8, 0, 1, 0}).Do(kHangUp, {UROCE_HELLO});
  script.Do(kWriteCm, {0, RDMA_USER_CM_CMD_DESTROY_ID, 4, 0, 1, 0});
  return script.Do(kWriteCm, {0, RDMA_USER_CM_CMD_GET_EVENT, 64, 1, 1, 0}).bytes();
}

/// Replies that the shim refuses, and the program's calls afterwards.
Bytes Lies() {
  Script script;
  script.Do(kReplyFds, {UROCE_HELLO, 70}).Then(Bytes(70, 1)).Do(kOpenDevice, {0});
  script.Do(kReplyFds, {UROCE_HELLO, 3, 1, 0, 0}).Do(kOpenDevice, {0});
  script.Do(kResizeReply, {UROCE_HELLO, 130, 0}).Do(kOpenDevice, {0}).Make();
  script.Alter(UROCE_CREATE_QP, offsetof(uroce_create_qp_reply, sq_offset), UROCE_ARENA_BYTES);
  script.Do(kCreateQp, {0, 0, 0, 0, 7, 7, 2, 2, 64});
  constexpr uint32_t kSlotBytes = 64;  // For 8 slots; each request takes 112 bytes.
  script.Alter(UROCE_CREATE_QP, offsetof(uroce_create_qp_reply, sq_slot_bytes), kSlotBytes);
  script.Alter(UROCE_CREATE_QP, offsetof(uroce_create_qp_reply, sq_offset),
               UROCE_ARENA_BYTES - 8 * kSlotBytes);
  script.Do(kCreateQp, {0, 0, 0, 0, 7, 7, 2, 2, 64}).Do(kModifyQp, {1, 3});
  script.Do(kPostSend, {1, 4, 2, 10, 1, 60});
  script.Alter(UROCE_CREATE_CQ, offsetof(uroce_create_cq_reply, page_offset), ~uint64_t{63});
  script.Do(kCreateCq, {0, 16, 0});
  script.Alter(UROCE_RESIZE_CQ, offsetof(uroce_resize_cq_reply, ring_count), 2u);
  script.Do(kResizeCq, {0, 60}).Do(kArena, {0, 16, 0x10, 4, 1, 0, 0, 0}).Do(kPoll, {0, 30});
  script.Do(kArenaThen, {UROCE_QUERY_QP, 0, 32, 0x10, 4, 1, 0, 0, 0}).Do(kQueryQp, {0});
  script.Do(kAlterReply, {UROCE_QUERY_GIDS, 0, 0, 4, 0xff, 0xff, 0xff, 0xff});
  script.Do(kQueryGids, {0, 2}).Event(false, 255, 0).Do(kGetCqEvent, {0});
  script.Event(true, 255, 1).Do(kGetAsyncEvent, {0}).Do(kHangUp, {UROCE_QUERY_PORT});
  script.Do(kPostSend, {0, 3, 0, 2, 2, 64}).Do(kQueryPort, {0}).Do(kPoll, {0, 9});
  return script.Do(kGetAsyncEvent, {0}).Do(kOpenDevice, {1}).Do(kAllocPd, {1}).bytes();
}

/// A worker that sleeps, and the fd that should wake it: at first a pipe without a reader.
Bytes Sleep() {
  constexpr uint32_t kSleeping = UROCE_DOORBELLS_OFFSET + offsetof(uroce_doorbells, sleeping);
  Script script;
  script.Do(kReplyFds, {UROCE_HELLO, 3, 0, 3, 0});
  for (int round = 0; round < 2; ++round) {
    script.Make().Do(kArena, {kSleeping & 0xff, kSleeping >> 8, 0, 1, 1});
    script.Do(kPostSend, {0, 3, 0, 2, 2, 64});
  }
  return script.bytes();
}

}  // namespace

std::vector<std::vector<uint8_t>> GoodShimScripts() {
  return {Queues(), Others(), Memory(), ConnectionManager(), Lies(), Sleep()};
}

}  // namespace uroce::fuzz
