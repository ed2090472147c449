// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as a malicious daemon, and as the calls of a program meanwhile: the real shim
// gets the answers, the fds, the shared memory and the events that a script says. One thread runs
// both, so failures repeat: the daemon acts when a program's request reaches it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/fuzz/script_reader.h"
#include "tests/fuzz/shim/shim_program.h"
#include "tests/verbs-shim/daemon/fake_daemon.h"

namespace uroce::fuzz {

/// The first byte of a record. A number below kAlterReply is a ShimCall. The daemon is correct
/// except for these records. A record that names a command applies to the next request of that
/// command, or of any command if it names 0.
enum ShimRecord : uint8_t {
  kAlterReply = 0x80,  ///< Command; offset, 2 bytes; length; bytes that are written there.
  kResizeReply,        ///< Command; how many bytes are sent, 2 bytes.
  kReplyFds,           ///< Command; count; a kind of fd each (ShimScript::MakeFd).
  kHangUp,             ///< Command, which gets no answer.
  kArena,              ///< Offset in the arena, 3 bytes; length; bytes to write there.
  kArenaThen,          ///< The same, after a command, while the command is under way.
  kCompletion,         ///< CQ; worker; then the fields of CompletionFields.
  kEvent,              ///< Socket, 1: of asynchronous events; object; what is added to its
                       ///< user_handle, 8 bytes; type, 255: a completion; how many bytes of the
                       ///< record are written.
  kSignal,             ///< Bytes that arrive on the newest file of rdma_cm.
  kAnswerCm,           ///< Error, 4 bytes; signals, 4 bytes; length; bytes of the response.
  kAnswerLend,         ///< A uroce_lend_reply to the next uroce_lend.
  kWorkers,            ///< The number that the daemon tells; the worker of the next queue pairs.
};

/// The fields of a completion whose place and generation are right.
struct CompletionFields {
  uint8_t queue_pair = 0;  ///< Which one; 255: the handle in `handle`.
  uint8_t handle = 0;
  uint8_t flags = 0;
  uint8_t status = 0;
  uint8_t opcode = 0;
  uint8_t wc_flags = 0;
  uint16_t wqe_index = 0;
  uint32_t byte_len = 0;
};

class ShimScript {
 public:
  ShimScript();
  ~ShimScript();
  ShimScript(const ShimScript&) = delete;
  ShimScript& operator=(const ShimScript&) = delete;

  /// Does what `script` says. A truncated record ends the script.
  void Run(std::span<const uint8_t> script);
  /// Ends the daemon, then all objects of the program. Returns what was wrong, or "".
  std::string Finish();

  /// Called after the program has sent a command, or has lent memory.
  void OnRequest();
  void OnLend();

 private:
  struct Alteration {
    uint8_t record = 0;
    uint8_t command = 0;
    uint32_t place = 0;
    std::vector<uint8_t> bytes;
  };

  void Do(uint8_t record, ScriptReader& reader);
  void PlanAlteration(uint8_t record, ScriptReader& reader);
  void Complete(ScriptReader& reader);
  void RaiseEvent(ScriptReader& reader);
  void AnswerCm(ScriptReader& reader);
  void Alter(const shim_test::Received& request, shim_test::FakeReply& reply);
  void Learn(const shim_test::Received& request, const shim_test::FakeReply& reply);
  void Apply(const Alteration& alteration, shim_test::FakeReply& reply);
  void WriteArena(uint32_t offset, const std::vector<uint8_t>& bytes);
  int MakeFd(uint8_t kind);

  shim_test::FakeDaemon daemon_;
  bool is_gone_ = false;      ///< The present client is disconnected.
  bool is_admitted_ = false;  ///< There is a client.
  std::vector<Alteration> plan_;
  std::vector<uint64_t> user_handles_;  ///< Of CQs, QPs and SRQs, as they were made.
  std::vector<uint32_t> cqs_, queue_pairs_;
  uroce_lend_reply lend_reply_ = {};
  std::vector<int> fds_;  ///< Made for a reply.
  ShimProgram program_;
};

/// Scripts of a correct daemon and a program that uses all of it: the first inputs of a fuzzer.
std::vector<std::vector<uint8_t>> GoodShimScripts();

/// Runs `script`. Returns what was wrong, or "".
std::string ShimFailure(std::span<const uint8_t> script);

}  // namespace uroce::fuzz
