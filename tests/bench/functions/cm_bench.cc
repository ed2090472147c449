// SPDX-License-Identifier: Apache-2.0
// Measures connections of the rdma_cm service through a worker and the in-process wire: the time of
// one, and the number per second. Programs and their queue pairs are left out.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "tests/nic/connections/rdma_cm_bed.h"

namespace uroce::nic {
namespace {

using rdma_cm::EndpointId;
using rdma_cm::Event;
using rdma_cm::EventKind;

constexpr uint16_t kPort = 7471;
constexpr int kRounds = 2000;
constexpr int kAtOnce = 64;
constexpr Nanos kThroughputTime{3'000'000'000};
constexpr Nanos kResolveTime{1'000'000'000};

rdma_cm::ConnectionParameters NextQpn() {
  static uint32_t qpn = 0x1000;
  rdma_cm::ConnectionParameters parameters;
  parameters.qpn = Qpn(++qpn & 0xffffff);
  return parameters;
}

/// A client and a server that react to events, with what a test wants of each connection.
class Pair {
 public:
  explicit Pair(RdmaCmBed& bed) : bed_(bed), client_(bed), server_(bed) {
    const EndpointId listener = server_.Create();
    static_cast<void>(server_.client->Bind(listener, WireAddress(2, kPort)));
    static_cast<void>(server_.client->Listen(listener, 0));
  }

  void Begin() {
    static_cast<void>(client_.client->ResolveAddress(client_.Create(), nullptr,
                                                     WireAddress(2, kPort), kResolveTime));
  }
  /// Handles the waiting events.
  void Step() {
    for (; !client_.events.empty(); client_.events.pop_front()) OnClient(client_.events.front());
    for (; !server_.events.empty(); server_.events.pop_front()) OnServer(server_.events.front());
  }
  void TurnUntil(int established) {
    while (established_ < established) {
      bed_.Turn(10);
      Step();
    }
  }

  bool repeat = false;  ///< Starts another connection as soon as one has ended.
  int established() const { return established_; }
  int ended() const { return ended_; }
  Nanos connected_at() const { return connected_at_; }
  Nanos established_at() const { return established_at_; }

 private:
  void OnClient(const Event& event) {
    rdma_cm::Client& its = *client_.client;
    if (event.kind == EventKind::kAddressResolved) {
      static_cast<void>(its.ResolveRoute(event.id));
    } else if (event.kind == EventKind::kRouteResolved) {
      connected_at_ = Nic::Now();
      static_cast<void>(its.Connect(event.id, NextQpn()));
    } else if (event.kind == EventKind::kConnectResponse) {
      static_cast<void>(its.Establish(event.id));
    } else if (event.kind == EventKind::kDisconnected) {
      static_cast<void>(its.Destroy(event.id));
      ++ended_;
      if (repeat) Begin();
    }
  }
  void OnServer(const Event& event) {
    rdma_cm::Client& its = *server_.client;
    if (event.kind == EventKind::kConnectRequest) {
      static_cast<void>(its.TakeRequest(event.id));
      static_cast<void>(its.Accept(event.id, NextQpn()));
    } else if (event.kind == EventKind::kEstablished) {
      established_at_ = Nic::Now();
      ++established_;
      static_cast<void>(its.Disconnect(event.id));
    } else if (event.kind == EventKind::kDisconnected) {
      static_cast<void>(its.Destroy(event.id));
    }
  }

  RdmaCmBed& bed_;
  RdmaCmProgram client_;
  RdmaCmProgram server_;
  int established_ = 0;
  int ended_ = 0;
  Nanos connected_at_{0};
  Nanos established_at_{0};
};

void MeasureLatency(RdmaCmBed& bed) {
  Pair pair(bed);
  std::vector<int64_t> times;
  for (int round = 1; round <= kRounds; ++round) {
    pair.Begin();
    pair.TurnUntil(round);
    times.push_back((pair.established_at() - pair.connected_at()).count());
    while (pair.ended() < round) {
      bed.Turn(10);
      pair.Step();
    }
  }
  std::ranges::sort(times);
  const auto at = [&](double share) {
    return static_cast<double>(times[static_cast<size_t>(share * (kRounds - 1))]) / 1000;
  };
  std::printf("connect to established: median %.1f us, p99 %.1f us\n", at(0.5), at(0.99));
}

void MeasureRate(RdmaCmBed& bed) {
  Pair pair(bed);
  pair.repeat = true;
  for (int i = 0; i < kAtOnce; ++i) pair.Begin();
  const Nanos start = Nic::Now();
  while (Nic::Now() - start < kThroughputTime) {
    bed.Turn(10);
    pair.Step();
  }
  const double seconds = static_cast<double>((Nic::Now() - start).count()) / 1e9;
  std::printf("%d at once: %.0f connections a second, made and ended\n", kAtOnce,
              pair.ended() / seconds);
  pair.repeat = false;
}

}  // namespace
}  // namespace uroce::nic

int main() {
  uroce::nic::RdmaCmBed bed;
  uroce::nic::MeasureLatency(bed);
  uroce::nic::MeasureRate(bed);
}
