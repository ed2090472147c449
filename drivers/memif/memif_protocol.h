// SPDX-License-Identifier: Apache-2.0
// The memif 2.0 protocol: messages on the control socket, and rings in shared memory. Both ends run
// on one machine, so all integers are in host byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace uroce::drivers::memif {

inline constexpr uint16_t kVersion = 0x0200;
inline constexpr uint32_t kRingCookie = 0x3e31f20;
inline constexpr uint8_t kMaxLog2RingSlots = 14;
inline constexpr size_t kSecretBytes = 24;  ///< With the zero at its end.
inline constexpr size_t kNameBytes = 32;
inline constexpr size_t kReasonBytes = 96;

enum class MessageType : uint16_t {
  kNone,
  kAck,
  kHello,
  kInit,
  kAddRegion,
  kAddRing,
  kConnect,
  kConnected,
  kDisconnect,
};

/// Server to client, the first message: its limits, as indices: 0 stands for one ring or region.
struct [[gnu::packed]] Hello {
  char name[kNameBytes];
  uint16_t min_version;
  uint16_t max_version;
  uint16_t max_region;
  uint16_t max_s2c_ring;
  uint16_t max_c2s_ring;
  uint8_t max_log2_ring_slots;
};

/// Client to server: which interface the client wants. Mode 0 carries Ethernet frames.
struct [[gnu::packed]] Init {
  uint16_t version;
  uint32_t id;
  uint8_t mode;
  char secret[kSecretBytes];
  char name[kNameBytes];
};

/// Client to server, sent with the fd of the region's memory.
struct [[gnu::packed]] AddRegion {
  uint16_t index;
  uint64_t size_bytes;
};

inline constexpr uint16_t kRingIsClientToServer = 1;

/// Client to server, sent with the eventfd that wakes the ring's receiver.
struct [[gnu::packed]] AddRing {
  uint16_t flags;
  uint16_t index;
  uint16_t region;
  uint32_t offset_bytes;
  uint8_t log2_slots;
  uint16_t private_header_bytes;
};

/// The body of Connect (client to server) and of Connected (its answer).
struct [[gnu::packed]] InterfaceName {
  char name[kNameBytes];
};

/// Sent by either end before it closes the socket.
struct [[gnu::packed]] Disconnect {
  uint32_t code;
  char reason[kReasonBytes];
};

struct [[gnu::packed]] Message {
  MessageType type;
  union [[gnu::packed]] {
    Hello hello;
    Init init;
    AddRegion add_region;
    AddRing add_ring;
    InterfaceName connect;
    Disconnect disconnect;
    uint8_t padding[126];
  };
};
static_assert(sizeof(Message) == 128 && std::is_trivially_copyable_v<Message>);

inline constexpr uint16_t kFrameGoesOn = 1;  ///< Descriptor flag: the next slot has more of it.
inline constexpr uint16_t kDoNotWake = 1;    ///< Ring flag, the receiver's: no eventfd, it polls.

/// One buffer of a ring.
struct Descriptor {
  uint16_t flags;
  uint16_t region;
  uint32_t length_bytes;
  uint32_t offset_bytes;  ///< From the start of its region.
  uint32_t metadata;
};
static_assert(sizeof(Descriptor) == 16);

/// Head counts the slots that the client has handed over, tail those that the server has. On a ring
/// from client to server these are frames sent and frames taken; on the other ring, empty buffers
/// and frames sent.
struct RingHeader {
  uint32_t cookie;
  uint16_t flags;
  uint16_t head;
  uint8_t padding_to_tail[56];
  uint16_t tail;
  uint8_t padding_to_descriptors[62];
};
static_assert(sizeof(RingHeader) == 128 && offsetof(RingHeader, tail) == 64);

}  // namespace uroce::drivers::memif
