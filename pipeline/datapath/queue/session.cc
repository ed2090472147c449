// SPDX-License-Identifier: Apache-2.0
// A program as its workers see it, and a worker's list of programs with what each may take in a
// turn.
#include "pipeline/datapath/queue/session.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/shm/rings/doorbells.h"

namespace uroce::datapath {

Session::Session(uint32_t id, std::vector<SessionLink> links, uint32_t uid, SharedRate* rate)
    : id_(id), uid_(uid), rate_(rate), links_(std::move(links)) {}

Session::~Session() = default;

void Session::StartCopyHelper(ProgramMemory memory) {
  std::vector<int> wake_fds;
  for (const SessionLink& link : links_) wake_fds.push_back(link.wake_fd);
  try {
    owned_helper_ = std::make_unique<CopyHelper>(std::move(memory), wake_fds);
  } catch (const std::system_error&) {
    return;
  }
  helper_.store(owned_helper_.get(), std::memory_order_release);
}

void Session::MakeAddressTable(uint32_t capacity) {
  if (owned_addresses_ != nullptr) return;
  owned_addresses_ = std::make_unique<AddressTable>(capacity);
  addresses_.store(owned_addresses_.get(), std::memory_order_release);
}

void Session::SetAddress(uint32_t handle, const AddressVector* vector) {
  owned_addresses_->Set(handle, vector);
}

const AddressVector* Session::FindAddress(uint32_t handle) const {
  const AddressTable* const addresses = addresses_.load(std::memory_order_acquire);
  return addresses == nullptr ? nullptr : addresses->Find(handle);
}

uint64_t Session::copies_begun() const {
  const CopyHelper* helper = copy_helper();
  return helper == nullptr ? 0 : helper->submitted();
}

bool Session::CopiesDone(uint64_t copies) const {
  const CopyHelper* helper = copy_helper();
  return helper == nullptr || helper->AreDone(copies);
}

namespace {

bool HasCopies(const WorkerSession& session, uint32_t worker) {
  const CopyHelper* const helper = session.session->copy_helper();
  return helper != nullptr && helper->in_flight(worker) != 0;
}

}  // namespace

WorkerSession& SessionList::Add(Session* session, Nanos now) {
  sessions_.push_back(std::make_unique<WorkerSession>());
  WorkerSession& added = *sessions_.back();
  added.session = session;
  added.doorbells = session->doorbells(worker_);
  added.last_work = now;
  const std::shared_ptr<WorkerUser> user = UserOf(session->uid());
  added.user = user.get();
  added.frames.user = std::shared_ptr<UserFrames>(user, &user->frames);
  added.place = polled_.size();
  polled_.reserve(sessions_.size());  // So that unparking allocates nothing.
  polled_.push_back(&added);
  const int fd = session->wake_fd(worker_);
  if (fd < 0) return added;
  if (of_fd_.size() <= static_cast<size_t>(fd)) of_fd_.resize(static_cast<size_t>(fd) + 1);
  of_fd_[static_cast<size_t>(fd)] = &added;
  return added;
}

void SessionList::Remove(Session* session) {
  const auto its = std::ranges::find(sessions_, session, &WorkerSession::session);
  if (its == sessions_.end()) return;
  if (!(*its)->parked) Unlist(**its);
  const int fd = session->wake_fd(worker_);
  if (fd >= 0) of_fd_[static_cast<size_t>(fd)] = nullptr;
  sessions_.erase(its);
  std::erase_if(users_, [](const auto& user) { return user.use_count() == 1; });
}

std::shared_ptr<WorkerUser> SessionList::UserOf(uint32_t uid) {
  const auto found =
      std::ranges::find(users_, uid, [](const auto& user) { return user->frames.uid; });
  if (found != users_.end()) return *found;
  return users_.emplace_back(std::make_shared<WorkerUser>(uid, all_waiting_));
}

WorkerSession* SessionList::Find(const Session* session) const {
  const auto its = std::ranges::find(sessions_, session, &WorkerSession::session);
  return its == sessions_.end() ? nullptr : its->get();
}

void SessionList::OnEvent(int fd, Nanos now) {
  if (static_cast<size_t>(fd) >= of_fd_.size()) return;
  WorkerSession* const session = of_fd_[static_cast<size_t>(fd)];
  if (session != nullptr && session->parked) NoteWork(*session, now);
}

void SessionList::Sweep(Nanos now) {
  if (park_after_ == kNever) {
    next_sweep_ = kNever;
    return;
  }
  next_sweep_ = now + park_after_;
  // From the end: a parked program's place is taken by the last program.
  for (size_t i = polled_.size(); i-- != 0;) {
    WorkerSession& session = *polled_[i];
    if (now - session.last_work < park_after_ || HasCopies(session, worker_)) continue;
    if (session.oldest_postponed != nullptr) continue;
    if (!Park(session)) session.last_work = now;
  }
}

bool SessionList::Park(WorkerSession& session) {
  // Without an eventfd no ring would be noticed.
  if (session.session->wake_fd(worker_) < 0) return false;
  if (!rings::AnnounceSleep(*session.doorbells)) {
    rings::AnnounceAwake(*session.doorbells);
    return false;
  }
  session.parked = true;
  Unlist(session);
  return true;
}

void SessionList::Unpark(WorkerSession& session) {
  rings::AnnounceAwake(*session.doorbells);
  session.parked = false;
  session.place = polled_.size();
  polled_.push_back(&session);
}

void SessionList::Unlist(const WorkerSession& session) {
  WorkerSession* const last = polled_.back();
  polled_[session.place] = last;
  last->place = session.place;
  polled_.pop_back();
}

bool SessionList::AnnounceSleep() {
  bool quiet = true;
  for (const WorkerSession* session : polled_) {
    quiet &= rings::AnnounceSleep(*session->doorbells);
    CopyHelper* const helper = session->session->copy_helper();
    if (helper != nullptr) quiet &= helper->AnnounceSleep(worker_);
  }
  return quiet;
}

void SessionList::AnnounceAwake() {
  for (const WorkerSession* session : polled_) {
    rings::AnnounceAwake(*session->doorbells);
    CopyHelper* const helper = session->session->copy_helper();
    if (helper != nullptr) helper->AnnounceAwake(worker_);
  }
}

}  // namespace uroce::datapath
