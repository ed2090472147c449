// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/own_copies.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "pipeline/base/cpu.h"
#include "pipeline/shm/abi/uroce_copies.h"
#include "pipeline/shm/rings/shared_word.h"
#include "verbs-shim/memory/own_threads.h"
#include "verbs-shim/memory/system_call.h"
#include "verbs-shim/served_memory.h"
#include "verbs-shim/support.h"

namespace uroce::shim {
namespace {

using memory::SystemCall;

constexpr uint64_t kSpinNs = 20'000;  // As long as the daemon takes between two copies.

/// The ways by which a copy reaches the program's memory. Each is a system call on a file, since an
/// address without memory is an error then, and no signal. Sandboxes of programs allow such calls.
class Files {
 public:
  /// `lanes` is the file of the lanes. Returns 0 or an errno.
  int Open(int lanes) {
    constexpr size_t kBytes = UROCE_COPY_DATA_BYTES;
    lanes_ = KeptFile(lanes);
    const int room = memfd_create("uroce-own-copies", MFD_CLOEXEC);
    if (room < 0) return errno;
    room_ = KeptFile(room);
    if (ftruncate(room, kBytes) != 0) return errno;
    void* mapped = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, room, 0);
    if (mapped == MAP_FAILED) return errno;
    madvise(mapped, kBytes, MADV_DONTFORK);
    room_bytes_ = static_cast<const uint8_t*>(mapped);
    return 0;
  }

  /// After a failure to open or to start.
  void Close() const {
    if (lanes_.fd() >= 0) SystemCall(SYS_close, lanes_.fd());
    if (room_.fd() >= 0) SystemCall(SYS_close, room_.fd());
    if (room_bytes_ != nullptr) munmap(const_cast<uint8_t*>(room_bytes_), UROCE_COPY_DATA_BYTES);
  }

  /// Whether the program has not closed them.
  bool AreThere() const { return lanes_.IsThere() && room_.IsThere(); }
  /// Moves `bytes` bytes of the lanes from `offset` on to the ranges. Returns 0 or an errno.
  int Write(off_t offset, size_t bytes, const iovec* ranges, uint32_t count) const {
    return ErrorOf(preadv(lanes_.fd(), ranges, static_cast<int>(count), offset), bytes);
  }
  /// Moves the ranges' bytes to `data`. Returns 0 or an errno.
  int Read(uint8_t* data, size_t bytes, const iovec* ranges, uint32_t count) const {
    const int error = ErrorOf(pwritev(room_.fd(), ranges, static_cast<int>(count), 0), bytes);
    if (error == 0) memcpy(data, room_bytes_, bytes);
    return error;
  }

 private:
  static int ErrorOf(ssize_t moved, size_t bytes) {
    if (moved < 0) return errno;
    return static_cast<size_t>(moved) == bytes ? 0 : EFAULT;
  }

  KeptFile lanes_;
  KeptFile room_;  // Of this process alone: no program may write to the file of the lanes.
  const uint8_t* room_bytes_ = nullptr;
};

class Server {
 public:
  Server(DaemonConnection& connection, uroce_copies& copies, uint32_t lanes, const Files& files)
      : connection_(connection), copies_(copies), lanes_(lanes), files_(files) {}

  void Run() {
    uint64_t idle_since = ClockNs(CLOCK_MONOTONIC);
    bool slept_long = false;
    for (;;) {
      while (!memory::g_own_threads.TryEnter()) SystemCall(SYS_sched_yield);
      if (slept_long && !connection_.is_live()) break;
      rings::StoreRelaxed(copies_.program_sleeps, uint32_t{0});
      const bool any = ServeAll();
      const uint64_t now = ClockNs(CLOCK_MONOTONIC);
      if (any) idle_since = now;
      const uint32_t* const word = &copies_.wakes;
      uint32_t wakes = 0;
      const bool sleeps = now - idle_since >= kSpinNs && MaySleep(&wakes);
      memory::g_own_threads.Leave();
      slept_long = sleeps && !AwaitWake(*word, wakes);
      if (!sleeps && !any) SystemCall(SYS_sched_yield);
    }
    memory::g_own_threads.Leave();
    memory::g_own_threads.Remove();
  }

 private:
  uroce_copy_lane& Lane(uint32_t worker) const {
    return reinterpret_cast<uroce_copy_lane*>(&copies_ + 1)[worker];
  }

  bool ServeAll() {
    bool any = false;
    for (uint32_t worker = 0; worker < lanes_; ++worker) {
      uroce_copy_lane& lane = Lane(worker);
      for (uint32_t slot = 0; slot < UROCE_COPY_SLOTS; ++slot) {
        any |= Serve(worker, lane.places[slot], lane.requests[slot], lane.data[slot]);
      }
    }
    return any;
  }

  /// A request, read once.
  struct Copy {
    bool writes = false;
    uint32_t count = 0;
    size_t bytes = 0;
    iovec ranges[UROCE_COPY_PIECES + 1];
  };

  bool Serve(uint32_t worker, uroce_copy_place& place, const uroce_copy_request& request,
             uint8_t* data) const {
    uint32_t state = rings::LoadAcquire(place.state);
    if ((state & UROCE_COPY_PHASE_MASK) != UROCE_COPY_POSTED) return false;
    Copy copy;
    int error = Read(request, copy);
    if (error == 0 && !files_.AreThere()) error = EBADF;
    uint32_t done = state - UROCE_COPY_POSTED + UROCE_COPY_DONE;
    // As little as possible lies between this and the system call: see uroce_copies.h on stopped
    // threads. The slot is the thread's only from here on.
    if (!__atomic_compare_exchange_n(&place.state, &state, state + 1, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED)) {
      return false;
    }
    if (error == 0 && copy.writes) AddState(copy, data, place, done);
    if (error == 0) error = Execute(copy, data);
    if (error != 0 || !cpu::kStoresStayInOrder || !copy.writes) {
      place.error = error;
      rings::StoreRelease(place.state, done);
    }
    WakeWorker(connection_, worker);
    return true;
  }

  static int Read(const uroce_copy_request& request, Copy& copy) {
    const uint32_t kind = rings::LoadRelaxed(request.kind);
    copy.writes = kind == UROCE_STAGE_WRITE;
    copy.count = rings::LoadRelaxed(request.piece_count);
    const bool is_known = copy.writes || kind == UROCE_STAGE_READ;
    if (!is_known || copy.count > UROCE_COPY_PIECES) return EINVAL;
    for (uint32_t i = 0; i < copy.count; ++i) {
      uroce_stage_piece piece;
      rings::CopyOnce(&piece, &request.pieces[i], sizeof(piece));
      if (piece.length > UROCE_COPY_MOST_BYTES - copy.bytes) return EINVAL;
      copy.ranges[i] = {reinterpret_cast<void*>(piece.addr), piece.length};
      copy.bytes += piece.length;
    }
    return 0;
  }

  /// Has the kernel store `done` behind the bytes of `copy`, which lie at `data`: it copies one
  /// range after the other.
  static void AddState(Copy& copy, uint8_t* data, uroce_copy_place& place, uint32_t done) {
    if (!cpu::kStoresStayInOrder) return;
    place.error = 0;
    memcpy(data + copy.bytes, &done, sizeof(done));
    copy.ranges[copy.count++] = {&place.state, sizeof(done)};
    copy.bytes += sizeof(done);
  }

  int Execute(const Copy& copy, uint8_t* data) const {
    if (!copy.writes) return files_.Read(data, copy.bytes, copy.ranges, copy.count);
    const off_t offset = data - reinterpret_cast<const uint8_t*>(&copies_);
    return files_.Write(offset, copy.bytes, copy.ranges, copy.count);
  }

  bool HasPosted() const {
    for (uint32_t worker = 0; worker < lanes_; ++worker) {
      for (const uroce_copy_place& place : Lane(worker).places) {
        const uint32_t state = rings::LoadRelaxed(place.state);
        if ((state & UROCE_COPY_PHASE_MASK) == UROCE_COPY_POSTED) return true;
      }
    }
    return false;
  }

  /// Announces that the thread sleeps until `wakes` changes. False: a copy was posted.
  bool MaySleep(uint32_t* wakes) const {
    rings::StoreRelaxed(copies_.program_sleeps, uint32_t{1});
    *wakes = rings::LoadRelaxed(copies_.wakes);
    rings::FullFence();
    return !HasPosted();
  }

  DaemonConnection& connection_;
  uroce_copies& copies_;
  const uint32_t lanes_;
  const Files files_;
};

void* RunServer(void* argument) {
  auto* const server = static_cast<Server*>(argument);
  pthread_setname_np(pthread_self(), "uroce-copies");
  server->Run();
  return nullptr;  // The server stays: copies may still be posted.
}

}  // namespace

int OpenOwnCopies(DaemonConnection& connection) {
  const ErrnoKeeper keeper;
  const char* const setting = secure_getenv("UROCE_OWN_COPIES");
  if (setting != nullptr && strcmp(setting, "0") == 0) return EOPNOTSUPP;
  ServedMemory served;
  constexpr size_t kLeast = sizeof(uroce_copies) + sizeof(uroce_copy_lane);
  int error = MapServedMemory(connection, UROCE_CREATE_COPIES, kLeast, &served);
  if (error != 0) return error;
  const size_t has_room_for = (served.bytes - sizeof(uroce_copies)) / sizeof(uroce_copy_lane);
  const uint32_t workers = connection.worker_count();
  const auto lanes = has_room_for < workers ? static_cast<uint32_t>(has_room_for) : workers;
  Files files;
  error = files.Open(served.fd);
  void* room = error == 0 ? malloc(sizeof(Server)) : nullptr;
  if (error == 0 && room == nullptr) error = ENOMEM;
  if (error == 0) {
    auto& copies = *static_cast<uroce_copies*>(served.mapped);
    error = StartServingThread(RunServer, new (room) Server(connection, copies, lanes, files));
  }
  if (error == 0) {
    memory::g_own_threads.Add();
    connection.copied_regions().Begin();
    return 0;
  }
  free(room);
  files.Close();
  munmap(served.mapped, served.bytes);
  return error;
}

}  // namespace uroce::shim
