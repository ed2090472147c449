// SPDX-License-Identifier: Apache-2.0
#include "tools/capture/packet_filter.h"

#include <pcap/pcap.h>

#include "absl/strings/str_cat.h"

namespace uroce::tools {
namespace {

constexpr int kAnySnapLength = 262144;  // libpcap's own maximum.

struct ClosePcap {
  void operator()(pcap_t* pcap) const { pcap_close(pcap); }
};

}  // namespace

void PacketFilter::Free::operator()(bpf_program* program) const {
  pcap_freecode(program);
  delete program;
}

absl::StatusOr<PacketFilter> PacketFilter::Compile(const std::string& expression) {
  PacketFilter filter;
  if (expression.empty()) return filter;
  const std::unique_ptr<pcap_t, ClosePcap> pcap(pcap_open_dead(DLT_EN10MB, kAnySnapLength));
  auto program = std::make_unique<bpf_program>();
  if (pcap_compile(pcap.get(), program.get(), expression.c_str(), 1, PCAP_NETMASK_UNKNOWN) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("filter '", expression, "': ", pcap_geterr(pcap.get())));
  }
  filter.program_.reset(program.release());
  return filter;
}

bool PacketFilter::Matches(std::span<const uint8_t> frame, uint32_t wire_length_bytes) const {
  if (!program_) return true;
  pcap_pkthdr header{};
  header.caplen = static_cast<bpf_u_int32>(frame.size());
  header.len = wire_length_bytes;
  return pcap_offline_filter(program_.get(), &header, frame.data()) != 0;
}

}  // namespace uroce::tools
