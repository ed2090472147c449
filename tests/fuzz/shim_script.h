// SPDX-License-Identifier: Apache-2.0
// Any bytes as a daemon that means harm, and as what a program calls meanwhile: the real shim gets
// the answers, the fds, the shared memory and the events that a script says. One thread, so what
// fails once fails again: the daemon acts where a program's request reaches it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/fuzz/script_reader.h"
#include "tests/fuzz/shim_program.h"
#include "tests/verbs-shim/fake_daemon.h"

namespace uroce::fuzz {

/// What a record of a script begins with. A number below kAlterReply is a ShimCall. The daemon is
/// a good one but for what these say; what names a command is of the next request of that command,
/// 0: of any.
enum ShimRecord : uint8_t {
  kAlterReply = 0x80,  ///< Command; offset, 2 bytes; length; bytes that are put there.
  kResizeReply,        ///< Command; how many bytes go out, 2 bytes.
  kReplyFds,           ///< Command; count; a kind of fd each (ShimScript::MakeFd).
  kHangUp,             ///< Command, which is not answered.
  kArena,              ///< Offset in the arena, 3 bytes; length; bytes to put there.
  kArenaThen,          ///< The same behind a command, while it is under way.
  kCompletion,         ///< CQ; worker; then the fields of CompletionFields.
  kEvent,              ///< Socket, 1: of asynchronous events; object; what is added to its
                       ///< user_handle, 8 bytes; type, 255: a completion; how many bytes of the
                       ///< record are written.
  kSignal,             ///< Bytes that come on the newest file of rdma_cm.
  kAnswerCm,           ///< Error, 4 bytes; signals, 4 bytes; length; bytes of the response.
  kAnswerLend,         ///< A uroce_lend_reply to the next uroce_lend.
  kWorkers,            ///< How many the daemon says it has; which one has the next queue pairs.
};

/// Of a completion that has its place and generation right.
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

  /// Does what `script` says. A record that ends early ends it.
  void Run(std::span<const uint8_t> script);
  /// The daemon ends, then all that the program has. What was wrong, or "".
  std::string Finish();

  /// A command of the program has gone out, or what it lends.
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
  bool is_gone_ = false;      ///< The present client is hung up on.
  bool is_admitted_ = false;  ///< There is one.
  std::vector<Alteration> plan_;
  std::vector<uint64_t> user_handles_;  ///< Of CQs, QPs and SRQs, as they were made.
  std::vector<uint32_t> cqs_, queue_pairs_;
  uroce_lend_reply lend_reply_ = {};
  std::vector<int> fds_;  ///< Made for a reply.
  ShimProgram program_;
};

/// Scripts of a good daemon and a program that uses all of it: what a fuzzer begins with.
std::vector<std::vector<uint8_t>> GoodShimScripts();

/// Runs `script`. What was wrong, or "".
std::string ShimFailure(std::span<const uint8_t> script);

}  // namespace uroce::fuzz
