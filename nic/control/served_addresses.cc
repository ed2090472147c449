// SPDX-License-Identifier: Apache-2.0
#include "nic/control/served_addresses.h"

#include <spdlog/spdlog.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nic/devices/nic_device.h"
#include "nic/net/address.h"

namespace uroce::nic {
namespace {

constexpr size_t kMostNamed = 3;

std::set<AddressSigns::Place> PlacesOf(const NicDevice& device) {
  std::set<AddressSigns::Place> places;
  for (const InterfaceAddress& address : device.gids().addresses()) {
    const int ifindex =
        device.is_host() ? device.info().ifindex : device.InterfaceOf(address.vlan_id);
    if (ifindex != 0) places.emplace(ifindex, address.gid);
  }
  return places;
}

/// "192.0.2.1, fd00::1 and 2 more".
std::string Named(const std::vector<AddressSigns::Place>& places) {
  std::string text;
  for (size_t i = 0; i < places.size() && i < kMostNamed; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", FormatAddress(places[i].second));
  }
  if (places.size() > kMostNamed) {
    absl::StrAppend(&text, " and ", places.size() - kMostNamed, " more");
  }
  return text;
}

}  // namespace

void ServedAddresses::Update(const NicDevice& device) {
  const std::vector<AddressSigns::Place> shared = signs_[&device].Show(PlacesOf(device));
  if (shared.empty()) return;
  spdlog::warn(
      "{}: another NIC of uroced serves {} on {} too: both get the packets, and connections may be "
      "refused by the wrong one; give each NIC addresses of its own (uroce doctor names the "
      "process)",
      device.name(), Named(shared), device.info().interface);
}

}  // namespace uroce::nic
