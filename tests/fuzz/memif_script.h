// SPDX-License-Identifier: Apache-2.0
// Invariants of a memif that hold whatever its peer does: its messages on the socket, their fds,
// and its writes to the memory that both share, at any time.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "drivers/memif/memif_connection.h"
#include "tests/fuzz/script_reader.h"

namespace uroce::fuzz {

/// The first byte of a record of a script.
enum MemifRecord : uint8_t {
  kMemifGreet,     ///< The peer does a correct handshake.
  kMemifMessage,   ///< Type; kind of fd; count; an offset and a value each: a message of the peer.
  kMemifNonsense,  ///< Length; bytes that the peer sends.
  kMemifWrite,     ///< Offset in the memory, 3 bytes; length; bytes.
  kMemifIndex,     ///< Which of both rings; 1: its tail; the value, 2 bytes.
  kMemifSlot,      ///< Which ring; slot; a memif::Descriptor.
  kMemifRead,      ///< We read the peer's messages.
  kMemifReceive,   ///< How many frames we look for.
  kMemifSend,      ///< How many; bytes of each, 2 bytes.
  kMemifSleep,     ///< We ask to be woken, or not.
  kMemifRecordCount
};

class MemifScript {
 public:
  /// The first byte of the script says whether we are the server. Frames are in mbufs of `pool`.
  MemifScript(std::span<const uint8_t> script, rte_mempool* pool);

  /// Runs the script. False: a received frame is impossible.
  bool Holds();

 private:
  static constexpr uint8_t kLog2Slots = 5;
  static constexpr size_t kRingBytes =
      sizeof(drivers::memif::RingHeader) + (sizeof(drivers::memif::Descriptor) << kLog2Slots);

  bool IsUp() const { return ours_->state() == drivers::MemifConnection::State::kConnected; }
  bool Do(uint8_t record);
  void Greet();
  static void Read(drivers::MemifConnection& connection);
  void Say();
  bool Receive();
  bool Send();
  void Write(uint64_t offset, std::span<const uint8_t> bytes);
  int FdOf(uint8_t kind);

  ScriptReader reader_;
  rte_mempool* const pool_;
  std::unique_ptr<drivers::MemifConnection> ours_;
  bool is_server_ = false;
  Fd peer_socket_;
  std::unique_ptr<drivers::MemifConnection> peer_;  ///< Of a peer that did the handshake.
  drivers::MemifMemory memory_;                     ///< Lent by a peer that did not.
  Fd event_fd_;
  Fd file_;
};

std::vector<std::vector<uint8_t>> GoodMemifScripts();

/// Runs `script` with frames of this process's pool. False: an invariant does not hold, or a frame
/// is missing.
bool MemifHolds(std::span<const uint8_t> script);

}  // namespace uroce::fuzz
