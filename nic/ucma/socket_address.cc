// SPDX-License-Identifier: Apache-2.0
#include "nic/ucma/socket_address.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace uroce::nic::ucma {
namespace {

constexpr uint32_t kFlowLabelMask = 0xfffff;

rdma_cm::SocketAddress FromIpv4(const sockaddr_in& from) {
  rdma_cm::SocketAddress address;
  address.address.bytes[10] = address.address.bytes[11] = 0xff;
  std::memcpy(&address.address.bytes[12], &from.sin_addr, sizeof(from.sin_addr));
  address.port = ntohs(from.sin_port);
  return address;
}

rdma_cm::SocketAddress FromIpv6(const sockaddr_in6& from) {
  rdma_cm::SocketAddress address;
  std::memcpy(address.address.bytes.data(), &from.sin6_addr, sizeof(from.sin6_addr));
  address.port = ntohs(from.sin6_port);
  address.flow_label = ntohl(from.sin6_flowinfo) & kFlowLabelMask;
  address.scope_id = from.sin6_scope_id;
  return address;
}

sockaddr_in ToIpv4(const rdma_cm::SocketAddress& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  std::memcpy(&to.sin_addr, &address.address.bytes[12], sizeof(to.sin_addr));
  return to;
}

sockaddr_in6 ToIpv6(const rdma_cm::SocketAddress& address) {
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(address.port);
  to.sin6_flowinfo = htonl(address.flow_label);
  std::memcpy(&to.sin6_addr, address.address.bytes.data(), sizeof(to.sin6_addr));
  to.sin6_scope_id = address.scope_id;
  return to;
}

template <typename T>
T Copy(std::span<const uint8_t> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

}  // namespace

size_t AddressBytes(uint16_t family) {
  if (family == AF_INET) return sizeof(sockaddr_in);
  return family == AF_INET6 ? sizeof(sockaddr_in6) : 0;
}

uint16_t FamilyOf(std::span<const uint8_t> bytes) {
  return bytes.size() < sizeof(uint16_t) ? AF_UNSPEC : Copy<uint16_t>(bytes);
}

int ReadAddress(std::span<const uint8_t> bytes, rdma_cm::SocketAddress& address) {
  const uint16_t family = FamilyOf(bytes);
  const size_t wanted = AddressBytes(family);
  if (wanted == 0) return EAFNOSUPPORT;
  if (bytes.size() < wanted) return EINVAL;
  address =
      family == AF_INET ? FromIpv4(Copy<sockaddr_in>(bytes)) : FromIpv6(Copy<sockaddr_in6>(bytes));
  return 0;
}

size_t WriteAddress(const rdma_cm::SocketAddress& address, __kernel_sockaddr_storage& to) {
  if (address.address.is_ipv4()) {
    const sockaddr_in plain = ToIpv4(address);
    std::memcpy(&to, &plain, sizeof(plain));
    return sizeof(plain);
  }
  const sockaddr_in6 plain = ToIpv6(address);
  std::memcpy(&to, &plain, sizeof(plain));
  return sizeof(plain);
}

}  // namespace uroce::nic::ucma
