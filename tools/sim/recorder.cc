// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/recorder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/icrc.h"
#include "tools/sim/scenario/topology.h"

namespace uroce::tools::sim {
namespace {

/// The time 0 of simulations, in ns since 1970.
constexpr uint64_t kEpochNanos = 1'700'000'000'000'000'000;
constexpr size_t kWriteBytes = 1 << 20;
constexpr size_t kMacBytes = 6;

/// The path of a frame, read from the headers that it has.
wire::HeaderTemplate TemplateOf(const PacketFrame& frame) {
  constexpr size_t kSourceOffset = PacketFrame::kIpOffset + 12;
  constexpr size_t kUdpOffset = PacketFrame::kIpOffset + 20;
  const uint8_t* const bytes = frame.bytes.data();
  wire::HeaderTemplateConfig path{.dest_qpn = frame.header.dest_qpn};
  std::copy_n(bytes, kMacBytes, path.destination_mac.begin());
  std::copy_n(bytes + kMacBytes, kMacBytes, path.source_mac.begin());
  path.source = path.destination = AddressOf(0);
  std::copy_n(bytes + kSourceOffset, 4, path.source.bytes.begin() + 12);
  std::copy_n(bytes + kSourceOffset + 4, 4, path.destination.bytes.begin() + 12);
  path.traffic_class = bytes[PacketFrame::kIpOffset + 1];
  path.udp_source_port = static_cast<uint16_t>(bytes[kUdpOffset] << 8 | bytes[kUdpOffset + 1]);
  return wire::HeaderTemplate(path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Recorder>> Recorder::Open(const Network& network,
                                                         const std::string& scenario,
                                                         const std::vector<std::string>& wanted) {
  auto recorder = std::unique_ptr<Recorder>(new Recorder);
  for (const std::string& each : wanted) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(each, absl::MaxSplits('=', 1));
    const auto host = FindHost(network, parts.first);
    if (!host) {
      return absl::InvalidArgumentError(
          absl::StrCat("--pcap: there is no host \"", parts.first, "\""));
    }
    File& file = recorder->files_[*host];
    file.name =
        parts.second.empty() ? absl::StrCat(scenario, "-", parts.first, ".pcapng") : parts.second;
    file.stream = fopen(file.name.c_str(), "wbe");
    if (file.stream == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(file.name, ": ", strerror(errno)));
    }
    uroce_capture_interface interface {};
    parts.first.copy(interface.name, sizeof interface.name - 1);
    std::ranges::copy(MacOf(*host), interface.mac);
    file.writer.AddSection("uroce sim", "scenario " + scenario);
    file.writer.AddInterface(interface, 0);
  }
  return recorder;
}

Recorder::~Recorder() {
  for (auto& [host, file] : files_) {
    if (file.stream != nullptr) fclose(file.stream);
  }
}

void Recorder::Watch(RunWatch& watch) {
  if (files_.empty()) return;
  for (const auto& [host, file] : files_) watch.recorded_hosts.push_back(host);
  watch.recorder = [this](const Nic& nic, const PacketFrame& frame, bool is_sent, Nanos now) {
    OnFrame(files_.at(nic.host()), frame, is_sent, now);
  };
}

void Recorder::OnFrame(File& file, const PacketFrame& frame, bool is_sent, Nanos now) {
  std::array<uint8_t, 1024> bytes{};
  const wire::EncodedHeaders headers = wire::EncodeHeaders(
      TemplateOf(frame), frame.header, frame.payload_bytes, frame.identification, bytes.data());
  size_t length = headers.length_bytes;
  const bool has_data =
      frame.payload_bytes != 0 && frame.map.empty() && frame.header.opcode != wire::Opcode::kCnp;
  if (!has_data) {
    const std::array<uint8_t, 16> zeros{};
    const uint8_t* const payload = frame.map.empty() ? zeros.data() : frame.map.data();
    const uint32_t crc =
        wire::CopyCrc32(headers.crc_state, bytes.data() + length, payload, frame.payload_bytes);
    length += frame.payload_bytes;
    length += wire::WriteTrailer(bytes.data() + length, frame.payload_bytes, crc);
  }
  file.writer.AddFrame({.time_ns = kEpochNanos + static_cast<uint64_t>(now.count()),
                        .direction = is_sent ? UROCE_CAPTURE_OUTBOUND : UROCE_CAPTURE_INBOUND,
                        .wire_length_bytes = frame.length_bytes,
                        .bytes = std::span(bytes).first(length)});
  if (file.writer.bytes().size() > kWriteBytes) Write(file);
}

void Recorder::Write(File& file) {
  const std::span<const uint8_t> bytes = file.writer.bytes();
  file.has_failed |= fwrite(bytes.data(), 1, bytes.size(), file.stream) != bytes.size();
  file.writer.Clear();
}

absl::Status Recorder::Finish() {
  for (auto& [host, file] : files_) {
    Write(file);
    file.has_failed |= fclose(std::exchange(file.stream, nullptr)) != 0;
    if (file.has_failed) {
      return absl::DataLossError(absl::StrCat(file.name, ": ", strerror(errno)));
    }
  }
  return absl::OkStatus();
}

}  // namespace uroce::tools::sim
