// SPDX-License-Identifier: Apache-2.0
// Measures the functions of pipeline/wire with all data in the first-level cache: copy and ICRC per
// kernel, decode and check of a packet, encode.
#include <benchmark/benchmark.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "pipeline/wire/crc/kernel.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/icrc.h"

namespace uroce::wire {
namespace {

constexpr size_t kMaxBytes = 4096;
alignas(64) std::array<uint8_t, kMaxBytes> source;
alignas(64) std::array<uint8_t, kMaxBytes + 128> destination;

HeaderTemplate Path() {
  HeaderTemplateConfig config;
  config.source.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  config.destination.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
  config.dest_qpn = Qpn(0x11);
  return HeaderTemplate(config);
}

TransportHeader WriteOnly(uint32_t bytes) {
  return {.opcode = Opcode::kWriteOnly,
          .ack_request = true,
          .psn = Psn(0x1234),
          .reth = {.va = 0x7f0000001000, .rkey = Rkey(0x12345678), .length_bytes = bytes}};
}

/// Encodes a whole packet, like a sender.
size_t Encode(const HeaderTemplate& path, const TransportHeader& header, uint32_t bytes,
              uint16_t identification, uint8_t* out) {
  const EncodedHeaders encoded = EncodeHeaders(path, header, bytes, identification, out);
  uint8_t* const payload = out + encoded.length_bytes;
  const uint32_t state = CopyCrc32(encoded.crc_state, payload, source.data(), bytes);
  return encoded.length_bytes + bytes + WriteTrailer(payload + bytes, bytes, state);
}

void CopyCrc(benchmark::State& state, const CrcKernel& kernel, size_t length, size_t misalign) {
  uint32_t crc = 1;
  for (auto _ : state) {
    crc = kernel.copy(crc, destination.data() + misalign, source.data(), length);
    benchmark::DoNotOptimize(crc);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * length));
}

void Crc(benchmark::State& state, const CrcKernel& kernel, size_t length) {
  uint32_t crc = 1;
  for (auto _ : state) {
    crc = kernel.update(crc, source.data(), length);
    benchmark::DoNotOptimize(crc);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * length));
}

void DecodeAndCheck(benchmark::State& state) {
  std::vector<uint8_t> frame(kMaxBytes + 256);
  const auto bytes = static_cast<uint32_t>(state.range(0));
  frame.resize(Encode(Path(), WriteOnly(bytes), bytes, 1, frame.data()));
  Packet packet;
  FrameView view;
  for (auto _ : state) {
    benchmark::DoNotOptimize(frame.data());
    const bool good = Decode(frame, packet, view) == DecodeResult::kOk && IcrcIsRight(frame, view);
    if (!good) state.SkipWithError("the frame does not decode");
    benchmark::DoNotOptimize(packet);
  }
}
BENCHMARK(DecodeAndCheck)->Arg(0)->Arg(8)->Arg(64)->Arg(1024)->Arg(4096);

void DecodeOnly(benchmark::State& state) {
  std::vector<uint8_t> frame(kMaxBytes + 256);
  frame.resize(Encode(Path(), WriteOnly(64), 64, 1, frame.data()));
  Packet packet;
  FrameView view;
  for (auto _ : state) {
    benchmark::DoNotOptimize(frame.data());
    benchmark::DoNotOptimize(Decode(frame, packet, view));
    benchmark::DoNotOptimize(packet);
  }
}
BENCHMARK(DecodeOnly);

void EncodePacket(benchmark::State& state) {
  const HeaderTemplate path = Path();
  const auto bytes = static_cast<uint32_t>(state.range(0));
  TransportHeader header = WriteOnly(bytes);
  uint16_t identification = 0;
  for (auto _ : state) {
    header.psn = header.psn + 1;
    benchmark::DoNotOptimize(Encode(path, header, bytes, identification++, destination.data()));
  }
}
BENCHMARK(EncodePacket)->Arg(0)->Arg(8)->Arg(64)->Arg(1024)->Arg(4096 - 128);

void EncodeHeadersOnly(benchmark::State& state) {
  const HeaderTemplate path = Path();
  TransportHeader header = WriteOnly(64);
  uint16_t identification = 0;
  for (auto _ : state) {
    header.psn = header.psn + 1;
    benchmark::DoNotOptimize(EncodeHeaders(path, header, 64, identification++, destination.data()));
  }
}
BENCHMARK(EncodeHeadersOnly);

/// One benchmark per kernel of this machine and length.
const bool registered = [] {
  for (const CrcKernel& kernel : AvailableCrcKernels()) {
    for (const size_t length : {size_t{16}, size_t{60}, size_t{64}, size_t{256}, kMaxBytes}) {
      const std::string suffix = std::string("/") + kernel.name + "/" + std::to_string(length);
      benchmark::RegisterBenchmark(("Crc" + suffix).c_str(), Crc, kernel, length);
      benchmark::RegisterBenchmark(("CopyCrc" + suffix).c_str(), CopyCrc, kernel, length,
                                   size_t{0});
      // After the headers payload may start anywhere: IPv4, UDP, BTH and Ethernet are 54 bytes.
      benchmark::RegisterBenchmark(("CopyCrcUnaligned" + suffix).c_str(), CopyCrc, kernel, length,
                                   size_t{54});
    }
  }
  return true;
}();

}  // namespace
}  // namespace uroce::wire
