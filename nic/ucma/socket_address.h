// SPDX-License-Identifier: Apache-2.0
// Addresses between a sockaddr and the service's own form. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "nic/rdma_cm/types.h"
#include "nic/ucma/abi.h"

namespace uroce::nic::ucma {

/// Bytes of an address of this family; 0: there is none of ours (AF_IB is not).
size_t AddressBytes(uint16_t family);
/// The family of an address that begins with `bytes`; AF_UNSPEC: it is too short to say.
uint16_t FamilyOf(std::span<const uint8_t> bytes);

/// Reads an IPv4 or IPv6 address. Returns 0, EINVAL: it is cut short; or EAFNOSUPPORT.
int ReadAddress(std::span<const uint8_t> bytes, rdma_cm::SocketAddress& address);
/// Writes `address` as its family has it, IPv4 where it is that. Returns its bytes.
size_t WriteAddress(const rdma_cm::SocketAddress& address, __kernel_sockaddr_storage& to);

}  // namespace uroce::nic::ucma
