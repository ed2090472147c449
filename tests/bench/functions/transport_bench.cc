// SPDX-License-Identifier: Apache-2.0
// Cost of the reliable connection itself, both ends on one core: a 64 B WRITE, and a full packet of
// a long WRITE with encoding, copies and ICRC as the worker does them.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "pipeline/transport/rc_queue_pair.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/icrc.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kBurst = 16;
constexpr uint32_t kFrameBytes = 4352;
constexpr uint32_t kMtu = 4096;

/// Two connected queue pairs.
struct Pair {
  Pair() : a(RcConfig{}), b(RcConfig{}) {
    QueuePairAttributes attributes;
    attributes.remote_write = true;
    attributes.path_mtu_bytes = kMtu;
    attributes.timeout = 14;
    attributes.retry_count = attributes.rnr_retry = 7;
    for (RcQueuePair* qp : {&a, &b}) {
      for (QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
        qp->Modify(state, attributes);
      }
    }
  }
  RcQueuePair a;
  RcQueuePair b;
};

SendWork WriteOf(uint32_t slot, uint32_t length_bytes) {
  SendWork work;
  work.wr_id = work.slot = slot;
  work.opcode = WorkOpcode::kWrite;
  work.signaled = true;
  work.length_bytes = length_bytes;
  work.rkey = Rkey(1);
  return work;
}

/// Moves all packets that wait at `from` to `to`, in one burst; returns their number.
uint32_t Carry(RcQueuePair& from, RcQueuePair& to, Nanos now) {
  static std::array<TxPacket, 2 * kBurst> burst;
  static std::array<uint8_t, kMtu> payload;
  uint32_t count = 0;
  while (count < burst.size() && from.PollPacket(now, burst[count])) ++count;
  wire::Packet packet;
  Effect effect;
  for (uint32_t i = 0; i < count; ++i) {
    packet.header = burst[i].header;
    packet.payload = std::span(payload).first(burst[i].payload_bytes());
    benchmark::DoNotOptimize(to.OnPacket(packet, now, effect));
    if (effect.kind != Effect::Kind::kNone) to.OnEffectDone(EffectOutcome::kDone, 0, now);
  }
  return count;
}

/// One WRITE of 64 B through both ends, with its share of one ACK per burst; no bytes are moved.
void BM_Write64(benchmark::State& state) {
  Pair pair;
  Nanos now;
  uint32_t slot = 0;
  uint64_t completed = 0;
  Completion completion;
  for (auto _ : state) {
    for (uint32_t i = 0; i < kBurst; ++i) {
      benchmark::DoNotOptimize(pair.a.Post(WriteOf(slot++, 64)));
    }
    Carry(pair.a, pair.b, now);
    Carry(pair.b, pair.a, now);
    while (pair.a.PollCompletion(completion)) ++completed;
    now = now + Nanos(1'000);
  }
  if (completed != slot) state.SkipWithError("a WRITE did not complete");
  state.SetItemsProcessed(static_cast<int64_t>(completed));
  state.counters["per_write"] = benchmark::Counter(
      static_cast<double>(completed), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_Write64);

/// The worker's work on frames without a worker: encode, copy with ICRC; decode, check, copy.
class FrameWire {
 public:
  explicit FrameWire(size_t memory_bytes)
      : mask_(memory_bytes - 1), source_(memory_bytes, 1), destination_(memory_bytes) {
    wire::HeaderTemplateConfig config;
    config.source.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    config.destination.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
    path_ = wire::HeaderTemplate(config);
  }

  uint32_t Carry(RcQueuePair& from, RcQueuePair& to, Nanos now) {
    uint32_t count = 0;
    TxPacket packet;
    while (count < kBurst && from.PollPacket(now, packet)) Encode(packet, count++);
    for (uint32_t i = 0; i < count; ++i) Deliver(to, i, now);
    return count;
  }
  bool sound() const { return sound_; }

 private:
  void Encode(const TxPacket& packet, uint32_t index) {
    uint8_t* frame = frames_[index].data();
    const uint32_t size = packet.payload_bytes();
    const wire::EncodedHeaders headers =
        wire::EncodeHeaders(path_, packet.header, size, identification_++, frame);
    uint8_t* payload = frame + headers.length_bytes;
    const uint8_t* source = source_.data() + (packet.local.offset_bytes & mask_);
    const uint32_t crc = wire::CopyCrc32(headers.crc_state, payload, source, size);
    lengths_[index] = headers.length_bytes + size + wire::WriteTrailer(payload + size, size, crc);
  }

  void Deliver(RcQueuePair& to, uint32_t index, Nanos now) {
    const std::span<const uint8_t> frame(frames_[index].data(), lengths_[index]);
    wire::Packet packet;
    wire::FrameView view;
    sound_ = sound_ && wire::Decode(frame, packet, view) == wire::DecodeResult::kOk;
    sound_ = sound_ && wire::IcrcIsRight(frame, view);
    Effect effect;
    benchmark::DoNotOptimize(to.OnPacket(packet, now, effect));
    if (effect.kind == Effect::Kind::kNone) return;
    std::memcpy(destination_.data() + (effect.remote.va & mask_), packet.payload.data(),
                packet.payload.size());
    to.OnEffectDone(EffectOutcome::kDone, 0, now);
  }

  size_t mask_;
  std::vector<uint8_t> source_;
  std::vector<uint8_t> destination_;
  wire::HeaderTemplate path_;
  std::array<std::array<uint8_t, kFrameBytes>, kBurst> frames_;
  std::array<size_t, kBurst> lengths_{};
  uint16_t identification_ = 0;
  bool sound_ = true;
};

/// One 4 KB packet of WRITEs of 1 MB. The argument is the size of the source and of the destination
/// in bytes: the message runs through them repeatedly.
void BM_Write1MPacket(benchmark::State& state) {
  constexpr uint32_t kMessageBytes = 1 << 20;
  Pair pair;
  const auto wire = std::make_unique<FrameWire>(static_cast<size_t>(state.range(0)));
  Nanos now;
  uint32_t slot = 0;
  uint64_t completed = 0;
  Completion completion;
  for (auto _ : state) {
    benchmark::DoNotOptimize(pair.a.Post(WriteOf(slot++, kMessageBytes)));
    while (wire->Carry(pair.a, pair.b, now) + wire->Carry(pair.b, pair.a, now) != 0) {
      now = now + Nanos(1'000);
    }
    while (pair.a.PollCompletion(completion)) ++completed;
  }
  if (completed != slot || !wire->sound()) state.SkipWithError("a WRITE did not complete");
  const int64_t packets = static_cast<int64_t>(completed) * (kMessageBytes / kMtu);
  state.SetItemsProcessed(packets);
  state.SetBytesProcessed(packets * kMtu);
  state.counters["per_packet"] = benchmark::Counter(
      static_cast<double>(packets), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_Write1MPacket)->Arg(4 << 10)->Arg(64 << 10)->Arg(1 << 20);

}  // namespace
}  // namespace uroce::transport
