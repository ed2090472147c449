// SPDX-License-Identifier: Apache-2.0
// The registry, its lock, and what a fork makes of both.
#include "verbs-shim/memory/registry.h"

#include <pthread.h>

#include "verbs-shim/memory/fork_copy.h"

namespace uroce::memory {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
constinit Registry registry;
constinit ForkCopy fork_copy;

void BeforeFork() {
  pthread_mutex_lock(&mutex);
  if (registry.segments.ever_used()) fork_copy.Take(registry.mappings);
}

void InParent() {
  fork_copy.Discard();
  pthread_mutex_unlock(&mutex);
}

/// Every object of the parent's session is dead here, the memory is the child's own.
void InChild() {
  fork_copy.Install();
  registry.segments.Forget();
  registry.epoch += 1;
  registry.support_session = nullptr;
  registry.memory_fd_session = nullptr;
  mutex = PTHREAD_MUTEX_INITIALIZER;
}

// As early as possible: then it is the last to run before a fork and the first to run after it, so
// that other handlers neither write to memory that is copied already, nor to the parent's.
[[gnu::constructor(101)]] void WatchForks() { (void)pthread_atfork(BeforeFork, InParent, InChild); }

}  // namespace

void Registry::Prepare(const Daemon& daemon, MrPolicy (*default_policy)()) {
  if (!has_policy) policy = default_policy();
  has_policy = true;
  if (support_session == daemon.session) return;
  support = ProbeFaultSupport(daemon.userfaultfd_device);
  support_session = daemon.session;
}

void Registry::ClearFacts() {
  mappings.Clear();
  threads.Clear();
  untouchable.Clear();
  live.Clear();
  parts.Clear();
}

RegistryLock::RegistryLock() {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  pthread_mutex_lock(&mutex);
}

RegistryLock::~RegistryLock() {
  pthread_mutex_unlock(&mutex);
  pthread_setcancelstate(cancel_state_, nullptr);
}

Registry* RegistryLock::operator->() const { return &registry; }
Registry& RegistryLock::operator*() const { return registry; }

}  // namespace uroce::memory
