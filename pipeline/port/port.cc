// SPDX-License-Identifier: Apache-2.0
#include "pipeline/port/port.h"

#include <rte_mbuf.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>

namespace uroce::drivers {
namespace {

constexpr std::array<const char*, 4> kFlowControls = {"off", "rx", "tx", "full"};

constexpr uint16_t kAbsentRoom = 512;  // More than a burst: nothing waits for this port.

std::string MachineId() {
  std::ifstream file("/etc/machine-id");
  std::string id;
  file >> id;
  return id;
}

uint64_t NetworkNamespace() {
  struct stat status {};
  return stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}

}  // namespace

const char* NameOf(FlowControl flow_control) {
  return kFlowControls[static_cast<size_t>(flow_control)];
}

std::optional<FlowControl> ParseFlowControl(const std::string& name) {
  const auto found = std::ranges::find(kFlowControls, name);
  if (found == kFlowControls.end()) return std::nullopt;
  return static_cast<FlowControl>(found - kFlowControls.begin());
}

uint16_t AbsentPort::ReceiveBurst(uint16_t /*queue*/, rte_mbuf** /*frames*/, uint16_t /*count*/,
                                  Nanos /*now*/) {
  return 0;
}

uint16_t AbsentPort::TransmitBurst(uint16_t /*queue*/, rte_mbuf** frames, uint16_t count,
                                   Nanos /*now*/) {
  rte_pktmbuf_free_bulk(frames, count);
  return count;
}

uint16_t AbsentPort::TransmitRoom(uint16_t /*queue*/) const { return kAbsentRoom; }

Mac LocalMac(std::string_view name, uint32_t index) {
  // FNV-1a: the address must be the same in every run and every build.
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const char letter : name) add(static_cast<uint8_t>(letter));
  for (int shift = 0; shift < 32; shift += 8) add(static_cast<uint8_t>(index >> shift));
  Mac mac;
  for (size_t i = 0; i < mac.size(); ++i) mac[i] = static_cast<uint8_t>(hash >> (8 * i));
  constexpr uint8_t kLocallyAdministered = 0x02;
  constexpr uint8_t kMulticast = 0x01;
  mac[0] = static_cast<uint8_t>((mac[0] | kLocallyAdministered) & ~kMulticast);
  return mac;
}

Mac StableMac(std::string_view identity) {
  std::string name = MachineId();
  name.append("|").append(std::to_string(NetworkNamespace())).append("|").append(identity);
  return LocalMac(name, 0);
}

}  // namespace uroce::drivers
