// SPDX-License-Identifier: Apache-2.0
#include "pipeline/port/superframes.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace uroce::drivers {
namespace {

const SuperframeMark& Mark() {
  static const SuperframeMark mark;
  return mark;
}

std::optional<wire::SuperframeCutter> CutterOf(const rte_mbuf& frame) {
  return wire::SuperframeCutter::Make({rte_pktmbuf_mtod(&frame, const uint8_t*), frame.data_len},
                                      SuperframeMark::SegmentBytesOf(frame));
}

}  // namespace

uint32_t PacketsOf(const rte_mbuf& frame) {
  if (!Mark().IsSet(frame)) return 1;
  const auto cutter = CutterOf(frame);
  return cutter ? cutter->segments() : 1;
}

uint32_t CutSuperframe(rte_mbuf* superframe, rte_mempool* pool,
                       absl::FunctionRef<void(rte_mbuf*)> take) {
  const auto cutter = CutterOf(*superframe);
  const uint32_t packets = cutter ? cutter->segments() : 0;
  uint32_t lost = 0;
  for (uint32_t i = 0; i < packets; ++i) {
    rte_mbuf* const frame = pool == nullptr ? nullptr : rte_pktmbuf_alloc(pool);
    const uint32_t bytes = cutter->FrameBytes(i);
    if (frame == nullptr || bytes > rte_pktmbuf_tailroom(frame)) {
      rte_pktmbuf_free(frame);
      ++lost;
      continue;
    }
    cutter->Write(i, Mark().IdentificationsOf(*superframe), rte_pktmbuf_mtod(frame, uint8_t*));
    frame->data_len = static_cast<uint16_t>(bytes);
    frame->pkt_len = bytes;
    SetDestination(*frame, DestinationOf(*superframe));
    take(frame);
  }
  rte_pktmbuf_free(superframe);
  return lost;
}

void DropFirstPacket(rte_mbuf& superframe) {
  const auto cutter = CutterOf(superframe);
  const uint32_t offset = cutter->PayloadOffset(1) - cutter->places().payload_offset;
  uint8_t* const second = rte_pktmbuf_mtod_offset(&superframe, uint8_t*, offset);
  cutter->WriteHeaders(1, Mark().IdentificationsOf(superframe), second);
  superframe.data_off = static_cast<uint16_t>(superframe.data_off + offset);
  superframe.data_len = static_cast<uint16_t>(superframe.data_len - offset);
  superframe.pkt_len = superframe.data_len;
}

LongBuffers::LongBuffers(size_t count) : stock_(std::make_shared<Stock>()) {
  for (size_t i = 0; i < count; ++i)
    stock_->push_back(std::make_unique_for_overwrite<LongBuffer>());
}

// The first free one is the one that is most likely to be in the cache.
LongBuffer* LongBuffers::Take() {
  for (const auto& buffer : *stock_) {
    if (buffer->is_taken_.load(std::memory_order_acquire)) continue;
    buffer->is_taken_.store(true, std::memory_order_relaxed);
    return buffer.get();
  }
  return nullptr;
}

void LongBuffers::Lend(rte_mbuf& frame, LongBuffer* buffer, size_t offset) const {
  buffer->stock_ = stock_;
  buffer->shared_.free_cb = [](void* /*bytes*/, void* opaque) {
    auto* const its = static_cast<LongBuffer*>(opaque);
    const std::shared_ptr<void> stock = std::move(its->stock_);
    GiveBack(its);
  };
  buffer->shared_.fcb_opaque = buffer;
  rte_mbuf_ext_refcnt_set(&buffer->shared_, 1);
  const size_t length = std::min<size_t>(LongBuffer::kBytes - offset, kMaxFrameBytes);
  rte_pktmbuf_attach_extbuf(&frame, buffer->bytes.data() + offset, RTE_BAD_IOVA,
                            static_cast<uint16_t>(length), &buffer->shared_);
}

}  // namespace uroce::drivers
