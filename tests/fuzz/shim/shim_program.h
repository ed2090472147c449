// SPDX-License-Identifier: Apache-2.0
// A program that calls verbs as a script says: on objects that it has, in an order that the manual
// allows, so that every failure is the library's fault.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/script_reader.h"

namespace uroce::fuzz {

/// The calls that a script can name, each with its own operands (shim_program.cc).
enum ShimCall : uint8_t {
  kOpenDevice,
  kEnd,  ///< Kind of the object; its index.
  kAllocPd,
  kCreateChannel,
  kCreateCq,
  kCreateCqEx,
  kResizeCq,
  kModifyCq,
  kCreateQp,
  kModifyQp,
  kQueryQp,
  kCreateSrq,
  kModifySrq,
  kQuerySrq,
  kPostSend,
  kPostExtended,
  kPostReceive,
  kPostSrqReceive,
  kPoll,
  kPollEx,
  kNotify,
  kGetCqEvent,
  kGetAsyncEvent,
  kRegMr,
  kReregMr,
  kQueryPort,
  kQueryGids,
  kCreateAh,
  kAhFromWc,
  kAllocMw,
  kBindMw,
  kMulticast,
  kOpenXrcd,
  kCreateXrcSrq,
  kCreateTarget,
  kOpenTarget,
  kImport,
  kOpenCm,
  kWriteCm,
  kCallCount
};

class ShimProgram {
 public:
  /// The most objects of one kind.
  static constexpr size_t kMost = 6;

  enum class Kind : uint8_t {
    kContext,
    kPd,
    kChannel,
    kCq,
    kQp,
    kSrq,
    kMr,
    kAh,
    kMw,
    kXrcd,
    kImportedPd,
    kCmFile,
    kCount
  };

  ShimProgram();
  ~ShimProgram();
  ShimProgram(const ShimProgram&) = delete;
  ShimProgram& operator=(const ShimProgram&) = delete;

  /// Makes one call with operands from `reader`.
  void Do(uint8_t call, ScriptReader& reader);
  /// Ends all objects, the newest first. The daemon is gone: no call may refuse.
  void EndAll();
  /// What was wrong, or "".
  const std::string& failure() const { return failure_; }
  /// The name of the call under way, or of the last one.
  static const char* call();

 private:
  struct Held {
    Kind kind;
    void* object;
    std::vector<const void*> uses;
  };

  // In the order of ShimCall.
  void OpenDevice(ScriptReader& reader);
  void End(ScriptReader& reader);
  void AllocPd(ScriptReader& reader);
  void CreateChannel(ScriptReader& reader);
  void CreateCq(ScriptReader& reader);
  void CreateCqEx(ScriptReader& reader);
  void ResizeCq(ScriptReader& reader);
  void ModifyCq(ScriptReader& reader);
  void CreateQp(ScriptReader& reader);
  void ModifyQp(ScriptReader& reader);
  void QueryQp(ScriptReader& reader);
  void CreateSrq(ScriptReader& reader);
  void ModifySrq(ScriptReader& reader);
  void QuerySrq(ScriptReader& reader);
  void PostSend(ScriptReader& reader);
  void PostExtended(ScriptReader& reader);
  void PostReceive(ScriptReader& reader);
  void PostSrqReceive(ScriptReader& reader);
  void Poll(ScriptReader& reader);
  void PollEx(ScriptReader& reader);
  void Notify(ScriptReader& reader);
  void GetCqEvent(ScriptReader& reader);
  void GetAsyncEvent(ScriptReader& reader);
  void RegMr(ScriptReader& reader);
  void ReregMr(ScriptReader& reader);
  void QueryPort(ScriptReader& reader);
  void QueryGids(ScriptReader& reader);
  void CreateAh(ScriptReader& reader);
  void AhFromWc(ScriptReader& reader);
  void AllocMw(ScriptReader& reader);
  void BindMw(ScriptReader& reader);
  void Multicast(ScriptReader& reader);
  void OpenXrcd(ScriptReader& reader);
  void CreateXrcSrq(ScriptReader& reader);
  void CreateTarget(ScriptReader& reader);
  void OpenTarget(ScriptReader& reader);
  void Import(ScriptReader& reader);
  void OpenCm(ScriptReader& reader);
  void WriteCm(ScriptReader& reader);

  struct Entry {
    const char* name;
    void (ShimProgram::*function)(ScriptReader&);
  };
  static const Entry kCalls[kCallCount];

  static constexpr int kGreatestErrno = 4095;
  static constexpr size_t kMemoryBytes = 16 * 4096;
  /// The pages that the program registers and sends from.
  static uint8_t* Memory();

  /// The n-th object of a kind, or null.
  template <typename Object>
  Object* Pick(Kind kind, uint32_t number) const {
    return static_cast<Object*>(PickAny(kind, number));
  }
  void* PickAny(Kind kind, uint32_t number) const;
  bool Has(Kind kind, const void* object) const;
  bool HasRoom(Kind kind) const;
  bool IsUsed(const void* object) const;
  /// Keeps the object that a call has made. A call that failed has reported the reason.
  void Hold(Kind kind, void* object, std::vector<const void*> uses);
  /// Ends the object. Returns 0, or why the object is still there.
  static int EndObject(const Held& held);
  void Expect(bool is_right, const char* what);
  void ExpectErrno(int error);
  /// Checks the result of a call that fails with -1 and errno.
  void ExpectMinusOne(int result);
  ibv_ah_attr AhAttr(ScriptReader& reader) const;
  ibv_send_wr SendRequest(ScriptReader& reader, ibv_sge* sges, uint32_t most_sges);
  void Drain();
  void CheckEvent(const ibv_async_event& event);

  std::vector<Held> held_;
  std::string failure_;
  static const char* call_;
};

}  // namespace uroce::fuzz
