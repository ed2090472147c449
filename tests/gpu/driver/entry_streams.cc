// SPDX-License-Identifier: Apache-2.0
// Entry points: streams, events, copies and the kernel of tests.
#include <unistd.h>

#include <cstring>
#include <utility>

#include "tests/gpu/driver/control.h"
#include "tests/gpu/driver/copy.h"
#include "tests/gpu/driver/machine.h"

namespace uroce::test_gpu {
namespace {

// ---- Copies ----

bool GoesOn() { return Machine::Find() != nullptr; }

/// What the control says of one copy.
struct Fate {
  uint32_t number = 0;
  CUresult at_call = kCudaSuccess;
  CUresult late = kCudaSuccess;
};

/// Counts a copy.
Fate NextFate() {
  Control& control = TheControl();
  Fate fate{.number = Add(control.copies, 1)};
  const uint32_t from = Read(control.fail_from);
  const uint32_t count = Read(control.fail_count);
  if (from == 0 || fate.number < from || fate.number - from >= (count != 0 ? count : 1)) {
    return fate;
  }
  const auto wanted = static_cast<CUresult>(Read(control.fail_result));
  const CUresult result = wanted != kCudaSuccess ? wanted : kCudaIllegalAddress;
  (Read(control.fail_late) != 0 ? fate.late : fate.at_call) = result;
  return fate;
}

/// What a copy does when its turn on the stream comes.
CUresult BeginWork(const Stream& stream) {
  const Control& control = TheControl();
  HangWhile(control.hang_copy, [&] { return GoesOn() && stream.is_alive; });
  if (const uint32_t delay_us = Read(control.delay_us)) usleep(delay_us);
  return stream.is_alive ? kCudaSuccess : kCudaContextIsDestroyed;
}

/// Makes a plain copy, without the lock.
void MoveNow(Machine& machine, Machine::Lock& lock, Stream& stream, const std::vector<Part>& to,
             const std::vector<Part>& from) {
  size_t bytes = 0;
  for (const Part& part : to) bytes += part.bytes;
  machine.Occupy(stream, bytes);
  if (Read(TheControl().plain) == kNoBytes) return;
  lock.unlock();
  MovePlainly(to, from);
  lock.lock();
}

/// Begins a copy on the stream; also waits for it, if it `waits`.
CUresult Begin(Machine& machine, Machine::Lock& lock, CUstream handle, bool waits,
               std::vector<Part> to, std::vector<Part> from) {
  Stream* stream = nullptr;
  CUresult result = machine.FindStream(handle, stream);
  if (result != kCudaSuccess) return result;
  if (to.empty() || from.empty()) return kCudaInvalidValue;
  const Fate fate = NextFate();
  if (fate.at_call != kCudaSuccess) return fate.at_call;
  const bool is_plain = Read(TheControl().plain) != 0 && fate.late == kCudaSuccess;
  if (is_plain && stream->queue.empty()) {
    MoveNow(machine, lock, *stream, to, from);
    return waits ? machine.Await(lock, *stream, stream->newest) : kCudaSuccess;
  }
  const uint64_t seed = (uint64_t{Read(TheControl().seed)} << 32) + fate.number;
  const uint64_t number =
      machine.Enqueue(*stream, {.run = [to = std::move(to), from = std::move(from),
                                        late = fate.late, seed](const Stream& its) {
        if (BeginWork(its) != kCudaSuccess) return kCudaSuccess;
        if (late == kCudaSuccess) MoveBytes(to, from, seed);
        return late;
      }});
  return waits ? machine.Await(lock, *stream, number) : kCudaSuccess;
}

/// The program's own memory at `memory`: as the driver knows it, or pageable.
std::vector<Part> HostParts(Machine& machine, const void* memory, size_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(memory);
  if (machine.space.IsOfDevices(address)) return {};
  if (machine.space.Find(address) != nullptr) return machine.space.Locate(address, bytes);
  return {{.memory = static_cast<uint8_t*>(const_cast<void*>(memory)), .bytes = bytes}};
}

CUresult CopyToDevice(CUdeviceptr to, const void* from, size_t bytes, CUstream stream, bool waits) {
  if (bytes == 0) return kCudaSuccess;
  HangWhile(TheControl().hang_call, GoesOn);
  return WithContext([&](Machine& machine, Machine::Lock& lock, Context&) {
    return Begin(machine, lock, stream, waits, machine.space.Locate(to, bytes),
                 HostParts(machine, from, bytes));
  });
}

CUresult CopyToHost(void* to, CUdeviceptr from, size_t bytes, CUstream stream, bool waits) {
  if (bytes == 0) return kCudaSuccess;
  HangWhile(TheControl().hang_call, GoesOn);
  return WithContext([&](Machine& machine, Machine::Lock& lock, Context&) {
    return Begin(machine, lock, stream, waits, HostParts(machine, to, bytes),
                 machine.space.Locate(from, bytes));
  });
}

CUresult CopyOnDevice(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, bool waits) {
  if (bytes == 0) return kCudaSuccess;
  return WithContext([&](Machine& machine, Machine::Lock& lock, Context&) {
    return Begin(machine, lock, stream, waits, machine.space.Locate(to, bytes),
                 machine.space.Locate(from, bytes));
  });
}

CUresult Fill(CUdeviceptr address, uint8_t value, size_t bytes, CUstream handle, bool waits) {
  if (bytes == 0) return kCudaSuccess;
  return WithContext([&](Machine& machine, Machine::Lock& lock, Context&) {
    Stream* stream = nullptr;
    const CUresult result = machine.FindStream(handle, stream);
    if (result != kCudaSuccess) return result;
    std::vector<Part> parts = machine.space.Locate(address, bytes);
    if (parts.empty()) return kCudaInvalidValue;
    const uint64_t number =
        machine.Enqueue(*stream, {.run = [parts = std::move(parts), value](const Stream& its) {
          if (BeginWork(its) == kCudaSuccess) FillBytes(parts, value);
          return kCudaSuccess;
        }});
    return waits ? machine.Await(lock, *stream, number) : kCudaSuccess;
  });
}

// ---- The kernel of tests ----

CUresult Poll(const Stream& stream, const Part& flag, uint64_t expected, const Part& data,
              void* snapshot) {
  const auto* const word = reinterpret_cast<const uint64_t*>(flag.memory);
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != expected) {
    if (!GoesOn() || !stream.is_alive) return kCudaSuccess;
  }
  std::memcpy(snapshot, data.memory, data.bytes);
  return kCudaSuccess;
}

}  // namespace
}  // namespace uroce::test_gpu

using namespace uroce::test_gpu;

CUresult uroceTestPoll(CUdeviceptr flag, uint64_t expected, CUdeviceptr data, size_t bytes,
                       void* snapshot, CUstream handle) {
  return WithContext([&](Machine& machine, Machine::Lock&, Context&) {
    Stream* stream = nullptr;
    const CUresult result = machine.FindStream(handle, stream);
    if (result != kCudaSuccess) return result;
    const std::vector<Part> word = machine.space.Locate(flag, sizeof(uint64_t));
    const std::vector<Part> all = machine.space.Locate(data, bytes);
    if (word.size() != 1 || all.size() != 1 || flag % sizeof(uint64_t) != 0) {
      return kCudaInvalidValue;
    }
    machine.Enqueue(*stream, {.run = [=](const Stream& its) {
      return Poll(its, word[0], expected, all[0], snapshot);
    }});
    return kCudaSuccess;
  });
}

// ---- Streams ----

CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
  return WithContext([&](Machine& machine, Machine::Lock&, Context& context) {
    *handle = &machine.MakeStream(context, (flags & kStreamNonBlocking) == 0);
    Add(TheControl().streams, 1);
    return kCudaSuccess;
  });
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  if (handle == nullptr) return kCudaInvalidHandle;
  return WithMachine([handle](Machine& machine, Machine::Lock& lock) {
    Stream* stream = nullptr;
    const CUresult result = machine.FindStream(handle, stream);
    if (stream == nullptr) return result;
    machine.Await(lock, *stream, stream->newest);
    machine.EndStream(*stream);
    return kCudaSuccess;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  const CUresult done = WithMachine([handle](Machine& machine, Machine::Lock& lock) {
    Stream* stream = nullptr;
    const CUresult result = machine.FindStream(handle, stream);
    return result != kCudaSuccess ? result : machine.Await(lock, *stream, stream->newest);
  });
  HangWhile(TheControl().hang_synchronize, GoesOn);
  return done;
}

CUresult cuStreamQuery(CUstream handle) {
  return WithMachine([handle](Machine& machine, Machine::Lock&) {
    Stream* stream = nullptr;
    const CUresult result = machine.FindStream(handle, stream);
    if (result != kCudaSuccess) return result;
    return machine.IsDone(*stream, stream->newest) ? kCudaSuccess : kCudaNotReady;
  });
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned) {
  return WithMachine([&](Machine& machine, Machine::Lock&) {
    Stream* stream = nullptr;
    const CUresult result = machine.FindStream(handle, stream);
    const Event* const event = machine.FindEvent(event_handle);
    if (result != kCudaSuccess || event == nullptr || event->stream == nullptr) {
      return result != kCudaSuccess || event != nullptr ? result : kCudaInvalidHandle;
    }
    machine.Enqueue(*stream,
                    {.run = nullptr, .awaited = event->stream, .awaited_number = event->number});
    return kCudaSuccess;
  });
}

// ---- Events ----

CUresult cuEventCreate(CUevent* handle, unsigned) {
  return WithContext([handle](Machine& machine, Machine::Lock&, Context&) {
    *handle = &machine.MakeEvent();
    return kCudaSuccess;
  });
}

CUresult cuEventDestroy_v2(CUevent handle) {
  return WithMachine([handle](Machine& machine, Machine::Lock&) {
    Event* const event = machine.FindEvent(handle);
    if (event == nullptr) return kCudaInvalidHandle;
    event->is_alive = false;
    return kCudaSuccess;
  });
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  return WithMachine([&](Machine& machine, Machine::Lock&) {
    Event* const event = machine.FindEvent(handle);
    if (event == nullptr) return kCudaInvalidHandle;
    Stream* stream = nullptr;
    const CUresult result = machine.FindStream(stream_handle, stream);
    if (result != kCudaSuccess) return result;
    event->stream = stream;
    event->number = stream->newest;
    return kCudaSuccess;
  });
}

CUresult cuEventQuery(CUevent handle) {
  return WithMachine([handle](Machine& machine, Machine::Lock&) {
    const Event* const event = machine.FindEvent(handle);
    if (event == nullptr) return kCudaInvalidHandle;
    const bool is_done = event->stream == nullptr || machine.IsDone(*event->stream, event->number);
    return is_done ? kCudaSuccess : kCudaNotReady;
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return WithMachine([handle](Machine& machine, Machine::Lock& lock) {
    const Event* const event = machine.FindEvent(handle);
    if (event == nullptr) return kCudaInvalidHandle;
    if (event->stream == nullptr) return kCudaSuccess;
    return machine.Await(lock, *event->stream, event->number);
  });
}

// ---- Copies ----

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return CopyToDevice(to, from, bytes, nullptr, /*waits=*/true);
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return CopyToHost(to, from, bytes, nullptr, /*waits=*/true);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return CopyOnDevice(to, from, bytes, nullptr, /*waits=*/true);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return CopyToDevice(to, from, bytes, stream, /*waits=*/false);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CopyToHost(to, from, bytes, stream, /*waits=*/false);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CopyOnDevice(to, from, bytes, stream, /*waits=*/false);
}

CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t bytes) {
  return Fill(address, value, bytes, nullptr, /*waits=*/true);
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream) {
  return Fill(address, value, bytes, stream, /*waits=*/false);
}
