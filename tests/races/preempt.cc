// SPDX-License-Identifier: Apache-2.0
// Preloaded into a daemon that ThreadSanitizer checks: each thread loses its CPU at random points,
// which follow from UROCE_RACES_SEED. The points are entries of functions, atomic operations, locks
// and system calls. DPDK's libraries are not instrumented: ThreadSanitizer learns here that a frame
// goes from the thread that gives it back to a pool to the thread that takes it.
#include <dlfcn.h>
#include <pthread.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" {
void __tsan_acquire(void* object);
void __tsan_release(void* object);
}

namespace {

// How many are passed for each loss of the CPU, on average.
constexpr uint32_t kEntriesPerPoint = 8192;
constexpr uint32_t kAtomicsPerPoint = 512;
constexpr uint32_t kCallsPerPoint = 8;

// What the program has done, to be told at its end.
std::atomic<uint64_t> g_threads{0};
std::atomic<uint64_t> g_losses{0};
std::atomic<uint64_t> g_messages{0};  // Received by recvmsg: most are requests to the daemon.
thread_local uint64_t t_random = 0;

uint64_t Seed() {
  const char* seed = getenv("UROCE_RACES_SEED");
  return seed == nullptr ? 1 : strtoull(seed, nullptr, 0);
}

/// xorshift64*. Each thread has its own stream.
uint64_t Random() {
  if (t_random == 0) {
    t_random = (Seed() * 1000003 + g_threads.fetch_add(1) + 1) * 0x9e3779b97f4a7c15 | 1;
  }
  t_random ^= t_random >> 12;
  t_random ^= t_random << 25;
  t_random ^= t_random >> 27;
  return t_random * 0x2545f4914f6cdd1d;
}

/// The thread yields, or sleeps for up to 0.1 ms, or seldom for up to 10 ms.
__attribute__((noinline)) void LoseCpu(uint64_t random) {
  const uint64_t kind = random >> 56;
  g_losses.fetch_add(1, std::memory_order_relaxed);
  if (kind < 160) {
    syscall(SYS_sched_yield);
    return;
  }
  const int64_t most_ns = kind < 250 ? 100'000 : 10'000'000;
  const timespec duration = {0, static_cast<int64_t>((random >> 16) % most_ns)};
  syscall(SYS_nanosleep, &duration, nullptr);
}

inline void Point(uint32_t one_of) {
  const uint64_t random = Random();
  if ((random & 0xffff) % one_of == 0) LoseCpu(random);
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// ---- frames ----

rte_mempool_enqueue_t g_enqueue = nullptr;
rte_mempool_dequeue_t g_dequeue = nullptr;

int Enqueue(rte_mempool* pool, void* const* objects, unsigned int count) {
  for (unsigned int i = 0; i < count; ++i) __tsan_release(objects[i]);
  return g_enqueue(pool, objects, count);
}

int Dequeue(rte_mempool* pool, void** objects, unsigned int count) {
  const int result = g_dequeue(pool, objects, count);
  for (unsigned int i = 0; result == 0 && i < count; ++i) __tsan_acquire(objects[i]);
  return result;
}

}  // namespace

extern "C" {

// The last call is a jump: ThreadSanitizer takes the place for its reports from the return address.
#define CALL(entry, name, one_of, result, parameters, arguments) \
  result entry parameters asm(name);                             \
  result entry parameters {                                      \
    static auto* const next = Next<result parameters>(name);     \
    Point(one_of);                                               \
    return next arguments;                                       \
  }

CALL(FunctionEntry, "__tsan_func_entry", kEntriesPerPoint, void, (void* pc), (pc))

#define ATOMICS(bits)                                                                            \
  CALL(Load##bits, "__tsan_atomic" #bits "_load", kAtomicsPerPoint, uint##bits##_t,              \
       (const volatile uint##bits##_t* a, int order), (a, order))                                \
  CALL(Store##bits, "__tsan_atomic" #bits "_store", kAtomicsPerPoint, void,                      \
       (volatile uint##bits##_t * a, uint##bits##_t v, int order), (a, v, order))                \
  CHANGE(Exchange##bits, exchange, bits)                                                         \
  CHANGE(Add##bits, fetch_add, bits)                                                             \
  CHANGE(Sub##bits, fetch_sub, bits)                                                             \
  CHANGE(And##bits, fetch_and, bits)                                                             \
  CHANGE(Or##bits, fetch_or, bits)                                                               \
  CALL(Compare##bits, "__tsan_atomic" #bits "_compare_exchange_strong", kAtomicsPerPoint, int,   \
       (volatile uint##bits##_t * a, uint##bits##_t * c, uint##bits##_t v, int order, int fail), \
       (a, c, v, order, fail))
#define CHANGE(entry, name, bits)                                                \
  CALL(entry, "__tsan_atomic" #bits "_" #name, kAtomicsPerPoint, uint##bits##_t, \
       (volatile uint##bits##_t * a, uint##bits##_t v, int order), (a, v, order))
ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)

CALL(Lock, "pthread_mutex_lock", kCallsPerPoint, int, (pthread_mutex_t * mutex), (mutex))
CALL(Unlock, "pthread_mutex_unlock", kCallsPerPoint, int, (pthread_mutex_t * mutex), (mutex))
CALL(Close, "close", kCallsPerPoint, int, (int fd), (fd))
CALL(Unmap, "munmap", kCallsPerPoint, int, (void* at, size_t length), (at, length))
CALL(Send, "sendmsg", kCallsPerPoint, ssize_t, (int fd, const msghdr* message, int flags),
     (fd, message, flags))

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static auto* const next = Next<ssize_t(int, msghdr*, int)>("recvmsg");
  Point(kCallsPerPoint);
  const ssize_t result = next(fd, message, flags);
  if (result > 0) g_messages.fetch_add(1, std::memory_order_relaxed);
  return result;
}

/// The daemon makes its pools by this call, before other threads use them.
rte_mempool* rte_pktmbuf_pool_create(const char* name, unsigned int count, unsigned int cache,
                                     uint16_t private_size, uint16_t room, int node) {
  static auto* const next = Next<decltype(rte_pktmbuf_pool_create)>("rte_pktmbuf_pool_create");
  rte_mempool* const pool = next(name, count, cache, private_size, room, node);
  if (pool == nullptr) return pool;
  rte_mempool_ops& its = *rte_mempool_get_ops(pool->ops_index);
  if (its.enqueue == Enqueue) return pool;
  g_enqueue = its.enqueue;
  g_dequeue = its.dequeue;
  its.enqueue = Enqueue;
  its.dequeue = Dequeue;
  return pool;
}

__attribute__((destructor)) void TellCounts() {
  std::fprintf(stderr, "%lu threads lost their CPU %lu times; %lu messages came\n",
               g_threads.load(), g_losses.load(), g_messages.load());
}

}  // extern "C"
