// SPDX-License-Identifier: Apache-2.0
#include "pipeline/wire/packet.h"

#include <array>
#include <cstddef>

namespace uroce::wire {
namespace {

using I = OpcodeInfo;

/// One operation: the low five bits of the opcode.
struct Operation {
  uint8_t code;
  uint16_t headers;
  uint16_t traits;
};

constexpr uint16_t kOnly = I::kFirst | I::kLast;
constexpr uint16_t kSendRequest = I::kRequest | I::kSend | I::kPayload;
constexpr uint16_t kWriteRequest = I::kRequest | I::kWrite | I::kPayload;
constexpr uint16_t kReadResponse = I::kResponse | I::kRead | I::kPayload;

// Rows of docs/protocol/wire-format.md, section 5, that reliable, unreliable and extended
// connections share.
constexpr Operation kSendAndWrite[] = {
    {0x00, 0, kSendRequest | I::kFirst | I::kFullPayload},
    {0x01, 0, kSendRequest | I::kFullPayload},
    {0x02, 0, kSendRequest | I::kLast},
    {0x03, I::kImmDt, kSendRequest | I::kLast},
    {0x04, 0, kSendRequest | kOnly},
    {0x05, I::kImmDt, kSendRequest | kOnly},
    {0x06, I::kReth, kWriteRequest | I::kFirst | I::kFullPayload},
    {0x07, 0, kWriteRequest | I::kFullPayload},
    {0x08, 0, kWriteRequest | I::kLast},
    {0x09, I::kImmDt, kWriteRequest | I::kLast},
    {0x0a, I::kReth, kWriteRequest | kOnly},
    {0x0b, I::kReth | I::kImmDt, kWriteRequest | kOnly},
};

// Rows that only reliable and extended reliable connections have.
constexpr Operation kReliableOnly[] = {
    {0x0c, I::kReth, I::kRequest | I::kRead | kOnly},
    {0x0d, I::kAeth, kReadResponse | I::kFirst | I::kFullPayload},
    {0x0e, 0, kReadResponse | I::kFullPayload},
    {0x0f, I::kAeth, kReadResponse | I::kLast},
    {0x10, I::kAeth, kReadResponse | kOnly},
    {0x11, I::kAeth, I::kResponse},
    {0x12, I::kAeth | I::kAtomicAckEth, I::kResponse | I::kAtomic},
    {0x13, I::kAtomicEth, I::kRequest | I::kAtomic | kOnly},
    {0x14, I::kAtomicEth, I::kRequest | I::kAtomic | kOnly},
    {0x16, I::kIeth, kSendRequest | I::kLast},
    {0x17, I::kIeth, kSendRequest | kOnly},
    {0x1d, I::kReth, I::kRequest | I::kAtomic | I::kPayload | kOnly},
};

constexpr uint8_t HeaderBytes(uint16_t headers) {
  size_t bytes = sizeof(BthLayout);
  if (headers & I::kDeth) bytes += sizeof(DethLayout);
  if (headers & I::kXrceth) bytes += sizeof(XrcethLayout);
  if (headers & I::kReth) bytes += sizeof(RethLayout);
  if (headers & I::kAtomicEth) bytes += sizeof(AtomicEthLayout);
  if (headers & I::kAeth) bytes += sizeof(AethLayout);
  if (headers & I::kAtomicAckEth) bytes += sizeof(AtomicAckEthLayout);
  if (headers & I::kImmDt) bytes += sizeof(ImmDtLayout);
  if (headers & I::kIeth) bytes += sizeof(IethLayout);
  return static_cast<uint8_t>(bytes);
}

constexpr OpcodeInfo Entry(uint16_t headers, uint16_t traits) {
  return {.headers = headers,
          .traits = static_cast<uint16_t>(traits | I::kKnown),
          .header_bytes = HeaderBytes(headers)};
}

constexpr size_t Index(Service service, uint8_t code) {
  return static_cast<size_t>(static_cast<uint8_t>(service) << 5 | code);
}

using Table = std::array<OpcodeInfo, 256>;

template <size_t rows>
constexpr void AddRows(Table& table, Service service, const Operation (&operations)[rows]) {
  for (const Operation& operation : operations) {
    uint16_t headers = operation.headers;
    // XRC requests name their SRQ; responses go to a requester and do not.
    const bool request = (operation.traits & I::kRequest) != 0;
    if (service == Service::kXrc && request) headers |= I::kXrceth;
    table[Index(service, operation.code)] = Entry(headers, operation.traits);
  }
}

constexpr Table BuildTable() {
  Table table{};
  for (OpcodeInfo& info : table) info.header_bytes = sizeof(BthLayout);
  AddRows(table, Service::kRc, kSendAndWrite);
  AddRows(table, Service::kRc, kReliableOnly);
  AddRows(table, Service::kUc, kSendAndWrite);
  AddRows(table, Service::kXrc, kSendAndWrite);
  AddRows(table, Service::kXrc, kReliableOnly);
  table[Index(Service::kUd, 0x04)] = Entry(I::kDeth, kSendRequest | kOnly);
  table[Index(Service::kUd, 0x05)] = Entry(I::kDeth | I::kImmDt, kSendRequest | kOnly);
  for (const Service service : {Service::kRc, Service::kXrc}) {
    const Opcode opcode = OpcodeOf(service, Opcode::kSelectiveAcknowledge);
    table[static_cast<size_t>(opcode)] = Entry(I::kAeth, I::kResponse | I::kKeptMap);
  }
  // A CNP is 16 reserved bytes behind the BTH; it belongs to no message.
  table[Index(Service::kCnp, 0x01)] = Entry(0, I::kPayload);
  return table;
}

}  // namespace

constinit const std::array<OpcodeInfo, 256> kOpcodeTable = BuildTable();

}  // namespace uroce::wire
