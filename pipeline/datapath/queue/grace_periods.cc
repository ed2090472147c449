// SPDX-License-Identifier: Apache-2.0
// Waits until no worker uses an object or a key any more.
#include "pipeline/datapath/queue/grace_periods.h"

#include <rte_pause.h>
#include <rte_rcu_qsbr.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/session.h"

namespace uroce::datapath {
namespace {

// The wait for a worker that has lost its core neither spins for long, which could keep the worker
// off the core, nor yields (Semaphore).
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

void KeyWaits::Add(QueuePair& qp, Waiting waiting) {
  const uint64_t token = grace_ == nullptr ? 0 : grace_->Start();
  waits_.push_back({.qp = &qp, .waiting = waiting, .grace_token = token});
}

void KeyWaits::Remove(const QueuePair& qp) {
  std::erase_if(waits_, [&qp](const Wait& wait) { return wait.qp == &qp; });
}

// Only one program, and its helper, uses the keys of a domain with copied memory.
bool KeyWaits::HasEnded(Wait& wait) const {
  if (wait.waiting == Waiting::kWork && wait.qp->is_waiting()) return false;
  const Session& session = *wait.qp->receive_source().memory_session();
  if (wait.in_grace) {
    if (grace_ != nullptr && !grace_->HasPassed(wait.grace_token)) return false;
    wait.in_grace = false;
    wait.copy_generation = session.copy_generation();
  }
  return session.CopiesDone(wait.copy_generation);
}

}  // namespace uroce::datapath
