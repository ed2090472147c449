// SPDX-License-Identifier: Apache-2.0
// From a received frame to the queue pair that it is for: the checks that every packet must pass,
// copies for the members of a group, frames for other workers.
#include "pipeline/datapath/worker/receiver.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <bit>

#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/wire/gsi.h"

namespace uroce::datapath {
namespace {

// A group is joined on all VLANs of a device.
bool IsInVlan(const Device& device, uint16_t vlan_id) {
  return std::ranges::any_of(device.addresses, [vlan_id](const Device::Address& address) {
    return address.vlan_id == vlan_id;
  });
}

uint8_t ReasonOf(wire::GsiResult result) {
  switch (result) {
    case wire::GsiResult::kOk:
    case wire::GsiResult::kNotGsi:
      return UROCE_REASON_NONE;
    case wire::GsiResult::kBadOpcode:
      return UROCE_REASON_BAD_OPCODE;
    case wire::GsiResult::kBadQkey:
      return UROCE_REASON_BAD_QKEY;
    case wire::GsiResult::kBadLength:
      return UROCE_REASON_MESSAGE_REFUSED;
  }
  return UROCE_REASON_NONE;
}

/// Whether `qp` has sent to where the packet comes from.
bool IsFromAPeer(const QueuePair& qp, const wire::Packet& packet, const wire::FrameView& view) {
  if (!qp.core().is_datagram()) return IsFromPeer(qp.path(), packet, view);
  return std::ranges::any_of(qp.flow().paths, [&](uint32_t handle) {
    const AddressVector* const vector = qp.config().session->FindAddress(handle);
    return vector != nullptr && vector->pd() == qp.config().pd &&
           IsFromPeer(vector->path(), packet, view);
  });
}

}  // namespace

bool Admission::IsCnpFor(const QueuePair* qp, DevicePort& port, const wire::Packet& packet,
                         const wire::FrameView& view, const rte_mbuf* frame) {
  const bool reacts =
      qp != nullptr && TakesPackets(qp->state()) && port.CongestionOf(qp->traffic_class()).reacts();
  if (!reacts || !IsFromAPeer(*qp, packet, view)) {
    return recorder_.Drop(port.counters().rp_cnp_ignored, UROCE_REASON_CNP_IGNORED);
  }
  return Admit(port, packet, view, frame, true);
}

bool Admission::IsForGsi(GsiLink& link, DevicePort& port, const wire::Packet& packet,
                         const wire::FrameView& view, const rte_mbuf* frame) {
  const wire::GsiResult result = wire::CheckGsi(packet.header, packet.payload.size());
  if (result != wire::GsiResult::kOk) {
    return recorder_.Drop(link.counters().rx_refused, ReasonOf(result));
  }
  return Admit(port, packet, view, frame, IsForDevice(port.device(), packet, view));
}

bool Admission::IsForGroup(DevicePort& port, const wire::Packet& packet,
                           const wire::FrameView& view, const rte_mbuf* frame) {
  DeviceCounters& counters = port.counters();
  const Device& device = port.device();
  if (!device.groups.contains(packet.destination) ||
      !IsInVlan(device, view.vlan_tci & kVlanIdMask)) {
    recorder_.Begin();  // No queue pair here is in the group.
    return recorder_.Drop(counters.rx_not_roce, UROCE_REASON_NOT_ROCE);
  }
  if (packet.congestion_experienced) Count(counters.np_ecn_marked_roce_packets);
  if (ServiceOf(packet.header.opcode) != wire::Service::kUd) {
    return recorder_.Drop(counters.rx_bad_opcode, UROCE_REASON_BAD_OPCODE);
  }
  // A mark on a multicast packet gets no CNP: that would report one path among many to the sender.
  return Admit(port, packet, view, frame, true);
}

namespace {

// Whether the member itself sent the packet: a queue pair does not receive its own datagrams.
bool IsFromMember(const Device& device, const QueuePair& member, const wire::Packet& packet) {
  return packet.header.deth.source_qpn == member.qpn() && device.HasAddress(packet.source);
}

}  // namespace

MulticastReceiver::~MulticastReceiver() {
  for (const Waiting& each : waiting_) rte_pktmbuf_free(each.frame);
}

bool MulticastReceiver::BeginTurn() {
  copies_ = 0;
  if (waiting_.empty()) [[likely]]
    return false;
  while (!waiting_.empty() && copies_ < kCopiesOfTurn) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    DevicePort* const port = context_.ports.At(next.port);
    wire::Packet packet;
    wire::FrameView view;
    if (port != nullptr && DecodeAgain(*next.frame, packet, view)) {
      DeliverToMembers(*port, packet, next.frame);
    }
    rte_pktmbuf_free(next.frame);
  }
  return true;
}

bool MulticastReceiver::Receive(DevicePort& port, const wire::Packet& packet,
                                const wire::FrameView& view, rte_mbuf* frame) {
  const bool of_other_worker = mark_.IsSet(*frame);
  if (!of_other_worker) {
    const bool is_taken = context_.admission.IsForGroup(port, packet, view, frame);
    context_.recorder.Record(port, frame);
    if (!is_taken) return false;
    Count(port.counters().multicast_rcv_packets);
    GiveToOthers(port, packet, frame);
  }
  if (!waiting_.empty() || copies_ >= kCopiesOfTurn) return Keep(port, frame, of_other_worker);
  DeliverToMembers(port, packet, frame);
  return false;
}

// Of a port at most one burst waits (HasWaiting).
bool MulticastReceiver::Keep(DevicePort& port, rte_mbuf* frame, bool of_other_worker) {
  if (of_other_worker && waiting_.size() >= kMostWaiting) {
    Count(port.counters().rx_cross_worker_full);
    return false;
  }
  waiting_.push_back({port.position(), frame});
  return true;
}

bool MulticastReceiver::HasWaiting(const DevicePort& port) const {
  return std::ranges::any_of(waiting_,
                             [&](const Waiting& each) { return each.port == port.position(); });
}

void MulticastReceiver::GiveToOthers(DevicePort& port, const wire::Packet& packet,
                                     const rte_mbuf* frame) {
  WorkerSet others = 0;
  for (const Device::Member& member : port.device().groups.find(packet.destination)->second) {
    if (member.worker != context_.worker) others |= SetOf(member.worker);
  }
  for (; others != 0; others &= others - 1) {
    rte_mbuf* const copy = Copy(port, *frame);
    if (copy == nullptr) return;
    if (!context_.hand_over.Give(port, copy, static_cast<uint32_t>(std::countr_zero(others)))) {
      rte_pktmbuf_free(copy);
    }
  }
}

void MulticastReceiver::DeliverToMembers(DevicePort& port, const wire::Packet& packet,
                                         const rte_mbuf* frame) {
  // The group may have gone since another worker looked.
  const auto group = port.device().groups.find(packet.destination);
  if (group == port.device().groups.end()) return;
  for (const Device::Member& member : group->second) {
    QueuePair& qp = *member.queue_pair;
    if (member.worker != context_.worker || IsFromMember(port.device(), qp, packet)) continue;
    if (!TakesPackets(qp.state())) {
      Count(port.counters().rx_bad_state);
      continue;
    }
    rte_mbuf* const copy = Copy(port, *frame);
    if (copy == nullptr) return;
    ++copies_;
    Deliver(qp, copy);
  }
}

void MulticastReceiver::Deliver(QueuePair& qp, rte_mbuf* copy) {
  wire::Packet packet;
  wire::FrameView view;
  const bool decoded = DecodeAgain(*copy, packet, view);
  context_.recorder.Begin(packet);
  const bool kept = decoded && context_.executor.Receive(qp, packet, view, copy);
  if (!kept) rte_pktmbuf_free(copy);
}

rte_mbuf* MulticastReceiver::Copy(DevicePort& port, const rte_mbuf& frame) {
  rte_mbuf* const copy = context_.stash.Copy(frame, port.counters());
  if (copy != nullptr) mark_.Set(*copy);
  return copy;
}

namespace {

void Prefetch(const rte_mbuf* frame) {
  const uint8_t* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
  rte_prefetch0(bytes);
  rte_prefetch0(bytes + 64);
}

/// Reads the queue pair number of a frame of the usual format. A hint: nothing is checked.
Qpn PeekQpn(const rte_mbuf* frame) {
  constexpr uint32_t kIpv4Offset = 14 + 20 + 8 + 5;
  constexpr uint32_t kIpv6Offset = 14 + 40 + 8 + 5;
  const uint8_t* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
  if (frame->data_len < kIpv6Offset + 4 + 3) return Qpn();
  if (bytes[12] == 0x81) bytes += 4;  // 802.1Q.
  bytes += bytes[12] == 0x08 ? kIpv4Offset : kIpv6Offset;
  return Qpn(uint32_t{bytes[0]} << 16 | uint32_t{bytes[1]} << 8 | bytes[2]);
}

/// Prefetches what each frame of a burst needs, some frames ahead: its headers, its place in the
/// table, its queue pair and what that points to. Each step needs the one before it. A burst of one
/// frame has nothing to prefetch.
class LookAhead {
 public:
  LookAhead(const QpnTable& table, rte_mbuf* const* frames, uint32_t count)
      : table_(table), frames_(frames), count_(count > 1 ? count : 0) {
    if (count_ == 0) return;
    for (uint32_t at = 0; at < std::min(count_, kHeaders); ++at) Prefetch(frames_[at]);
    for (uint32_t at = 0; at < std::min(count_, kNumbers); ++at) FindNumber(at);
    for (uint32_t at = 0; at < std::min(count_, kQueuePairs); ++at) FindQueuePair(at);
  }

  /// Called before the frame at `at` is handled.
  void Step(uint32_t at) {
    if (at + kHeaders < count_) Prefetch(frames_[at + kHeaders]);
    if (at + kNumbers < count_) FindNumber(at + kNumbers);
    if (at + kQueuePairs < count_) FindQueuePair(at + kQueuePairs);
    if (at + 1 >= count_) return;
    const QueuePair* const next = found_[(at + 1) % kRing];
    if (next != nullptr) next->works().PrefetchReceive();
  }

 private:
  static constexpr uint32_t kHeaders = 8;
  static constexpr uint32_t kNumbers = 6;
  static constexpr uint32_t kQueuePairs = 4;
  static constexpr uint32_t kRing = 8;

  void FindNumber(uint32_t at) {
    const Qpn number = PeekQpn(frames_[at]);
    numbers_[at % kRing] = number.value();
    table_.Prefetch(number);
  }
  void FindQueuePair(uint32_t at) {
    const uint32_t number = numbers_[at % kRing];
    const bool is_known = at > 0 && number == numbers_[(at - 1) % kRing];
    const QueuePair* const found = is_known ? nullptr : table_.Find(Qpn(number));
    found_[at % kRing] = found;
    if (found != nullptr) found->Prefetch();
  }

  const QpnTable& table_;
  rte_mbuf* const* const frames_;
  const uint32_t count_;
  // For the frames ahead; not cleared, since most bursts are short.
  std::array<uint32_t, kRing> numbers_;
  std::array<const QueuePair*, kRing> found_;
};

}  // namespace

Receiver::Receiver(const ReceiveContext& context)
    : context_(context),
      admission_(context.recorder),
      hand_over_(context.cross_worker, context.recorder, context.counters.handed_over),
      multicast_({.worker = context.cross_worker.index(),
                  .ports = context.ports,
                  .admission = admission_,
                  .recorder = context.recorder,
                  .stash = context.stash,
                  .hand_over = hand_over_,
                  .executor = context.executor}) {}

bool Receiver::Receive() {
  bool any = multicast_.BeginTurn();
  bool has_more = false;
  for (const auto& port : context_.ports) {
    any |= ReceiveFrom(*port);
    has_more |= port->has_more();
  }
  has_more_ = has_more || multicast_.any_waits();
  return any;
}

bool Receiver::ReceiveFrom(DevicePort& port) {
  if (multicast_.any_waits() && multicast_.HasWaiting(port)) [[unlikely]]
    return false;
  std::array<rte_mbuf*, DevicePort::kMostReceived> frames;
  const uint16_t count = port.Receive(frames.data(), context_.time.now());
  if (count == 0) return false;
  LookAhead ahead(context_.queue_pairs, frames.data(), count);
  uint16_t done = 0;  // Frames to free: kept ones are left out.
  for (uint16_t i = 0; i < count; ++i) {
    ahead.Step(i);
    rte_mbuf* const frame = frames[i];
    const bool kept = mark_.IsSet(*frame) ? OnSuperframe(port, frame) : OnFrame(port, frame);
    if (!kept) frames[done++] = frame;
  }
  rte_pktmbuf_free_bulk(frames.data(), done);
  port.WakeHost();
  return true;
}

bool Receiver::TakeFromOtherWorkers() {
  std::array<rte_mbuf*, 2 * kBurst> frames;
  CrossWorkerLink& others = context_.cross_worker;
  const uint16_t count = others.Take(frames.data(), static_cast<uint16_t>(frames.size()));
  Count(context_.counters.taken_over, count);
  has_more_ |= count == frames.size();
  LookAhead ahead(context_.queue_pairs, frames.data(), count);
  uint16_t done = 0;
  for (uint16_t i = 0; i < count; ++i) {
    ahead.Step(i);
    rte_mbuf* const frame = frames[i];
    DevicePort* const port = context_.ports.At(CrossWorkerLink::PositionOf(*frame));
    const bool kept = port != nullptr &&
                      (mark_.IsSet(*frame) ? OnSuperframe(*port, frame) : OnFrame(*port, frame));
    if (!kept) frames[done++] = frame;
    if (port != nullptr) port->WakeHost();
  }
  rte_pktmbuf_free_bulk(frames.data(), done);
  // Wakes the owners of frames that came in here for other workers and were given to them above.
  others.WakeTakers();
  return count != 0;
}

QueuePair* Receiver::Steer(const DevicePort& port, Qpn number) const {
  QueuePair* const qp = context_.queue_pairs.Find(number);
  return qp != nullptr && &qp->port() == &port ? qp : nullptr;
}

bool Receiver::OnPacket(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
                        rte_mbuf* frame) {
  if (admission_.IsForPort(port, packet, view)) {
    QueuePair* const qp = Steer(port, packet.header.dest_qpn);
    if (packet.header.opcode == wire::Opcode::kCnp) [[unlikely]] {
      OnCnp(port, qp, packet, view, frame);
    } else if (qp == nullptr) {
      OnStrangePacket(port, packet, view, frame);
    } else if (admission_.IsForQueuePair(*qp, port, packet, view, frame)) {
      if (packet.congestion_experienced) [[unlikely]] {
        context_.congestion.OnMarked(*qp, packet, view, frame);
      }
      return context_.executor.Receive(*qp, packet, view, frame);
    }
  }
  context_.recorder.Record(port, frame);
  return false;
}

void Receiver::OnCnp(DevicePort& port, QueuePair* qp, const wire::Packet& packet,
                     const wire::FrameView& view, const rte_mbuf* frame) {
  if (!admission_.IsCnpFor(qp, port, packet, view, frame)) return;
  DeviceCounters& counters = port.counters();
  if (context_.congestion.OnCnp(*qp)) {
    Count(counters.rp_cnp_handled);
    context_.recorder.SetReason(UROCE_REASON_CNP_HANDLED);
    context_.recorder.SetRate(CongestionControl::RateMbps(*qp));
  } else {
    context_.recorder.Drop(counters.rp_cnp_ignored, UROCE_REASON_CNP_IGNORED);
  }
}

bool Receiver::GivesWhole(const DevicePort& port, const Decoded& first, uint32_t& owner) const {
  if (first.result != wire::DecodeResult::kOk) return false;
  if (!context_.recorder.taps().list.empty()) return false;  // Captures see packets.
  owner = context_.cross_worker.OwnerOf(first.packet.header.dest_qpn);
  return owner != context_.cross_worker.index() && first.view.destination == port.device().mac;
}

uint32_t Receiver::TakeRun(DevicePort& port, const wire::SuperframeCutter& cutter, uint32_t index,
                           const Decoded& decoded, const rte_mbuf& frame) {
  if (decoded.result != wire::DecodeResult::kOk || !checked_.IsSet(frame)) return 0;
  const wire::Packet& packet = decoded.packet;
  const Qpn number = packet.header.dest_qpn;
  if (context_.cross_worker.OwnerOf(number) != context_.cross_worker.index()) return 0;
  QueuePair* const qp = Steer(port, number);
  if (qp == nullptr || !Admission::WouldAdmit(*qp, port, packet, decoded.view)) return 0;
  const wire::SegmentRun run = cutter.FindRun(index);
  if (run.packets < 2) return 0;
  return context_.executor.ReceiveRun(*qp, packet, run, frame.data_len) ? run.packets : 0;
}

bool Receiver::OnSuperframe(DevicePort& port, rte_mbuf* superframe) {
  const auto cutter = wire::SuperframeCutter::Make(
      BytesOf(*superframe), drivers::SuperframeMark::SegmentBytesOf(*superframe));
  if (!cutter) return false;
  const wire::Identifications identifications = mark_.IdentificationsOf(*superframe);
  cutter->WriteHeaders(0, identifications, rte_pktmbuf_mtod(superframe, uint8_t*));
  Decoded first;
  first.result =
      wire::Decode(BytesOf(*superframe).first(cutter->FrameBytes(0)), first.packet, first.view);
  uint32_t owner = 0;
  if (GivesWhole(port, first, owner)) {
    if (hand_over_.Give(port, superframe, owner)) return true;
    Count(port.counters().rx_cross_worker_full, cutter->segments() - 1);
    return false;
  }
  const uint16_t begin = superframe->data_off;
  mark_.Clear(*superframe);
  bool is_kept = false;
  bool takes_runs = true;
  for (uint32_t i = 0; i < cutter->segments(); ++i) {
    rte_mbuf* const frame = is_kept ? context_.stash.Take(port.counters()) : superframe;
    if (frame == nullptr) break;
    const uint32_t bytes = cutter->FrameBytes(i);
    if (!is_kept) {
      const uint32_t offset = cutter->PayloadOffset(i) - cutter->places().payload_offset;
      frame->data_off = static_cast<uint16_t>(begin + offset);
      cutter->WriteHeaders(i, identifications, rte_pktmbuf_mtod(frame, uint8_t*));
    } else if (bytes <= rte_pktmbuf_tailroom(frame)) {
      cutter->Write(i, identifications, rte_pktmbuf_mtod(frame, uint8_t*));
    } else {
      context_.stash.Return(frame);
      Count(port.counters().no_buffer);
      break;
    }
    frame->data_len = static_cast<uint16_t>(bytes);
    frame->pkt_len = bytes;
    port.CountReceived(bytes);
    bool kept;
    if (first.result == wire::DecodeResult::kOk) {
      Decoded its = first;
      if (i != 0) its.result = wire::DecodeSegment(BytesOf(*frame), its.packet, its.view);
      if (takes_runs && !is_kept && wire::InfoOf(its.packet.header.opcode).is_middle()) {
        const uint32_t packets = TakeRun(port, *cutter, i, its, *frame);
        takes_runs = packets != 0;
        if (takes_runs) {
          port.CountReceived((packets - 1) * bytes, packets - 1);
          i += packets - 1;
          continue;
        }
      }
      kept = OnDecoded(port, frame, its);
    } else {
      kept = OnFrame(port, frame);
    }
    if (is_kept && !kept) rte_pktmbuf_free(frame);
    is_kept |= kept;
  }
  return is_kept;
}

bool Receiver::OnFrame(DevicePort& port, rte_mbuf* frame) {
  Decoded decoded;
  decoded.result = wire::Decode(BytesOf(*frame), decoded.packet, decoded.view);
  return OnDecoded(port, frame, decoded);
}

bool Receiver::OnDecoded(DevicePort& port, rte_mbuf* frame, const Decoded& decoded) {
  if (decoded.result != wire::DecodeResult::kOk) return OnOtherFrame(port, frame, decoded.result);
  const wire::Packet& packet = decoded.packet;
  const wire::FrameView& view = decoded.view;
  context_.recorder.Begin(packet);
  if (packet.header.dest_qpn == kMulticastQpn && (view.destination[0] & 1) != 0) [[unlikely]] {
    return multicast_.Receive(port, packet, view, frame);
  }
  const uint32_t owner = context_.cross_worker.OwnerOf(packet.header.dest_qpn);
  if (owner != context_.cross_worker.index() && view.destination == port.device().mac) {
    return hand_over_.Give(port, frame, owner);
  }
  return OnPacket(port, packet, view, frame);
}

bool Receiver::OnOtherFrame(DevicePort& port, rte_mbuf* frame, wire::DecodeResult decoded) {
  Device& device = port.device();
  HostLink* const host = device.host_link;
  context_.recorder.Begin();
  const uint32_t server = device.host_worker();
  if (host != nullptr && server != context_.cross_worker.index() &&
      host->Wants(decoded, BytesOf(*frame), device.mac)) {
    return hand_over_.Give(port, frame, server);
  }
  if (host == nullptr || !host->Offer(decoded, BytesOf(*frame), device.mac)) {
    context_.recorder.DropUndecoded(port.counters(), decoded);
  }
  context_.recorder.Record(port, frame);
  return false;
}

// Queue pair 1 belongs to no program: its datagrams go to the control thread, as copies.
void Receiver::OnStrangePacket(DevicePort& port, const wire::Packet& packet,
                               const wire::FrameView& view, const rte_mbuf* frame) {
  GsiLink* const link = port.device().gsi_link;
  if (packet.header.dest_qpn != wire::kGsiQpn || link == nullptr) {
    context_.recorder.Drop(port.counters().rx_unknown_qpn, UROCE_REASON_UNKNOWN_QPN);
    return;
  }
  if (!admission_.IsForGsi(*link, port, packet, view, frame)) return;
  if (link->Hand(BytesOf(*frame))) return link->Flush();
  context_.recorder.DropUncounted(UROCE_REASON_NO_RECEIVE);
}

}  // namespace uroce::datapath
