// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/interfaces.h"

#include <linux/if_arp.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace uroce::tools {
namespace {

constexpr char kDirectory[] = "/sys/class/net";
// The daemon counts the same: GRH 40, UDP 8, BTH 12, XRCETH 4, AtomicETH 28, ICRC 4.
constexpr uint32_t kHeaderBytes = 96;
constexpr uint32_t kLargestPathMtu = 4096;
constexpr uint32_t kSmallestPathMtu = 256;

}  // namespace

uint32_t RoceMtu(uint32_t mtu_bytes) {
  for (uint32_t mtu = kLargestPathMtu; mtu >= kSmallestPathMtu; mtu /= 2) {
    if (mtu + kHeaderBytes <= mtu_bytes) return mtu;
  }
  return 0;
}

std::vector<KernelInterface> ReadInterfaces(const Machine& machine) {
  std::vector<KernelInterface> interfaces;
  for (const std::string& name : machine.List(kDirectory)) {
    const std::string place = absl::StrCat(kDirectory, "/", name);
    if (machine.ReadNumber(place + "/type") != ARPHRD_ETHER) continue;
    const auto state = machine.Read(place + "/operstate");
    interfaces.push_back(
        {.name = name,
         .mtu_bytes = static_cast<uint32_t>(machine.ReadNumber(place + "/mtu").value_or(0)),
         .up = state && absl::StartsWith(*state, "up")});
  }
  return interfaces;
}

Findings CheckInterfaces(const std::vector<KernelInterface>& interfaces) {
  Findings findings;
  for (const KernelInterface& interface : interfaces) {
    if (!interface.up) continue;
    const uint32_t mtu = RoceMtu(interface.mtu_bytes);
    const std::string has = absl::StrCat(interface.name, ": MTU ", interface.mtu_bytes);
    const std::string fix = absl::StrCat("sudo ip link set dev ", interface.name, " mtu 4200");
    if (mtu == 0) {
      findings.push_back({Level::kNote, "interfaces", has + " is too small for RoCE", fix});
    } else {
      const char* hint = mtu < kLargestPathMtu ? " (4200 or more: 4096)" : "";
      findings.push_back({Level::kOk, "interfaces",
                          absl::StrCat(has, " carries RoCE packets of ", mtu, " bytes", hint), ""});
    }
  }
  if (findings.empty()) findings.push_back({Level::kOk, "interfaces", "none is up", ""});
  return findings;
}

}  // namespace uroce::tools
