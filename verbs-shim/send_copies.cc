// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/send_copies.h"

#include <sys/mman.h>
#include <sys/uio.h>

#include <cstring>

#include "verbs-shim/memory/registry.h"
#include "verbs-shim/memory/system_call.h"
#include "verbs-shim/memory_region.h"
#include "verbs-shim/objects.h"

namespace uroce::shim {

namespace {

using memory::SystemCall;
using State = SendCopies::State;

constexpr uint32_t kLeastRingBytes = 256 << 10;
constexpr uint32_t kMostRingBytes = 8 << 20;
constexpr uint32_t kMostProcessBytes = 64 << 20;
// A ring has so many bytes for each request of a full queue.
constexpr uint32_t kBytesOfRequest = 64 << 10;
// A ring holds some messages, and no post takes long.
constexpr uint32_t kLeastMessages = 4;
constexpr uint64_t kMostMessageBytes = 1 << 20;

uint32_t g_process_bytes = 0;  // Of all rings. Atomic.

uint32_t RingBytesFor(uint32_t requests) {
  uint32_t bytes = kLeastRingBytes;
  while (bytes < kMostRingBytes && bytes / kBytesOfRequest < requests) bytes *= 2;
  return bytes;
}

/// Finds all parts of the payload in regions that the daemon does not map. Returns their number; 0:
/// one lies elsewhere.
uint32_t FindPayload(QueuePair& queue_pair, const ibv_send_wr& wr, iovec* parts, uint64_t* bytes) {
  const CopiedRegions& regions = queue_pair.connection->copied_regions();
  const uint32_t pd = queue_pair.verbs.qp_base.pd->handle;
  uint32_t count = 0;
  *bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& sge = wr.sg_list[i];
    uint64_t start;
    if (sge.length == 0) continue;
    if (!regions.Find(sge.lkey, pd, sge.addr, sge.length, &start)) return 0;
    parts[count++] = {reinterpret_cast<void*>(start), sge.length};
    *bytes += sge.length;
  }
  return count;
}

/// Whether the program may read all of `part`: an access to an address without memory would end it,
/// and the daemon reports that as an error. Only Linux 5.14 and later can tell. A thread that
/// unmaps the memory during the post gets what it would get beside any other access.
bool IsReadable(const iovec& part) {
  const auto start = reinterpret_cast<uintptr_t>(part.iov_base);
  const uint64_t first = memory::PageDown(start);
  const uint64_t end = memory::PageUp(start + part.iov_len);
  return SystemCall(SYS_madvise, first, end - first, MADV_POPULATE_READ) == 0;
}

bool Copy(uint8_t* to, const iovec* parts, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (!IsReadable(parts[i])) return false;
  }
  for (uint32_t i = 0; i < count; ++i) {
    memcpy(to, parts[i].iov_base, parts[i].iov_len);
    to += parts[i].iov_len;
  }
  return true;
}

}  // namespace

bool CopyPayload(QueuePair& queue_pair, const ibv_send_wr& wr, ibv_sge* place) {
  SendCopies& copies = queue_pair.copies;
  if (copies.state == State::kRefused || copies.state == State::kOpening) return false;
  iovec parts[UROCE_MAX_SGE];
  uint64_t bytes;
  const uint32_t count = FindPayload(queue_pair, wr, parts, &bytes);
  if (count == 0 || bytes > kMostMessageBytes) return false;
  if (copies.state != State::kReady) {
    copies.state = State::kWanted;
    return false;
  }
  const WorkQueue& queue = queue_pair.send;
  const uint32_t request = queue.ring.index();
  const auto length = static_cast<uint32_t>(bytes);
  copies.ring.Forget(rings::LoadAcquire(queue.retired));
  uint32_t begin;
  if (length > copies.ring.bytes() / kLeastMessages) return false;
  if (!copies.ring.Add(request, length, &begin)) return false;
  if (!Copy(copies.memory + begin, parts, count)) {
    copies.ring.TakeBack(request);
    return false;
  }
  *place = {reinterpret_cast<uintptr_t>(copies.memory) + begin, length, copies.lkey};
  return true;
}

namespace {

/// Makes and maps the ring's memory. Returns 0 or an errno.
int MakeMemory(const memory::Daemon& daemon, uint32_t bytes, SendCopies& copies) {
  memory::SegmentGrant grant;
  const uroce_create_segment request = {.addr = 0, .length = bytes};
  int error = daemon.create_segment(daemon.connection, request, grant);
  if (error != 0) return error;
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, grant.memfd, 0);
  if (mapped == MAP_FAILED) error = errno;
  SystemCall(SYS_close, grant.memfd);
  if (error != 0) {
    (void)daemon.destroy_segment(daemon.connection, grant.handle);
    return error;
  }
  madvise(mapped, bytes, MADV_DONTFORK);
  copies.memory = static_cast<uint8_t*>(mapped);
  copies.segment = grant.handle;
  return 0;
}

void EndMemory(const memory::Daemon& daemon, uint32_t bytes, const SendCopies& copies) {
  (void)daemon.destroy_segment(daemon.connection, copies.segment);
  munmap(copies.memory, bytes);
}

/// Registers the ring, which the daemon only reads. Returns 0 or an errno.
int Register(const memory::Daemon& daemon, uint32_t pd, uint32_t bytes, SendCopies& copies) {
  const auto start = reinterpret_cast<uintptr_t>(copies.memory);
  const uroce_mr_segment segment = {.addr = start,
                                    .length = bytes,
                                    .mode = UROCE_MR_MAPPED,
                                    .segment = copies.segment,
                                    .reason = UROCE_WHY_NONE};
  const uroce_reg_mr region = {.pd = pd,
                               .addr = start,
                               .length = bytes,
                               .iova = start,
                               .segment_count = 1,
                               .replaces = UROCE_NONE};
  uroce_reg_mr_reply made;
  const int error = daemon.register_region(daemon.connection, region, &segment, made);
  if (error != 0) return error;
  copies.region = made.handle;
  copies.lkey = made.lkey;
  return 0;
}

/// Makes all of `copies`. Returns 0 or an errno.
int MakeRing(QueuePair& queue_pair, uint32_t bytes, SendCopies& copies) {
  const memory::Daemon daemon = memory::DaemonOf(*queue_pair.connection);
  const uint32_t depth = queue_pair.send.ring.layout().depth;
  auto* const list = static_cast<CopyRing::Copy*>(malloc(sizeof(CopyRing::Copy) * depth));
  if (list == nullptr) return ENOMEM;
  copies.ring = CopyRing(bytes, list, depth);
  const memory::RegistryLock lock;
  int error = MakeMemory(daemon, bytes, copies);
  if (error == 0) {
    error = Register(daemon, queue_pair.verbs.qp_base.pd->handle, bytes, copies);
    if (error != 0) EndMemory(daemon, bytes, copies);
  }
  if (error != 0) free(list);
  return error;
}

}  // namespace

void MakeWantedRing(QueuePair& queue_pair) {
  SendCopies& copies = queue_pair.copies;
  {
    const SpinGuard guard(queue_pair.send.lock);
    if (copies.state != State::kWanted) return;
    copies.state = State::kOpening;
  }
  const ErrnoKeeper keeper;
  const CancelOff no_cancel;
  SendCopies made = {};
  const uint32_t bytes = RingBytesFor(queue_pair.send.max_requests);
  const uint32_t all = __atomic_add_fetch(&g_process_bytes, bytes, __ATOMIC_RELAXED);
  const int error = all <= kMostProcessBytes ? MakeRing(queue_pair, bytes, made) : ENOMEM;
  if (error != 0) __atomic_sub_fetch(&g_process_bytes, bytes, __ATOMIC_RELAXED);
  made.state = error == 0 ? State::kReady : State::kRefused;
  const SpinGuard guard(queue_pair.send.lock);
  copies = made;
}

void EndSendCopies(QueuePair& queue_pair) {
  const SendCopies& copies = queue_pair.copies;
  if (copies.state != State::kReady) return;
  const memory::Daemon daemon = memory::DaemonOf(*queue_pair.connection);
  const memory::RegistryLock lock;
  (void)daemon.deregister_region(daemon.connection, copies.region);
  EndMemory(daemon, copies.ring.bytes(), copies);
  free(copies.ring.copies());
  __atomic_sub_fetch(&g_process_bytes, copies.ring.bytes(), __ATOMIC_RELAXED);
}

}  // namespace uroce::shim
