// SPDX-License-Identifier: Apache-2.0
// What a port on a kernel interface carries with nothing behind it. The sender makes the packets of
// a 64 KB WRITE once and sends them again and again; the receiving port checks their ICRCs, as it
// does always, and the program drops them. A transport behind the port can come near this rate.
//
//   port_alone send|receive iface|udp INTERFACE OWN_MAC PEER_MAC SECONDS
//
// The addresses are 10.0.0.2 (sender) and 10.0.0.1 (receiver). The receiver prints the Gb/s
// of frames and superframes, with their headers, between the first one and the last one.
#include <arpa/inet.h>
#include <net/if.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "drivers/dpdk/eal.h"
#include "drivers/kernel/ingress_drop.h"
#include "drivers/kernel/kernel_ports.h"
#include "pipeline/port/superframes.h"
#include "tests/wire/reencode.h"

namespace uroce::drivers {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint32_t kMessageBytes = 65536;
constexpr uint16_t kWritesOfTurn = 2;  ///< As many as a worker sends in a turn.
constexpr uint32_t kFrames = 4096;

double Seconds() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <typename T>
T OrExit(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  fprintf(stderr, "port_alone: %s\n", std::string(value.status().message()).c_str());
  exit(2);
}

Mac MacOf(const char* text) {
  Mac mac{};
  if (sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
             &mac[5]) != 6) {
    fprintf(stderr, "port_alone: %s is no MAC\n", text);
    exit(2);
  }
  return mac;
}

Gid Ipv4(const char* text) {
  Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  inet_pton(AF_INET, text, gid.bytes.data() + 12);
  return gid;
}
const Gid kSender = Ipv4("10.0.0.2");
const Gid kReceiver = Ipv4("10.0.0.1");

/// The packets of a WRITE at the largest path MTU that the interface carries.
std::vector<Bytes> PacketsOfWrite(const Mac& own, const Mac& peer, uint32_t mtu_bytes) {
  wire::HeaderTemplateConfig config;
  config.source_mac = own;
  config.destination_mac = peer;
  config.source = kSender;
  config.destination = kReceiver;
  config.udp_source_port = 0xc000;
  config.dest_qpn = Qpn(0x1234);
  const uint32_t payload_bytes = mtu_bytes >= 4200 ? 4096 : 1024;
  const Bytes payload(payload_bytes, 0x5a);
  const uint32_t count = kMessageBytes / payload_bytes;
  std::vector<Bytes> packets;
  for (uint32_t i = 0; i < count; ++i) {
    wire::TransportHeader header{.opcode = wire::Opcode::kWriteMiddle};
    if (i == 0) header.opcode = wire::Opcode::kWriteFirst;
    if (i == count - 1) header.opcode = wire::Opcode::kWriteLast;
    header.ack_request = i == count - 1;
    header.psn = wire::Psn(i);
    header.reth.length_bytes = kMessageBytes;
    packets.push_back(EncodeFrame(config, header, payload, static_cast<uint16_t>(i)));
  }
  return packets;
}

/// DPDK must have started.
class Bench {
 public:
  Bench(const std::string& kind, const std::string& interface) {
    pool_ = OrExit(MakePool("frames", kRoceFrameBytes, kFrames));
    port_ = kind == "udp"
                ? OrExit(OpenPort(UdpSocket{.device = "port_alone",
                                            .text = interface,
                                            .place = {.interface = interface, .addresses = {}},
                                            .identity = "port_alone"},
                                  {}, pool_))
                : OrExit(OpenPort(KernelInterface{.device = "port_alone", .interface = interface},
                                  {}, pool_));
    if (kind != "udp") {
      const std::array<Gid, 2> addresses = {kSender, kReceiver};
      drop_.Set(static_cast<int>(if_nametoindex(interface.c_str())), addresses);
    }
    port_->Maintain([](absl::FunctionRef<void()> work) { work(); });
  }

  void Send(const Mac& own, const Mac& peer, double seconds) {
    const std::vector<Bytes> packets = PacketsOfWrite(own, peer, port_->Info().mtu_bytes);
    LongBuffers buffers(2);
    // The FIRST packet is longer than the others, so that only the MIDDLE one behind it joins. (At
    // MTU 9000 a worker sends the FIRST packet alone, also as one of two frames.)
    const std::array<rte_mbuf*, 2> superframes = {
        Superframe(buffers, {packets.begin(), packets.begin() + 2}),
        Superframe(buffers, {packets.begin() + 2, packets.end()})};
    std::array<rte_mbuf*, 2 * kWritesOfTurn> turn;
    uint16_t waiting = 0;
    const double end = Seconds() + seconds;
    while (Seconds() < end) {
      if (waiting == 0) {
        for (uint16_t i = 0; i < turn.size(); ++i) {
          turn[i] = superframes[i % 2];
          rte_mbuf_refcnt_update(turn[i], 1);
        }
        waiting = turn.size();
      }
      const uint16_t sent = port_->TransmitBurst(0, turn.data(), waiting, Now());
      waiting = static_cast<uint16_t>(waiting - sent);
      std::copy_n(turn.begin() + sent, waiting, turn.begin());
      if (sent == 0) Receive();  // Advances the gate of a full socket.
    }
  }

  void Count(double seconds) {
    double first = 0;
    double last = 0;
    uint64_t bytes = 0;
    const double end = Seconds() + seconds;
    for (double now = Seconds(); now < end; now = Seconds()) {
      const uint64_t got = Receive();
      if (got == 0) continue;
      last = now;
      if (first == 0) first = now;
      bytes += got;
    }
    const double rate = last > first ? static_cast<double>(bytes) * 8e-9 / (last - first) : 0;
    printf("%.3f Gb/s\n", rate);
  }

 private:
  static Nanos Now() { return Nanos(static_cast<int64_t>(Seconds() * 1e9)); }

  rte_mbuf* Superframe(LongBuffers& buffers, const std::vector<Bytes>& packets) {
    rte_mbuf* const frame = rte_pktmbuf_alloc(pool_);
    if (frame == nullptr || !buffers.Lend(*frame)) abort();
    const size_t headers = wire::FindUdp(packets[0])->payload_offset;
    auto* const begin = rte_pktmbuf_mtod(frame, uint8_t*);
    uint8_t* at = std::copy(packets[0].begin(), packets[0].end(), begin);
    for (size_t i = 1; i < packets.size(); ++i) {
      at = std::copy(packets[i].begin() + static_cast<std::ptrdiff_t>(headers), packets[i].end(),
                     at);
    }
    frame->data_len = static_cast<uint16_t>(at - begin);
    frame->pkt_len = frame->data_len;
    mark_.Set(*frame, static_cast<uint16_t>(packets[0].size() - headers));
    return frame;
  }

  /// Bytes of what has arrived.
  uint64_t Receive() {
    std::array<rte_mbuf*, Port::kMostTurnFrames> frames;
    const uint16_t count = port_->ReceiveWhole(0, frames.data(), frames.size(), Now());
    uint64_t bytes = 0;
    for (uint16_t i = 0; i < count; ++i) bytes += frames[i]->data_len;
    rte_pktmbuf_free_bulk(frames.data(), count);
    return bytes;
  }

  rte_mempool* pool_ = nullptr;
  std::unique_ptr<Port> port_;
  IngressDrop drop_;
  const SuperframeMark mark_;
};

int Main(int argc, char** argv) {
  if (argc != 7) {
    fprintf(stderr,
            "usage: port_alone send|receive iface|udp INTERFACE OWN_MAC PEER_MAC SECONDS\n");
    return 2;
  }
  if (const absl::Status status = InitEal({.memory_mib = 64}); !status.ok()) {
    OrExit(absl::StatusOr<int>(status));
  }
  Bench bench(argv[2], argv[3]);
  printf("ready\n");
  fflush(stdout);
  const double seconds = atof(argv[6]);
  if (std::strcmp(argv[1], "send") == 0) {
    bench.Send(MacOf(argv[4]), MacOf(argv[5]), seconds);
  } else {
    bench.Count(seconds);
  }
  return 0;
}

}  // namespace
}  // namespace uroce::drivers

int main(int argc, char** argv) { return uroce::drivers::Main(argc, argv); }
