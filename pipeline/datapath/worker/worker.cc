// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/worker.h"

#include <algorithm>

#include "pipeline/datapath/worker/worker_impl.h"

namespace uroce::datapath {
namespace {

// What a worker is asked about so many takes some tens of us at most.
constexpr size_t kQueuePairsPerRun = 32;

}  // namespace

Worker::Worker(const WorkerConfig& config) : impl_(std::make_unique<Impl>(config)) {}

Worker::~Worker() { Stop(); }

void Worker::Start() {
  impl_->thread.Start([impl = impl_.get()] { impl->ThreadMain(); });
}
void Worker::Stop() { impl_->thread.Stop(); }
void Worker::Run(absl::FunctionRef<void()> work) { impl_->thread.Run(work); }

void Worker::RunForEach(std::span<QueuePair* const> queue_pairs,
                        absl::FunctionRef<void(QueuePair&)> work) {
  while (!queue_pairs.empty()) {
    const std::span some = queue_pairs.first(std::min(queue_pairs.size(), kQueuePairsPerRun));
    Run([&] {
      for (QueuePair* qp : some) work(*qp);
    });
    queue_pairs = queue_pairs.subspan(some.size());
  }
}

void Worker::Hold() { impl_->thread.Hold(); }
void Worker::AwaitHold() { impl_->thread.AwaitHold(); }
void Worker::Release() { impl_->thread.Release(); }
void Worker::Wake() { impl_->sleep.Wake(); }

bool Worker::RunOnce(Nanos now) { return impl_->Turn(now); }

uint32_t Worker::index() const { return impl_->config.index; }
const WorkerCounters& Worker::counters() const { return impl_->own_counters; }

void Worker::AddDevice(Device* device) { impl_->AddDevice(device); }
void Worker::AddSession(Session* session) { impl_->AddSession(session); }
void Worker::RemoveSession(Session* session) { impl_->RemoveSession(session); }
void Worker::AddQueuePair(QueuePair* queue_pair) { impl_->AddQueuePair(*queue_pair); }
void Worker::RemoveQueuePair(QueuePair* queue_pair) { impl_->RemoveQueuePair(*queue_pair); }

bool Worker::LookForSends(QueuePair* queue_pair) {
  const bool sends = queue_pair->state() == transport::QpState::kRts;
  if (!sends || !queue_pair->HasUnsent()) return false;
  queue_pair->LookForSends();
  impl_->ready.Touch(*queue_pair);
  return true;
}

void Worker::AddSharedReceiveQueue(SharedReceiveQueue* queue) {
  impl_->AddSharedReceiveQueue(*queue);
}
void Worker::RemoveSharedReceiveQueue(SharedReceiveQueue* queue) {
  impl_->RemoveSharedReceiveQueue(*queue);
}
void Worker::SetReceiveLimit(SharedReceiveQueue* queue, uint32_t limit) {
  queue->SetLimit(limit);
  if (queue->has_pending_record()) impl_->completions.retries().Want(*queue, impl_->time.now());
}

void Worker::RemoveCompletionRing(CompletionRing* ring) { impl_->completions.Remove(ring); }
void Worker::FailQueuePairsOf(CompletionRing* ring) { impl_->completions.FailUsers(*ring); }

void Worker::Modify(QueuePair* queue_pair, transport::QpState state, const Attributes& attributes,
                    const Path* path) {
  if (path != nullptr) impl_->objects.SetPath(*queue_pair, *path);
  impl_->states.Modify(*queue_pair, state, attributes);
}

void Worker::RewritePaths(PathRewriter rewrite) { impl_->objects.RewritePaths(rewrite); }
void Worker::SetSelectiveRepeat(AgreementOf agreement) { impl_->SetSelectiveRepeat(agreement); }
void Worker::FollowMac(const Device& device, const Mac& old) {
  impl_->objects.FollowMac(device, old);
}

void Worker::AddTap(CaptureTap* tap) { impl_->recorder.AddTap(tap); }
void Worker::RemoveTap(CaptureTap* tap) { impl_->recorder.RemoveTap(tap); }

}  // namespace uroce::datapath
