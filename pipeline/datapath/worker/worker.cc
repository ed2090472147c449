// SPDX-License-Identifier: Apache-2.0
// Workers as nic sees them: one worker is a thread that owns queue pairs and runs them to
// completion, burst by burst. All workers together share grace periods and queues for frames.
#include "pipeline/datapath/worker/worker.h"

#include <rte_mempool.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/queue/work_queues.h"
#include "pipeline/datapath/worker/worker_impl.h"

namespace uroce::datapath {
namespace {

// Work on so many objects takes some tens of us at most; a look at so many empty slots takes some
// us.
constexpr size_t kObjectsPerRun = 32;
constexpr QpnTable::Piece kTablePerRun{.most_queue_pairs = kObjectsPerRun, .most_slots = 4096};

/// XRC shared receive queues that are removed, by number.
using LeavingQueues = std::unordered_map<uint32_t, const SharedReceiveQueue*>;

/// The queue that `target` has selected may differ from that of its current message.
void Leave(StateChanges& states, QueuePair& target, const LeavingQueues& leaving) {
  const uint32_t at_work = target.core().reliable().receive_queue();
  const SharedReceiveQueue* const shared = target.receive_source().shared();
  const uint32_t selected = shared != nullptr ? shared->config().number : at_work;
  for (const uint32_t number : {selected, at_work}) {
    const auto found = leaving.find(number);
    if (found != leaving.end()) states.LeaveQueue(target, *found->second);
  }
}

}  // namespace

Worker::Worker(const WorkerConfig& config) : impl_(std::make_unique<Impl>(config)) {}

Worker::~Worker() { Stop(); }

void Worker::Start() {
  impl_->thread.Start([impl = impl_.get()] { impl->ThreadMain(); });
}
void Worker::Stop() { impl_->thread.Stop(); }
void Worker::Run(absl::FunctionRef<void()> work) { impl_->thread.Run(work); }

void Worker::RunInPieces(size_t count, absl::FunctionRef<void(size_t index)> work) {
  for (size_t begin = 0; begin < count; begin += kObjectsPerRun) {
    const size_t end = std::min(count, begin + kObjectsPerRun);
    Run([&] {
      for (size_t index = begin; index < end; ++index) work(index);
    });
  }
}

void Worker::RunForEach(std::span<QueuePair* const> queue_pairs,
                        absl::FunctionRef<void(QueuePair&)> work) {
  RunInPieces(queue_pairs.size(), [&](size_t index) { work(*queue_pairs[index]); });
}

// Only the control thread changes the table.
void Worker::RunForAll(absl::FunctionRef<void(QueuePair&)> work) {
  size_t position = 0;
  do {
    Run([&] { position = impl_->objects.queue_pairs().ForSome(position, kTablePerRun, work); });
  } while (position != 0);
}

void Worker::Hold() { impl_->thread.Hold(); }
void Worker::AwaitHold() { impl_->thread.AwaitHold(); }
void Worker::Release() { impl_->thread.Release(); }
void Worker::Wake() { impl_->sleep.Wake(); }

bool Worker::RunOnce(Nanos now, Nanos waited) {
  impl_->NoteWait(waited, now);
  return impl_->Turn(now);
}

Nanos Worker::NextDeadline() const { return impl_->NextDeadline(); }

uint32_t Worker::index() const { return impl_->config.index; }
const WorkerCounters& Worker::counters() const { return impl_->own_counters; }

void Worker::AddDevice(Device* device) { impl_->AddDevice(device); }
void Worker::UnplugDevice(Device* device, drivers::Port* absent) {
  impl_->UnplugDevice(*device, absent);
}
void Worker::RemoveDevice(Device* device) { impl_->objects.RemoveDevice(*device); }
void Worker::AddSession(Session* session) { impl_->AddSession(session); }
void Worker::RemoveSession(Session* session) { impl_->RemoveSession(session); }
void Worker::AddQueuePair(QueuePair* queue_pair) { impl_->AddQueuePair(*queue_pair); }
void Worker::RemoveQueuePair(QueuePair* queue_pair) { impl_->RemoveQueuePair(*queue_pair); }

bool Worker::LookForSends(QueuePair* queue_pair) {
  const bool sends = queue_pair->state() == transport::QpState::kRts;
  if (!sends || !queue_pair->HasUnsent()) return false;
  queue_pair->works().LookForSends();
  impl_->ready.Touch(*queue_pair);
  return true;
}

void Worker::AddSharedReceiveQueue(SharedReceiveQueue* queue) {
  impl_->AddSharedReceiveQueue(*queue);
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

// First the queues leave the domains, so that no target finds them any more; then targets stop
// using them. A target that used one in between may have left the record of a limit event behind.
void Worker::RemoveSharedReceiveQueues(std::span<SharedReceiveQueue* const> queues) {
  RunInPieces(queues.size(),
              [&](size_t index) { impl_->RemoveSharedReceiveQueue(*queues[index]); });
  std::set<XrcQueues*> domains;
  LeavingQueues leaving;
  for (SharedReceiveQueue* queue : queues) {
    if (queue->config().domain == nullptr) continue;
    domains.insert(queue->config().domain);
    leaving.emplace(queue->config().number, queue);
  }
  for (XrcQueues* domain : domains) {
    RunForEach(domain->targets(),
               [&](QueuePair& target) { Leave(impl_->states, target, leaving); });
  }
  if (!leaving.empty()) {
    RunInPieces(queues.size(), [&](size_t index) { impl_->ForgetRecords(*queues[index]); });
  }
}

void Worker::RewritePaths(PathRewriter rewrite) {
  RunForAll([&](QueuePair& qp) { impl_->objects.RewritePath(qp, rewrite); });
}

void Worker::SetSelectiveRepeat(CapabilityOf capability) {
  RunForAll([&](QueuePair& qp) { impl_->SetSelectiveRepeat(qp, capability); });
}

// Not a failure that the packet history keeps: the queue pair did nothing wrong, nor did its peer.
void Worker::FailDevice(const Device& device) {
  RunForAll([&](QueuePair& qp) {
    const bool is_over = qp.state() == transport::QpState::kErr;
    if (qp.config().device != &device || is_over || qp.state() == transport::QpState::kReset) {
      return;
    }
    impl_->states.Modify(qp, transport::QpState::kErr, qp.core().attributes());
  });
}

void Worker::FollowMac(const Device& device, const Mac& old) {
  impl_->objects.FollowMac(device, old);
}

void Worker::AddTap(CaptureTap* tap) { impl_->recorder.AddTap(tap); }
void Worker::RemoveTap(CaptureTap* tap) { impl_->recorder.RemoveTap(tap); }

Workers::Workers(const WorkerConfig& common, std::span<const WorkerSeat> seats)
    : cross_worker_(static_cast<uint32_t>(seats.size()),
                    [this](uint32_t worker) { workers_[worker]->Wake(); }),
      grace_(static_cast<uint32_t>(seats.size())) {
  for (const WorkerSeat& seat : seats) {
    WorkerConfig config = common;
    config.index = count();
    config.core = seat.core;
    config.pool = seat.pool;
    config.cross_worker = &cross_worker_;
    config.grace = &grace_;
    pools_.insert(seat.pool);
    workers_.push_back(std::make_unique<Worker>(config));
  }
}

// The queues between workers are destroyed last: frames in them belong to no worker.
Workers::~Workers() { Stop(); }

void Workers::Start() {
  for (const auto& worker : workers_) worker->Start();
}

void Workers::Stop() {
  for (const auto& worker : workers_) worker->Stop();
}

void Workers::RunOnEach(absl::FunctionRef<void(Worker&)> work) {
  for (const auto& worker : workers_) worker->Run([&] { work(*worker); });
}

void Workers::RunTogether(absl::FunctionRef<void()> work) {
  for (const auto& worker : workers_) worker->Hold();
  for (const auto& worker : workers_) worker->AwaitHold();
  work();
  for (const auto& worker : workers_) worker->Release();
}

uint64_t Workers::frames_in_use() const {
  uint64_t frames = 0;
  for (const rte_mempool* pool : pools_) frames += rte_mempool_in_use_count(pool);
  return frames;
}

void Workers::AddDevice(Device* device) {
  RunOnEach([device](Worker& worker) { worker.AddDevice(device); });
}

void Workers::UnplugDevice(Device& device, drivers::Port* absent) {
  RunTogether([&] {
    for (const auto& worker : workers_) worker->UnplugDevice(&device, absent);
    device.ReplacePort(absent);
  });
}

void Workers::RemoveDevice(Device* device) {
  RunOnEach([device](Worker& worker) { worker.RemoveDevice(device); });
}

bool Workers::Move(QueuePair& queue_pair, uint32_t worker, const Rings& rings) {
  Worker& from = OwnerOf(queue_pair.qpn());
  Worker& to = at(worker);
  bool is_taken = false;
  from.Run([&] {
    is_taken = queue_pair.state() == transport::QpState::kInit && !queue_pair.is_waiting() &&
               owners().Move(queue_pair.qpn(), worker);
    if (is_taken) from.RemoveQueuePair(&queue_pair);
  });
  if (!is_taken) return false;
  queue_pair.set_rings(rings.send, rings.receive);
  to.Run([&] { to.AddQueuePair(&queue_pair); });
  return true;
}

bool Workers::AreOneConnection(const QueuePair& a, const QueuePair& b) const {
  return &a != &b && &OwnerOf(a.qpn()) == &OwnerOf(b.qpn()) && a.path().remote_qpn == b.qpn() &&
         b.path().remote_qpn == a.qpn();
}

bool Workers::Pause(QueuePair& a, QueuePair& b) {
  if (!AreOneConnection(a, b)) return false;
  bool may_move = false;
  OwnerOf(a.qpn()).Run([&] {
    may_move = Worker::Impl::MayMove(a) && Worker::Impl::MayMove(b);
    if (!may_move) return;
    Worker::Impl::Pause(a);
    Worker::Impl::Pause(b);
  });
  return may_move;
}

void Workers::Resume(QueuePair& queue_pair) {
  Worker& owner = OwnerOf(queue_pair.qpn());
  owner.Run([&] {
    if (queue_pair.is_paused()) owner.impl_->Resume(queue_pair);
  });
}

bool Workers::MovePair(QueuePair& a, const Rings& rings_of_a, QueuePair& b, const Rings& rings_of_b,
                       uint32_t worker) {
  Worker& from = OwnerOf(a.qpn());
  if (!AreOneConnection(a, b) || from.index() == worker) return false;
  bool may_move = false;
  const auto are_polled = [&] {
    return a.is_paused() && b.is_paused() && a.IsPolled() && b.IsPolled();
  };
  from.Run([&] { may_move = are_polled(); });
  if (!may_move) return false;
  RunTogether([&] {
    may_move = are_polled() && from.impl_->ReceiveSent(a) && from.impl_->ReceiveSent(b) &&
               Worker::Impl::MayMove(a) && Worker::Impl::MayMove(b);
    // The first one makes the table, if there is none.
    may_move = may_move && owners().Move(a.qpn(), worker) && owners().Move(b.qpn(), worker);
    if (!may_move) return;
    for (QueuePair* const qp : {&a, &b}) from.impl_->GiveAway(*qp);
    a.set_rings(rings_of_a.send, rings_of_a.receive);
    b.set_rings(rings_of_b.send, rings_of_b.receive);
    for (QueuePair* const qp : {&a, &b}) at(worker).impl_->TakeOver(*qp);
  });
  return may_move;
}

void Workers::ChangeMac(Device& device, const Mac& mac) {
  RunTogether([&] {
    const Mac old = std::exchange(device.mac, mac);
    for (const auto& worker : workers_) worker->FollowMac(device, old);
  });
}

}  // namespace uroce::datapath
