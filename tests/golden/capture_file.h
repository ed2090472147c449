// SPDX-License-Identifier: Apache-2.0
// Frames of a capture file, for tests.
#pragma once

#include <pcap/pcap.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace uroce {

/// All frames of a pcap file of Ethernet, in order. Throws what libpcap says.
inline std::vector<std::vector<uint8_t>> ReadCapture(const std::string& path) {
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_t* const file = pcap_open_offline(path.c_str(), error);
  if (file == nullptr) throw std::runtime_error(error);
  std::vector<std::vector<uint8_t>> frames;
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  while (pcap_next_ex(file, &header, &bytes) == 1)
    frames.emplace_back(bytes, bytes + header->caplen);
  pcap_close(file);
  return frames;
}

}  // namespace uroce
