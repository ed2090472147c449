// SPDX-License-Identifier: Apache-2.0
// The memif 2.0 protocol: messages on the control socket, and rings in memory that both processes
// share; the mapping of that memory, and frames to and from rings. The peer may write anything
// there at any time: each word is read once and checked, and an impossible value ends the
// connection. Both ends run on one machine, so all integers are in host byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/os/event_signal.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/shared_memory.h"

struct rte_mbuf;
struct rte_mempool;

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

namespace uroce::drivers {

/// A mapped memory file that cannot shrink. The peer can still take its pages away: after that the
/// peer reads and writes other pages than we do, and huge pages may be missing when we access
/// them.
struct MemifMemory {
  Fd fd;
  GuardedMapping mapping;
  uint64_t size_bytes = 0;
  std::span<uint8_t> bytes() const { return {mapping.data(), size_bytes}; }
};

/// Makes a file of `size_bytes` zeros. Errors name the system call.
absl::StatusOr<MemifMemory> MakeMemifMemory(uint64_t size_bytes);

/// Maps the peer's file. Any thread. Errors: the file is no memory file, is not sealed against
/// shrinking, or is smaller than `size_bytes`.
absl::StatusOr<MemifMemory> MapMemifMemory(Fd fd, uint64_t size_bytes);

/// Whether `fd` is an eventfd.
bool IsEventFd(int fd);

/// The regions that both ends map, indexed by the region number in descriptors.
using MemifRegions = std::vector<std::span<uint8_t>>;

/// A ring and its buffers. In the client, buffer i lies at i * `buffer_bytes` of `buffers`. In the
/// server `buffers` is empty, and the descriptors say where the buffers are.
struct MemifRing {
  memif::RingHeader* header = nullptr;
  uint32_t slots = 0;  ///< A power of two, at most 2^kMaxLog2RingSlots.
  const MemifRegions* regions = nullptr;
  std::span<uint8_t> buffers;
  uint32_t buffers_offset = 0;  ///< The offset of `buffers` in region 0.
  uint32_t buffer_bytes = 0;
  int event_fd = -1;  ///< Wakes the ring's receiver.

  bool is_clients() const { return !buffers.empty(); }
  memif::Descriptor& At(uint16_t index) const {
    return reinterpret_cast<memif::Descriptor*>(header + 1)[index & (slots - 1)];
  }
  /// A slot's buffer, whole or as its descriptor says; empty when the descriptor is impossible.
  std::span<uint8_t> Buffer(uint16_t index, const memif::Descriptor& descriptor) const;
};

/// Sends on one ring. Worker thread.
class MemifSender {
 public:
  /// `signal` wakes the receiver.
  MemifSender(const MemifRing& ring, EventSignal* signal);

  /// Copies the first n frames, frees them and returns n: as many as there is room for.
  [[nodiscard]] uint16_t Send(rte_mbuf** frames, uint16_t count);
  /// Slots that are free, or any number above `enough`: the peer's index is read only when at most
  /// `enough` were left.
  uint16_t Room(uint16_t enough);
  /// Free slots as of the last look.
  uint16_t room() const { return room_; }
  /// Whether the peer wrote an impossible value.
  bool is_corrupt() const { return is_corrupt_; }

 private:
  uint16_t Put(const rte_mbuf& frame);
  void Publish();

  const MemifRing ring_;
  EventSignal* const signal_;
  uint16_t next_ = 0;
  uint16_t room_ = 0;
  bool is_corrupt_ = false;
};

/// Receives on one ring. Worker thread.
class MemifReceiver {
 public:
  /// Frames go into mbufs of `pool`.
  MemifReceiver(const MemifRing& ring, rte_mempool* pool);

  uint16_t Receive(rte_mbuf** frames, uint16_t count);
  /// Asks the sender to write the ring's eventfd for each frame from now on. False: frames are
  /// there already. A sender without a fence between its frame and its look at our flag may still
  /// miss the change; our next look at the ring, a moment later, finds that frame.
  bool AskForWake();
  /// Asks the sender to write the eventfd no more. Receive does so too when it finds frames.
  void StopWake();
  bool is_wake_asked() const { return is_wake_asked_; }
  /// Frames dropped since the last call because they were longer than an mbuf.
  uint64_t TakeTooLong() { return std::exchange(too_long_, 0); }
  bool is_corrupt() const { return is_corrupt_; }

 private:
  enum class Taken : uint8_t { kFrame, kTooLong, kIncomplete, kImpossible };
  uint16_t Available();
  Taken Take(rte_mbuf& frame, uint16_t available, uint16_t& used);
  void GiveBack(uint16_t used);

  const MemifRing ring_;
  rte_mempool* const pool_;
  uint16_t next_ = 0;
  bool is_wake_asked_ = false;
  bool is_corrupt_ = false;
  uint64_t too_long_ = 0;
};

}  // namespace uroce::drivers
