// SPDX-License-Identifier: Apache-2.0
#include "drivers/kernel/socket_frames.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "pipeline/wire/icrc.h"

namespace uroce::drivers {
namespace {

// A frame is compared with so many of the newest groups.
constexpr uint16_t kMostLooks = 8;

// So few messages are read at a time while they are superframes: more would leave the cache before
// they are cut.
constexpr unsigned kFewMessages = 4;

}  // namespace

void FrameGroups::Make(rte_mbuf* const* frames, uint16_t count, bool joins) {
  size_ = 0;
  for (uint16_t i = 0; i < count; ++i) Place(*frames[i], static_cast<uint8_t>(i), joins);
  all_ = size_;
  frames_ = count;
}

bool FrameGroups::KeepOpenGroup() {
  if (size_ < 2) return false;
  const Group& group = groups_[size_ - 1];
  if (group.last + 1 != frames_ || group.first == group.last) return false;
  if (!group.builder->HasRoom()) return false;
  --size_;
  return true;
}

void FrameGroups::Place(rte_mbuf& frame, uint8_t index, bool joins) {
  using Added = wire::SuperframeBuilder::Added;
  next_[index] = kNoFrame;
  const uint16_t looks = joins && !mark_.IsSet(frame) ? std::min(size_, kMostLooks) : 0;
  for (uint16_t back = 1; back <= looks; ++back) {
    Group& group = groups_[size_ - back];
    const Added added = group.builder->Add(FrameBytes(frame));
    if (added == Added::kOtherFlow) continue;
    if (added == Added::kDoesNotFit) break;
    next_[group.last] = index;
    group.last = index;
    return;
  }
  Group& group = groups_[size_++];
  if (mark_.IsSet(frame)) {
    group.builder.emplace(FrameBytes(frame), SuperframeMark::SegmentBytesOf(frame));
  } else {
    group.builder.emplace(FrameBytes(frame));
  }
  group.first = group.last = index;
}

uint16_t FrameGroups::Release(uint16_t sent, rte_mbuf** frames, uint16_t count) const {
  std::array<rte_mbuf*, kMostFrames> ordered;
  uint16_t used = 0;
  uint16_t freed = count;
  for (uint16_t i = 0; i < all_; ++i) {
    if (i == sent) freed = used;
    for (uint8_t at = groups_[i].first; at != kNoFrame; at = next_[at])
      ordered[used++] = frames[at];
  }
  std::copy_n(ordered.begin(), count, frames);
  rte_pktmbuf_free_bulk(frames, freed);
  return freed;
}

SentFrames SuperframeSender::Send(rte_mbuf** frames, uint16_t count, bool goes_on, SendGroups send,
                                  Refusal (*refusal_of)(int)) {
  SentFrames result;
  bool joins = sends_superframes_;
  while (result.frames < count) {
    rte_mbuf** const rest = frames + result.frames;
    const auto left =
        static_cast<uint16_t>(std::min<int>(FrameGroups::kMostFrames, count - result.frames));
    if (!joins && mark_.IsSet(**rest)) [[unlikely]] {
      if (!SendOneByOne(rest, send, result)) break;
      ++result.frames;
      continue;
    }
    groups_.Make(rest, left, joins);
    const bool is_end = result.frames + left == count;
    const bool keeps = goes_on && is_end && groups_.KeepOpenGroup();
    const int sent = send(groups_, rest);
    if (sent > 0) {
      const bool is_done = keeps && sent == groups_.size();
      result.frames += groups_.Release(static_cast<uint16_t>(sent), rest, left);
      if (is_done) break;
      continue;
    }
    if (errno == EAGAIN || errno == ENOBUFS) {
      result.is_full = true;
      break;
    }
    const bool is_superframe = groups_[0].builder->segments() > 1;
    const Refusal refusal = is_superframe ? refusal_of(errno) : Refusal::kNone;
    if (refusal != Refusal::kNone) {
      joins = false;
      sends_superframes_ &= refusal != Refusal::kEver;
      continue;
    }
    result.dropped += groups_[0].builder->segments();
    result.frames += groups_.Release(1, rest, left);
  }
  return result;
}

// The first packet is a frame in place; the one behind it becomes one when the first has left.
bool SuperframeSender::SendOneByOne(rte_mbuf** superframe, SendGroups send, SentFrames& result) {
  rte_mbuf& frame = **superframe;
  for (uint32_t left = PacketsOf(frame); left != 0; --left) {
    const uint16_t whole = frame.data_len;
    const uint16_t segment_bytes = SuperframeMark::SegmentBytesOf(frame);
    const wire::SuperframeBuilder first(FrameBytes(frame), segment_bytes);
    if (left > 1) {
      frame.data_len = static_cast<uint16_t>(first.places().payload_offset + segment_bytes);
    }
    mark_.Clear(frame);
    groups_.Make(superframe, 1, /*joins=*/false);
    // A back end may renumber the packet, but the packets behind it follow its former numbers.
    const wire::UdpFrame& places = first.places();
    const wire::FlowNumbers former = wire::NumbersOf(FrameBytes(frame), places);
    const int sent = send(groups_, superframe);
    wire::Renumber(FrameBytes(frame), places, former.source_port, former.identification);
    mark_.Set(frame, segment_bytes);
    frame.data_len = whole;
    if (sent <= 0 && (errno == EAGAIN || errno == ENOBUFS)) {
      result.is_full = true;
      return false;
    }
    if (sent <= 0) ++result.dropped;
    if (left > 1) DropFirstPacket(frame);
  }
  rte_pktmbuf_free(&frame);
  return true;
}

MessageReader::MessageReader() {
  for (uint16_t i = 0; i < kMost; ++i) {
    buffers_[i] = stock_.Take();
    headers_[i].msg_hdr.msg_control = controls_[i].data();
    headers_[i].msg_hdr.msg_controllen = kControlBytes;
  }
}

bool MessageReader::ReadMessages(int socket) {
  // The kernel has set what it wrote to.
  for (uint16_t i = 0; i < read_; ++i) {
    headers_[i].msg_hdr.msg_controllen = kControlBytes;
    headers_[i].msg_hdr.msg_namelen = source_bytes_;
  }
  const unsigned most = has_superframes_ ? kFewMessages : kMost;
  const int count = recvmmsg(socket, headers_.data(), most, MSG_DONTWAIT, nullptr);
  at_ = read_ = 0;
  if (count <= 0) return false;
  read_ = static_cast<uint16_t>(count);
  has_superframes_ = false;
  return true;
}

rte_mbuf* MessageReader::TakeWhole(rte_mempool* pool) {
  if (superframe_.size() > kMaxFrameBytes) return nullptr;
  LongBuffer* const next = stock_.Take();
  if (next == nullptr) return nullptr;
  rte_mbuf* const frame = rte_pktmbuf_alloc(pool);
  if (frame == nullptr) {
    LongBuffers::GiveBack(next);
    return nullptr;
  }
  LongBuffer* const its = std::exchange(buffers_[at_], next);
  stock_.Lend(*frame, its, static_cast<size_t>(superframe_.data() - its->bytes.data()));
  UseBuffer(at_);
  frame->data_len = static_cast<uint16_t>(superframe_.size());
  frame->pkt_len = frame->data_len;
  mark_.Set(*frame, cutter_->segment_bytes(), *identifications_);
  checked_.Set(*frame);
  return frame;
}

uint16_t MessageReader::ReceiveFrames(rte_mempool* pool, rte_mbuf** frames, uint16_t count,
                                      bool whole, absl::FunctionRef<bool()> read) {
  uint16_t got = 0;
  uint32_t bytes = 0;
  bool may_read = true;
  while (got < count && bytes < kSocketTurn.bytes) {
    if (!has_frames()) {
      if (!may_read || !read()) break;
      may_read = false;
    }
    if (!is_begun_) {
      cutter_.reset();
      identifications_.reset();
      segment_ = 0;
      is_begun_ = true;
      if (!Begin()) {
        ++counts_.dropped;
        End();
        continue;
      }
    }
    if (whole && segment_ == 0 && cutter_ && cutter_->segments() > 1 && identifications_) {
      rte_mbuf* const frame = TakeWhole(pool);
      if (frame != nullptr) {
        frames[got++] = frame;
        bytes += frame->data_len;
        End();
        continue;
      }
    }
    rte_mbuf* const frame = rte_pktmbuf_alloc(pool);
    if (frame == nullptr) break;  // What was read waits for mbufs.
    if (Write(*frame)) {
      frames[got++] = frame;
      bytes += frame->data_len;
    } else {
      ++counts_.dropped;
      rte_pktmbuf_free(frame);
    }
    if (++segment_ >= (cutter_ ? cutter_->segments() : 1)) End();
  }
  return got;
}

}  // namespace uroce::drivers
