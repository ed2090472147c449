// SPDX-License-Identifier: Apache-2.0
#include "nic/net/interface_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <bit>
#include <cstring>
#include <memory>

namespace uroce::nic {
namespace {

uint8_t Ipv6PrefixBits(const sockaddr_in6& mask) {
  int bits = 0;
  for (const uint8_t byte : mask.sin6_addr.s6_addr) bits += std::popcount(byte);
  return static_cast<uint8_t>(bits);
}

InterfaceAddress FromIpv4(const ifaddrs& entry) {
  const auto& address = reinterpret_cast<const sockaddr_in&>(*entry.ifa_addr);
  const auto& mask = reinterpret_cast<const sockaddr_in&>(*entry.ifa_netmask);
  return {Ipv4Gid(ntohl(address.sin_addr.s_addr)),
          static_cast<uint8_t>(96 + std::popcount(mask.sin_addr.s_addr))};
}

InterfaceAddress FromIpv6(const ifaddrs& entry) {
  const auto& address = reinterpret_cast<const sockaddr_in6&>(*entry.ifa_addr);
  InterfaceAddress result;
  std::memcpy(result.gid.bytes.data(), &address.sin6_addr, 16);
  result.prefix_bits = Ipv6PrefixBits(reinterpret_cast<const sockaddr_in6&>(*entry.ifa_netmask));
  return result;
}

}  // namespace

std::vector<InterfaceAddress> InterfaceAddresses(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<InterfaceAddress> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_netmask == nullptr) continue;
    if (interface != entry->ifa_name) continue;
    if (entry->ifa_addr->sa_family == AF_INET) addresses.push_back(FromIpv4(*entry));
    if (entry->ifa_addr->sa_family == AF_INET6) addresses.push_back(FromIpv6(*entry));
  }
  return addresses;
}

}  // namespace uroce::nic
