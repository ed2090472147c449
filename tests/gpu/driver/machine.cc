// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/driver/machine.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "tests/gpu/driver/control.h"

namespace uroce::test_gpu {

// ---- The process ----

namespace {

std::atomic<Machine*> the_machine{nullptr};
/// The same, at the end of the process too: its threads use it as long as they last.
Machine* lasting_machine = nullptr;
std::atomic<bool> is_fork_child{false};
std::atomic<bool> has_ended{false};

void InChild() {
  // Threads of the parent may hold its lock, so the child forgets the machine.
  is_fork_child = the_machine.exchange(nullptr) != nullptr || is_fork_child;
}

__attribute__((destructor)) void End() {
  has_ended = true;
  if (Machine* const machine = the_machine.exchange(nullptr)) machine->Wake();
}

}  // namespace

Machine* Machine::Find() { return the_machine.load(std::memory_order_acquire); }

CUresult Machine::Absent() { return has_ended ? kCudaDeinitialized : kCudaNotInitialized; }

CUresult Machine::Start() {
  if (has_ended || is_fork_child) return Absent();
  static std::mutex start_mutex;
  const std::lock_guard lock(start_mutex);
  if (Find() == nullptr) {
    pthread_atfork(nullptr, nullptr, InChild);
    lasting_machine = new Machine;
    the_machine = lasting_machine;
  }
  return kCudaSuccess;
}

namespace {

/// Has a file open as programs of NVIDIA's driver have: a character device of its major number,
/// which says that pages of the process may be pinned. Only a privileged process can make one; in
/// others the kernel says so.
void OpenDeviceFile() {
  constexpr unsigned kMajor = 195;
  const std::string path = "/dev/shm/uroce-test-gpu-device-" + std::to_string(getpid());
  if (mknod(path.c_str(), S_IFCHR | 0600, makedev(kMajor, 0)) != 0) return PinnedPages::Count();
  (void)open(path.c_str(), O_PATH | O_CLOEXEC);  // As long as the process lasts.
  unlink(path.c_str());
}

}  // namespace

Machine::Machine() {
  OpenDeviceFile();
  for (int device = 0; device < kDevices; ++device) {
    Context& context = MakeContext(device);
    context.is_primary = true;
    context.is_alive = false;
    primaries_[device] = &context;
  }
}

std::vector<Context*>& CurrentContexts() {
  thread_local std::vector<Context*> contexts;
  return contexts;
}

void HangWhile(const uint32_t& word, const std::function<bool()>& goes_on) {
  if (Read(word) == 0) return;
  Add(TheControl().hanging, 1);
  while (Read(word) != 0 && goes_on()) usleep(1000);
  Add(TheControl().hanging, ~uint32_t{0});
}

// ---- Contexts ----

CUresult Machine::Current(Context*& context) {
  const std::vector<Context*>& stack = CurrentContexts();
  if (stack.empty() || stack.back() == nullptr) return kCudaInvalidContext;
  context = stack.back();
  return context->is_alive ? context->error : kCudaContextIsDestroyed;
}

Context& Machine::MakeContext(int device) {
  contexts_.push_back(std::make_unique<Context>());
  Context& context = *contexts_.back();
  context.device = device;
  MakeStream(context, true).is_null = true;
  return context;
}

Context* Machine::FindContext(CUcontext handle) {
  for (const auto& context : contexts_) {
    if (context.get() == handle) {
      return context->is_alive || context->is_primary ? context.get() : nullptr;
    }
  }
  return nullptr;
}

void Machine::EndContext(Lock& lock, Context& context) {
  context.is_alive = false;
  for (Stream* const stream : context.streams) EndStream(*stream);
  changed_.wait(lock, [&] {
    return std::none_of(context.streams.begin(), context.streams.end(),
                        [](const Stream* stream) { return stream->is_running; });
  });
  context.streams.clear();
  space.RemoveOf(&context);
}

void Machine::Revive(Context& context) {
  context.is_alive = true;
  context.error = kCudaSuccess;
  if (context.streams.empty()) MakeStream(context, true).is_null = true;
}

// ---- Streams and events ----

Stream& Machine::MakeStream(Context& context, bool is_blocking) {
  streams_.push_back(std::make_unique<Stream>());
  Stream& stream = *streams_.back();
  stream.context = &context;
  stream.is_blocking = is_blocking;
  context.streams.push_back(&stream);
  return stream;
}

CUresult Machine::FindStream(CUstream handle, Stream*& stream) {
  if (handle == nullptr) {
    Context* context = nullptr;
    const CUresult result = Current(context);
    if (result == kCudaSuccess) stream = context->streams.front();
    return result;
  }
  for (const auto& its : streams_) {
    if (its.get() != handle) continue;
    if (!its->context->is_alive) return kCudaContextIsDestroyed;
    if (!its->is_alive) return kCudaInvalidHandle;
    stream = its.get();
    return its->context->error;
  }
  return kCudaInvalidHandle;
}

void Machine::EndStream(Stream& stream) {
  const bool was_made = stream.is_alive && !stream.is_null;
  stream.is_alive = false;
  // Work that has begun stays in front until its thread is back.
  while (stream.queue.size() > (stream.is_running ? 1u : 0u)) stream.queue.pop_back();
  if (was_made) Add(TheControl().streams, ~uint32_t{0});
  Wake();
}

Event& Machine::MakeEvent() {
  events_.push_back(std::make_unique<Event>());
  return *events_.back();
}

Event* Machine::FindEvent(CUevent handle) {
  for (const auto& event : events_) {
    if (event.get() == handle) return event->is_alive ? event.get() : nullptr;
  }
  return nullptr;
}

// ---- Work ----

namespace {

/// A thread of the driver takes no signal of the program.
void StartThread(std::function<void()> run) {
  sigset_t all;
  sigset_t former;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &former);
  std::thread(std::move(run)).detach();
  pthread_sigmask(SIG_SETMASK, &former, nullptr);
}

}  // namespace

uint64_t Machine::Enqueue(Stream& stream, Work work) {
  work.number = next_number_++;
  stream.newest = work.number;
  stream.queue.push_back(std::move(work));
  if (!stream.has_thread) {
    stream.has_thread = true;
    StartThread([this, &stream] { RunStream(stream); });
  }
  Wake();
  return stream.newest;
}

namespace {

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace

void Machine::Occupy(Stream& stream, size_t bytes) {
  const Control& control = TheControl();
  const uint64_t latency_ns = Read(control.latency_ns);
  const uint32_t bytes_per_us = Read(control.bytes_per_us);
  const uint64_t moves_ns = bytes_per_us != 0 ? 1000 * bytes / bytes_per_us : 0;
  const uint64_t busy_ns = Read(control.busy_ns) + moves_ns;
  const uint64_t now = NowNs();
  auto& ends = stream.ends_ns;
  while (!ends.empty() && ends.front().second <= now) ends.pop_front();
  stream.newest = next_number_++;
  const uint64_t before = ends.empty() ? now : ends.back().second - latency_ns;
  if (busy_ns + latency_ns == 0) return;
  ends.emplace_back(stream.newest, std::max(now, before) + busy_ns + latency_ns);
}

bool Machine::IsDone(const Stream& stream, uint64_t number) const {
  if (!stream.queue.empty() && stream.queue.front().number <= number) return false;
  for (auto it = stream.ends_ns.rbegin(); it != stream.ends_ns.rend(); ++it) {
    if (it->first <= number) return it->second <= NowNs();
  }
  return true;
}

bool Machine::MayBegin(const Stream& stream) const {
  const Work& work = stream.queue.front();
  if (work.awaited != nullptr && !IsDone(*work.awaited, work.awaited_number)) return false;
  if (!stream.is_blocking) return true;
  for (const Stream* const other : stream.context->streams) {
    const bool excludes = other != &stream && (other->is_null || stream.is_null);
    if (excludes && other->is_blocking && !IsDone(*other, work.number)) return false;
  }
  return true;
}

void Machine::RunStream(Stream& stream) {
  Lock lock(mutex);
  for (;;) {
    changed_.wait(lock,
                  [&] { return !stream.is_alive || (!stream.queue.empty() && MayBegin(stream)); });
    if (stream.queue.empty()) break;
    stream.is_running = true;
    const auto run = stream.queue.front().run;
    lock.unlock();
    const CUresult result = run ? run(stream) : kCudaSuccess;
    lock.lock();
    if (result != kCudaSuccess) stream.context->error = result;
    stream.is_running = false;
    stream.queue.pop_front();
    Wake();
  }
}

CUresult Machine::Await(Lock& lock, Stream& stream, uint64_t number) {
  const auto is_over = [&] { return has_ended || !stream.is_alive || IsDone(stream, number); };
  while (!stream.ends_ns.empty() && !is_over()) {  // No thread wakes this one.
    lock.unlock();
    sched_yield();
    lock.lock();
  }
  changed_.wait(lock, is_over);
  if (has_ended) return kCudaDeinitialized;
  return stream.context->is_alive ? stream.context->error : kCudaContextIsDestroyed;
}

CUresult Machine::AwaitAll(Lock& lock, Context& context) {
  const std::vector<Stream*> streams = context.streams;
  CUresult result = context.error;
  for (Stream* const stream : streams) {
    result = Await(lock, *stream, stream->newest);
    if (result != kCudaSuccess) break;
  }
  return result;
}

}  // namespace uroce::test_gpu
