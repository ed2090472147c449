// SPDX-License-Identifier: Apache-2.0
// Converts between a sockaddr and the service's address form. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "nic/rdma_cm/types.h"
#include "nic/ucma/abi.h"

namespace uroce::nic::ucma {

/// Bytes of an address of this family; 0 if the family is not supported (AF_IB is not).
size_t AddressBytes(uint16_t family);
/// The family of an address that begins with `bytes`; AF_UNSPEC if it is too short.
uint16_t FamilyOf(std::span<const uint8_t> bytes);

/// Reads an IPv4 or IPv6 address. Returns 0, EINVAL if it is truncated, or EAFNOSUPPORT.
int ReadAddress(std::span<const uint8_t> bytes, rdma_cm::SocketAddress& address);
/// Writes `address` as a sockaddr of its family. Returns the number of bytes.
size_t WriteAddress(const rdma_cm::SocketAddress& address, __kernel_sockaddr_storage& to);

}  // namespace uroce::nic::ucma
