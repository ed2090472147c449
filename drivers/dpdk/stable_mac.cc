// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/stable_mac.h"

#include <sys/stat.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "drivers/wire/wire_port.h"

namespace uroce::drivers {
namespace {

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

Mac StableMac(const DeviceArguments& arguments) {
  std::string identity = absl::StrCat(MachineId(), "|", NetworkNamespace(), "|", arguments.name);
  for (const char* key :
       {"iface", "address", "path", "socket", "role", "id", "rx_pcap", "tx_pcap"}) {
    absl::StrAppend(&identity, "|", arguments.Value(key));
  }
  return LocalMac(identity, 0);
}

}  // namespace uroce::drivers
