// SPDX-License-Identifier: Apache-2.0
#include "nic/devices/queue_layout.h"

#include <algorithm>
#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace uroce::nic {
namespace {

absl::Status CheckCap(const char* name, uint32_t value, uint32_t limit) {
  if (value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("qp: ", name, " ", value, " is above ", limit));
}

uint32_t RoundUp(uint32_t value, uint32_t grain) { return (value + grain - 1) / grain * grain; }

uint32_t ReceiveSlotBytes(uint32_t max_sge) {
  const uint32_t sges = static_cast<uint32_t>(sizeof(uroce_sge)) * max_sge;
  return std::bit_ceil(static_cast<uint32_t>(sizeof(uroce_recv_wqe)) + sges);
}

absl::Status CheckCaps(const uroce_qp_cap& wanted, const Limits& limits) {
  const struct {
    const char* name;
    uint32_t value;
    uint32_t limit;
  } rows[] = {
      {"max_send_wr", wanted.max_send_wr, MostEntries(limits.qp_wr)},
      {"max_recv_wr", wanted.max_recv_wr, MostEntries(limits.qp_wr)},
      {"max_send_sge", wanted.max_send_sge, UROCE_MAX_SGE},
      {"max_recv_sge", wanted.max_recv_sge, UROCE_MAX_SGE},
      {"max_inline_data", wanted.max_inline_data, UROCE_MAX_INLINE},
  };
  for (const auto& row : rows) {
    if (absl::Status status = CheckCap(row.name, row.value, row.limit); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

// A send slot fills whole cache lines; the room left in its last line is granted as inline data.
// Receive slots are powers of two, so that none touches more lines than necessary.
absl::StatusOr<QueuePairLayout> LayOutQueuePair(const uroce_qp_cap& wanted, const Limits& limits) {
  if (absl::Status status = CheckCaps(wanted, limits); !status.ok()) return status;
  QueuePairLayout layout;
  layout.granted = wanted;
  if (wanted.max_send_wr != 0) {
    const uint32_t sges = static_cast<uint32_t>(sizeof(uroce_sge)) * wanted.max_send_sge;
    const auto header = static_cast<uint32_t>(sizeof(uroce_send_wqe));
    layout.sq_depth = DepthFor(wanted.max_send_wr, limits.qp_wr);
    layout.sq_slot_bytes = RoundUp(header + std::max(sges, wanted.max_inline_data), UROCE_LINE);
    layout.granted.max_send_wr = layout.sq_depth;
    // Also if none is asked for: rdma_xclient uses the room of its SGE, which devices grant.
    layout.granted.max_inline_data = std::min(layout.sq_slot_bytes - header, UROCE_MAX_INLINE);
  }
  if (wanted.max_recv_wr != 0) {
    layout.rq_depth = DepthFor(wanted.max_recv_wr, limits.qp_wr);
    layout.rq_slot_bytes = ReceiveSlotBytes(wanted.max_recv_sge);
    layout.granted.max_recv_wr = layout.rq_depth;
  }
  layout.sq_offset = sizeof(uroce_qp_page);
  layout.rq_offset = layout.sq_offset + uint64_t{layout.sq_depth} * layout.sq_slot_bytes;
  layout.length_bytes = layout.rq_offset + uint64_t{layout.rq_depth} * layout.rq_slot_bytes;
  return layout;
}

absl::StatusOr<ReceiveRingLayout> LayOutReceiveRing(const char* kind, uint32_t max_wr,
                                                    uint32_t max_sge, const Limits& limits) {
  const uint32_t most = MostEntries(limits.qp_wr);
  if (max_wr == 0 || max_wr > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(kind, ": max_wr ", max_wr, " is not in 1 to ", most));
  }
  if (max_sge > UROCE_MAX_SGE) {
    return absl::InvalidArgumentError(
        absl::StrCat(kind, ": max_sge ", max_sge, " is above ", UROCE_MAX_SGE));
  }
  ReceiveRingLayout layout;
  layout.depth = DepthFor(max_wr, limits.qp_wr);
  layout.slot_bytes = ReceiveSlotBytes(max_sge);
  layout.length_bytes = uint64_t{layout.depth} * layout.slot_bytes;
  return layout;
}

absl::StatusOr<uint32_t> CompletionQueueDepth(uint32_t cqe, const Limits& limits) {
  const uint32_t most = MostEntries(limits.cqe);
  if (cqe != 0 && cqe <= most) return DepthFor(cqe, limits.cqe);
  return absl::InvalidArgumentError(absl::StrCat("cq: cqe ", cqe, " is not in 1 to ", most));
}

CompletionRingLayout LayOutCompletionRing(uint32_t depth) {
  CompletionRingLayout layout;
  layout.entries_offset = sizeof(uroce_cq_ring_page);
  layout.length_bytes = layout.entries_offset + uint64_t{depth} * sizeof(uroce_cqe);
  return layout;
}

}  // namespace uroce::nic
