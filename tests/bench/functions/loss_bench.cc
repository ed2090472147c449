// SPDX-License-Identifier: Apache-2.0
// Measures goodput over a network that loses packets: WRITEs and READs of 1 MB at a simulated 100
// Gb/s and 100 us of round trip, with go-back-N and with selective repeat. Time is virtual: the
// result is the same on every machine. usage: loss_bench [timeout code [window in packets]], by
// default 14 and the default window; with selective repeat the window grows.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <utility>

#include "pipeline/transport/rc_queue_pair.h"
#include "tests/sim/random.h"
#include "tests/transport/script/kept_copies.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kMtu = 4096;
constexpr uint32_t kMessageBytes = 1 << 20;
constexpr uint32_t kMessages = 1024;
constexpr uint32_t kPostedAhead = 16;
constexpr uint8_t kReadsInFlight = 16;
constexpr Nanos kOneWay{50'000};
/// Ethernet with preamble and gap, IPv4, UDP, BTH, ICRC.
constexpr uint32_t kOverheadBytes = 38 + 20 + 8 + 12 + 4;
constexpr uint32_t kPicosPerByte = 80;
constexpr Nanos kLongest{60'000'000'000};

/// One direction of the link: sends one packet at a time, in order, and loses some.
class Direction {
 public:
  Direction(uint32_t lost_in_100000, uint64_t seed) : lost_(lost_in_100000), random_(seed) {}
  Nanos free() const { return free_; }
  Nanos next_arrival() const { return flights_.empty() ? kNever : flights_.front().arrival; }
  void Send(const TxPacket& packet, Nanos now) {
    picos_ += uint64_t{packet.payload_bytes() + kOverheadBytes} * kPicosPerByte;
    free_ = now + Nanos(static_cast<int64_t>(picos_ / 1000));
    picos_ %= 1000;
    if (random_.Below(100'000) < lost_) return;
    flights_.push_back({free_ + kOneWay, AsReceived(packet)});
  }
  std::unique_ptr<PacketCopy> Take() {
    std::unique_ptr<PacketCopy> packet = std::move(flights_.front().packet);
    flights_.pop_front();
    return packet;
  }

 private:
  struct Flight {
    Nanos arrival;
    std::unique_ptr<PacketCopy> packet;
  };
  static std::unique_ptr<PacketCopy> AsReceived(const TxPacket& sent) {
    static constexpr std::array<uint8_t, kMtu> kPayload{};
    wire::Packet packet;
    packet.header = sent.header;
    const bool own = sent.payload_source == TxPacket::Source::kOwn;
    packet.payload = own ? sent.own : std::span(kPayload).first(sent.payload_bytes());
    return std::make_unique<PacketCopy>(packet);
  }
  uint32_t lost_;
  sim::Random random_;
  Nanos free_;
  uint64_t picos_ = 0;
  std::deque<Flight> flights_;
};

struct Settings {
  uint8_t timeout = 14;
  uint32_t window_packets = RcConfig{}.max_in_flight_packets;
  WorkOpcode opcode = WorkOpcode::kWrite;
};

class Run {
 public:
  Run(uint32_t lost_in_100000, bool selective, const Settings& settings)
      : opcode_(settings.opcode),
        config_{.signal_all = true,
                .max_in_flight_packets = settings.window_packets,
                .selective_repeat = selective},
        requester_(config_),
        responder_(config_),
        there_(lost_in_100000, 1),
        back_(lost_in_100000, 2) {
    const QueuePairAttributes attributes{.remote_write = true,
                                         .remote_read = true,
                                         .path_mtu_bytes = kMtu,
                                         .max_rd_atomic = kReadsInFlight,
                                         .max_dest_rd_atomic = kReadsInFlight,
                                         .timeout = settings.timeout,
                                         .retry_count = 7,
                                         .rnr_retry = 7,
                                         .selective_repeat = selective};
    for (RcQueuePair* const qp : {&requester_, &responder_}) {
      for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
        qp->Modify(state, attributes);
      }
    }
  }

  /// The goodput in Gb/s; 0 when the connection failed or took too long.
  double Execute() {
    while (completed_ != kMessages) {
      Post();
      const Nanos next = NextEvent();
      if (next > kLongest || requester_.state() == QpState::kErr) return 0;
      now_ = std::max(now_, next);
      Step();
    }
    return double{kMessageBytes} * kMessages * 8 / static_cast<double>(now_.count());
  }
  const QueuePairCounters& counters() const { return requester_.counters(); }

 private:
  void Post() {
    for (; posted_ != kMessages && posted_ - completed_ < kPostedAhead; ++posted_) {
      SendWork work;
      work.slot = posted_;
      work.opcode = opcode_;
      work.length_bytes = kMessageBytes;
      static_cast<void>(requester_.Post(work));
    }
  }
  Nanos NextEvent() const {
    Nanos next = std::min({there_.next_arrival(), back_.next_arrival(), requester_.NextDeadline()});
    if (requester_.HasPacket()) next = std::min(next, there_.free());
    if (responder_.HasPacket()) next = std::min(next, back_.free());
    return next;
  }
  void Step() {
    if (requester_.NextDeadline() <= now_) requester_.OnDeadline(now_);
    while (there_.next_arrival() <= now_) Deliver(there_.Take()->packet, responder_);
    while (back_.next_arrival() <= now_) Deliver(back_.Take()->packet, requester_);
    TxPacket packet;
    if (there_.free() <= now_ && requester_.PollPacket(now_, packet)) there_.Send(packet, now_);
    if (back_.free() <= now_ && responder_.PollPacket(now_, packet)) back_.Send(packet, now_);
    Completion completion;
    while (requester_.PollCompletion(completion)) ++completed_;
  }
  void Deliver(const wire::Packet& packet, RcQueuePair& to) {
    Receive(packet, to);
    wire::Psn psn;
    while (to.PollKept(psn)) Receive(kept_.Take(psn)->packet, to);
  }
  void Receive(const wire::Packet& packet, RcQueuePair& to) {
    Effect effect;
    static_cast<void>(to.OnPacket(packet, now_, effect));
    if (effect.kind == Effect::Kind::kKeep) kept_.Keep(packet);  // One side asks for that alone.
    if (effect.kind != Effect::Kind::kNone) to.OnEffectDone(EffectOutcome::kDone, 0, now_);
  }

  WorkOpcode opcode_;
  RcConfig config_;
  RcQueuePair requester_;
  RcQueuePair responder_;
  Direction there_;
  Direction back_;
  KeptCopies kept_;
  Nanos now_;
  uint32_t posted_ = 0;
  uint32_t completed_ = 0;
};

void PrintRow(uint32_t lost_in_100000, bool selective, const Settings& settings, double lossless) {
  Run run(lost_in_100000, selective, settings);
  const double goodput = run.Execute();
  const QueuePairCounters& counters = run.counters();
  std::printf("%-5s %6.2f %%  %-16s %8.2f Gb/s %6.1f %%  resent %8lu  timeouts %4lu\n",
              settings.opcode == WorkOpcode::kRead ? "READ" : "WRITE", lost_in_100000 / 1000.0,
              selective ? "selective repeat" : "go-back-N", goodput, 100 * goodput / lossless,
              counters.retransmitted_pkts, counters.local_ack_timeout_err);
}

void PrintTable(const Settings& settings) {
  const double lossless = Run(0, true, settings).Execute();
  for (const uint32_t lost : {0u, 10u, 100u, 1'000u, 2'000u, 5'000u}) {
    for (const bool selective : {false, true}) PrintRow(lost, selective, settings, lossless);
  }
}

}  // namespace
}  // namespace uroce::transport

int main(int argc, char** argv) {
  uroce::transport::Settings settings;
  if (argc > 1) settings.timeout = static_cast<uint8_t>(std::atoi(argv[1]));
  if (argc > 2) settings.window_packets = static_cast<uint32_t>(std::atoi(argv[2]));
  uroce::transport::PrintTable(settings);
  settings.opcode = uroce::transport::WorkOpcode::kRead;
  uroce::transport::PrintTable(settings);
  return 0;
}
