// SPDX-License-Identifier: Apache-2.0
// Links by which a worker and another thread of the daemon exchange frames: those of the connection
// manager (GSI) and those of the host's own traffic.
#include "pipeline/datapath/frames/frame_link.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "pipeline/base/observation.h"
#include "pipeline/shm/rings/shared_word.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

FrameRing::FrameRing(uint32_t depth_frames, uint32_t slot_bytes)
    : mask_(depth_frames - 1),
      slot_bytes_(slot_bytes),
      bytes_(std::make_unique_for_overwrite<uint8_t[]>(size_t{depth_frames} * slot_bytes)),
      lengths_(std::make_unique_for_overwrite<uint32_t[]>(depth_frames)) {
  assert((depth_frames & mask_) == 0);
}

PutResult FrameRing::Put(std::span<const uint8_t> frame) {
  if (frame.size() > slot_bytes_) return PutResult::kTooLong;
  const std::span<uint8_t> slot = Reserve();
  if (slot.empty()) return PutResult::kFull;
  std::memcpy(slot.data(), frame.data(), frame.size());
  Commit(static_cast<uint32_t>(frame.size()));
  return PutResult::kPut;
}

std::span<uint8_t> FrameRing::Reserve() {
  const uint32_t produced = produced_.load(std::memory_order_relaxed);
  if (produced - consumed_.load(std::memory_order_acquire) > mask_) return {};
  return {Slot(produced), slot_bytes_};
}

void FrameRing::Commit(uint32_t length_bytes) {
  const uint32_t produced = produced_.load(std::memory_order_relaxed);
  lengths_[produced & mask_] = length_bytes;
  produced_.store(produced + 1, std::memory_order_release);
}

std::span<const uint8_t> FrameRing::Front() const {
  const uint32_t consumed = consumed_.load(std::memory_order_relaxed);
  if (produced_.load(std::memory_order_acquire) == consumed) return {};
  return {Slot(consumed), lengths_[consumed & mask_]};
}

void FrameRing::Pop() {
  consumed_.store(consumed_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

FrameLink::FrameLink(uint32_t depth_frames, uint32_t slot_bytes)
    : inbound_(depth_frames, slot_bytes),
      outbound_(depth_frames, slot_bytes),
      wait_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

FrameLink::~FrameLink() { close(wait_fd_); }

bool FrameLink::Hand(std::span<const uint8_t> frame) {
  const bool put = inbound_.Put(frame) == PutResult::kPut;
  Count(put ? counters_.received : counters_.rx_discards);
  handed_ |= put;
  return put;
}

void FrameLink::Flush() {
  if (!handed_) return;
  handed_ = false;
  rings::FullFence();
  if (!asleep_.load(std::memory_order_relaxed)) return;
  asleep_.store(false, std::memory_order_relaxed);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wait_fd_, &one, sizeof(one));
}

void FrameLink::ClearWake() {
  uint64_t events = 0;
  [[maybe_unused]] const ssize_t got = read(wait_fd_, &events, sizeof(events));
}

bool FrameLink::PrepareSleep() {
  asleep_.store(true, std::memory_order_relaxed);
  rings::FullFence();
  return inbound_.empty();
}

bool FrameLink::Send(std::span<const uint8_t> frame) {
  if (outbound_.Put(frame) == PutResult::kPut) return true;
  Count(counters_.tx_discards);
  return false;
}

namespace {

constexpr uint16_t kEtherTypeArp = 0x0806;
constexpr uint8_t kProtocolHopByHop = 0;
constexpr uint8_t kProtocolIcmp = 1;
constexpr uint8_t kProtocolIgmp = 2;
constexpr uint8_t kProtocolIcmpv6 = 58;

bool IsTo(std::span<const uint8_t> frame, const Mac& mac) {
  if (frame.size() < sizeof(wire::EthernetHeader)) return false;
  return (frame[0] & 1) != 0 || std::equal(mac.begin(), mac.end(), frame.begin());
}

// Whether decoding failed for a reason that does not say that a frame is RoCE: a fragment or a
// packet with options may be of any protocol.
bool MayBeOthers(wire::DecodeResult result) {
  return wire::ClassOf(result) == wire::DecodeClass::kNotRoce ||
         result == wire::DecodeResult::kIpOptions || result == wire::DecodeResult::kFragment;
}

}  // namespace

bool HostLink::Offer(wire::DecodeResult result, std::span<const uint8_t> frame, const Mac& mac) {
  if (!Wants(result, frame, mac)) return false;
  Hand(frame);
  return true;
}

bool HostLink::Wants(wire::DecodeResult result, std::span<const uint8_t> frame,
                     const Mac& mac) const {
  if (!MayBeOthers(result) || !IsTo(frame, mac)) return false;
  return takes_ == Takes::kEverything || IsHostProtocol(frame);
}

bool IsHostProtocol(std::span<const uint8_t> frame) {
  size_t at = sizeof(wire::EthernetHeader);
  if (frame.size() < at) return false;
  uint16_t ether_type = static_cast<uint16_t>(frame[at - 2] << 8 | frame[at - 1]);
  if (ether_type == wire::kEtherTypeVlan) {
    at += sizeof(wire::VlanTag);
    if (frame.size() < at) return false;
    ether_type = static_cast<uint16_t>(frame[at - 2] << 8 | frame[at - 1]);
  }
  if (ether_type == kEtherTypeArp) return true;
  if (ether_type == wire::kEtherTypeIpv4) {
    at += offsetof(wire::Ipv4Header, protocol);
    if (at >= frame.size()) return false;
    return frame[at] == kProtocolIcmp || frame[at] == kProtocolIgmp;
  }
  if (ether_type != wire::kEtherTypeIpv6) return false;
  at += offsetof(wire::Ipv6Header, next_header);
  if (at >= frame.size()) return false;
  return frame[at] == kProtocolIcmpv6 || frame[at] == kProtocolHopByHop;
}

}  // namespace uroce::datapath
