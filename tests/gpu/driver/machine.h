// SPDX-License-Identifier: Apache-2.0
// Devices, contexts and streams of a process.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/gpu/cuda.h"
#include "tests/gpu/driver/memory.h"

namespace uroce::test_gpu {

inline constexpr int kDevices = 2;

struct Stream;

/// Never freed, so that a program's old handle is known as one.
struct Context {
  int device = 0;
  bool is_primary = false;
  bool is_alive = true;
  uint32_t retained = 0;          // Of a primary context.
  CUresult error = kCudaSuccess;  // After a copy that failed late, all calls return it.
  std::vector<Stream*> streams;   // The first is the null stream.
};

/// Work of a stream, in the order of `number` over all streams of the process.
struct Work {
  uint64_t number = 0;
  std::function<CUresult(const Stream&)> run;  // Without the lock of the machine.
  Stream* awaited = nullptr;                   // Of cuStreamWaitEvent.
  uint64_t awaited_number = 0;
};

/// Work that one thread executes in order. Never freed. The lock of the machine.
struct Stream {
  Context* context = nullptr;
  bool is_null = false;  // The null stream excludes blocking streams of its context.
  bool is_blocking = false;
  bool is_alive = true;
  bool is_running = false;  // Its thread executes the first work.
  bool has_thread = false;
  std::deque<Work> queue;
  uint64_t newest = 0;  // Number of the work that was enqueued last.
  // When plain copies (control.h) end, by their numbers.
  std::deque<std::pair<uint64_t, uint64_t>> ends_ns;
};

/// Never freed.
struct Event {
  bool is_alive = true;
  Stream* stream = nullptr;
  uint64_t number = 0;
};

/// What a program has of the driver since cuInit. One lock, which no thread holds while it copies,
/// sleeps or hangs.
class Machine {
 public:
  using Lock = std::unique_lock<std::mutex>;

  /// That of this process; null before cuInit, in a fork child, and once the process exits.
  static Machine* Find();
  /// What calls return without a machine.
  static CUresult Absent();
  static CUresult Start();

  std::mutex mutex;
  Space space;

  /// The current context of the calling thread: of its stack's top. Returns an error where there is
  /// none, or it has ended or is broken.
  CUresult Current(Context*& context);

  Context& primary(int device) { return *primaries_[device]; }
  Context& MakeContext(int device);
  /// Null: not a handle of a context that exists; a primary context always does.
  Context* FindContext(CUcontext handle);
  /// Ends the context's streams and memory. Waits for work that is being executed.
  void EndContext(Lock& lock, Context& context);
  void Revive(Context& context);

  Stream& MakeStream(Context& context, bool is_blocking);
  /// Finds the stream of a handle; the null handle is the null stream of the current context.
  CUresult FindStream(CUstream handle, Stream*& stream);
  void EndStream(Stream& stream);

  Event& MakeEvent();
  Event* FindEvent(CUevent handle);

  /// Returns the number of the work.
  uint64_t Enqueue(Stream& stream, Work work);
  /// Begins a plain copy, which keeps the stream busy and moves nothing.
  void Occupy(Stream& stream, size_t bytes);
  bool IsDone(const Stream& stream, uint64_t number) const;
  /// Waits until the work and all before it are done. Returns the context's error.
  CUresult Await(Lock& lock, Stream& stream, uint64_t number);
  /// Waits until all work of a context is done.
  CUresult AwaitAll(Lock& lock, Context& context);
  void Wake() { changed_.notify_all(); }

 private:
  Machine();
  void RunStream(Stream& stream);
  bool MayBegin(const Stream& stream) const;

  std::condition_variable changed_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> events_;
  Context* primaries_[kDevices];
  uint64_t next_number_ = 1;
};

/// The contexts of the calling thread, newest last.
std::vector<Context*>& CurrentContexts();

/// Waits while `word` of the control is not 0, and `goes_on` gives true.
void HangWhile(const uint32_t& word, const std::function<bool()>& goes_on);

/// Calls `call` with the machine and its lock.
template <typename Call>
CUresult WithMachine(Call call) {
  Machine* const machine = Machine::Find();
  if (machine == nullptr) return Machine::Absent();
  Machine::Lock lock(machine->mutex);
  return call(*machine, lock);
}

/// Also with the current context.
template <typename Call>
CUresult WithContext(Call call) {
  return WithMachine([&](Machine& machine, Machine::Lock& lock) {
    Context* context = nullptr;
    const CUresult result = machine.Current(context);
    return result != kCudaSuccess ? result : call(machine, lock, *context);
  });
}

}  // namespace uroce::test_gpu
