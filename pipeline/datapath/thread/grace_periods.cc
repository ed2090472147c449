// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/thread/grace_periods.h"

#include <rte_pause.h>
#include <rte_rcu_qsbr.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

namespace uroce::datapath {
namespace {

// The wait for a worker that has lost its core neither spins for long, which could keep the worker
// off the core, nor yields (semaphore.h).
constexpr int kPolls = 100;
constexpr useconds_t kPauseUs = 50;

}  // namespace

GracePeriods::GracePeriods(uint32_t workers) {
  const size_t bytes = rte_rcu_qsbr_get_memsize(workers);
  void* const memory = std::aligned_alloc(alignof(rte_rcu_qsbr), bytes);
  if (memory == nullptr) throw std::bad_alloc();
  state_.reset(static_cast<rte_rcu_qsbr*>(memory));
  rte_rcu_qsbr_init(state_.get(), workers);
  for (uint32_t index = 0; index < workers; ++index) {
    rte_rcu_qsbr_thread_register(state_.get(), index);
  }
}

void GracePeriods::Free::operator()(rte_rcu_qsbr* state) const { std::free(state); }

void GracePeriods::Enter(uint32_t index) { rte_rcu_qsbr_thread_online(state_.get(), index); }
void GracePeriods::Pass(uint32_t index) { rte_rcu_qsbr_quiescent(state_.get(), index); }
void GracePeriods::Leave(uint32_t index) { rte_rcu_qsbr_thread_offline(state_.get(), index); }

uint64_t GracePeriods::Start() { return rte_rcu_qsbr_start(state_.get()); }

bool GracePeriods::HasPassed(uint64_t token) const {
  return rte_rcu_qsbr_check(state_.get(), token, false) != 0;
}

void GracePeriods::Wait() {
  const uint64_t token = Start();
  for (int tries = 0; !HasPassed(token); ++tries) {
    if (tries < kPolls) {
      rte_pause();
    } else {
      usleep(kPauseUs);
    }
  }
}

}  // namespace uroce::datapath
