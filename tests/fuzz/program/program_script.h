// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as a program's actions towards the daemon: commands, files that it lends, the
// memory that both share, doorbells, time, and its end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tests/fuzz/script_reader.h"
#include "tests/nic/control/client.h"
#include "tests/nic/control/hand_daemon.h"

namespace uroce::fuzz {

/// The first byte of a record. A number below kDatagram is a command: its length in words follows,
/// then its body.
enum Record : uint8_t {
  kDatagram = 0x80,  ///< Length; bytes that are sent unchanged.
  kLend,             ///< Kind of the file; a uroce_lend.
  kMemory,           ///< Offset in the arena, 3 bytes; length; bytes to write there.
  kRing,             ///< Doorbell slot, 2 bytes.
  kTurns,            ///< How many turns of the worker, a microsecond each.
  kWait,             ///< Exponent: 2^n us pass, then there is a turn.
  kSegment,  ///< Number of the segment, offset in words, 2 bytes; length; bytes to write there.
  kFdAlong,  ///< Kind of the file; length; bytes that are sent with it where no file is expected.
  kOther,  ///< From here on another program does it, that connects at its first; or the first one.
};

/// Words that stand for numbers which are not known beforehand, in commands and in memory: the key
/// and the number of the n-th region and queue pair that the script has made, and the n-th word of
/// the names of its contexts, in their order.
inline constexpr uint32_t kKeyOf = 0x6b657900;
inline constexpr uint32_t kQpnOf = 0x71706e00;
inline constexpr uint32_t kNameOf = 0x6e616d00;

/// Where the memory begins that programs lend: of a process that sleeps, or has ended.
inline constexpr uint64_t kAddr = 0x10000;

/// One or two programs of a daemon whose workers run only when called.
class ProgramScript {
 public:
  explicit ProgramScript(nic::HandDaemon& daemon);
  /// Ends the programs, and waits until the daemon has noticed that.
  ~ProgramScript();
  ProgramScript(const ProgramScript&) = delete;
  ProgramScript& operator=(const ProgramScript&) = delete;

  /// Does what `script` says. A truncated record ends the script.
  void Run(std::span<const uint8_t> script);

  nic::ControlClient& client() { return client_; }
  uint8_t* arena() const { return arena_; }

 private:
  /// What both programs share.
  struct Common {
    Nanos now;
    std::vector<uint32_t> keys, qpns, names;
  };
  ProgramScript(nic::HandDaemon& daemon, std::shared_ptr<Common> common);
  ProgramScript& Other();
  void Do(uint8_t kind, ScriptReader& reader);
  void Command(uint32_t command, ScriptReader& reader);
  void SendDatagram(ScriptReader& reader);
  void Lend(ScriptReader& reader);
  void SendFdAlong(ScriptReader& reader);
  /// Sends bytes, with the file unless it is empty. False: the socket does not take them.
  static bool Send(int socket, std::vector<uint8_t>& bytes, const Fd& file);
  void WriteArena(ScriptReader& reader);
  void WriteSegment(ScriptReader& reader);
  void Ring(uint32_t slot);
  void PassTime(Nanos time);
  /// Replaces the words that stand for numbers by those numbers.
  void Fill(std::vector<uint8_t>& bytes) const;
  void Learn(uint32_t command, nic::Answer answer);
  void AwaitAnswer();
  void TakeAnswers(uint32_t command);

  nic::HandDaemon& daemon_;
  nic::ControlClient client_;
  const std::shared_ptr<Common> common_;
  uint8_t* arena_ = nullptr;
  Fd lend_socket_;
  std::vector<Fd> segments_;
  std::unique_ptr<ProgramScript> other_;
};

/// Whether the daemon holds nothing for programs, soon. Says to stderr what it holds.
bool HoldsNothing(nic::HandDaemon& daemon);

/// The daemon of this process.
nic::HandDaemon& TheDaemon();

/// A program that makes two connected queue pairs, and ways in which programs go on from there: the
/// first inputs of a fuzzer.
std::vector<uint8_t> MadeProgram();
std::vector<std::vector<uint8_t>> GoodScripts();
/// Where the n-th queue pair of MadeProgram completes: the offset in the arena of a
/// uroce_cq_ring_page, and of the entries after it.
uint32_t RingOfQueuePair(uint32_t qp);

/// Runs `script`, after MadeProgram if `made`. False: the daemon still holds something of the
/// program.
bool ScriptHolds(std::span<const uint8_t> script, bool made);

}  // namespace uroce::fuzz
