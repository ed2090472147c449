// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/program_core.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "nic/base/user_limits.h"
#include "nic/objects/nic.h"
#include "nic/objects/resources.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/os/shared_memory.h"

namespace uroce::nic {
namespace {

std::vector<datapath::SessionLink> Links(const Arena& arena, const std::vector<Fd>& wake_fds) {
  std::vector<datapath::SessionLink> links;
  for (uint32_t worker = 0; worker < wake_fds.size(); ++worker) {
    links.push_back({.doorbells = arena.doorbells(worker), .wake_fd = wake_fds[worker].get()});
  }
  return links;
}

// As tests/bench/run-memory measures them, rounded up: threads, files and tables of a program.
constexpr uint64_t kSessionBytes = 32 << 10;
constexpr uint64_t kSessionBytesAtWorker = 20 << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramCore>> ProgramCore::Make(Nic& nic, uint32_t id,
                                                               uint32_t uid) {
  const uint32_t workers = nic.workers().count();
  const uint64_t bytes = kSessionBytes + workers * kSessionBytesAtWorker;
  if (absl::Status status = nic.user(uid).own_bytes.Check("session", bytes); !status.ok()) {
    return status;
  }
  absl::StatusOr<Arena> arena = Arena::Make(workers, &nic.user(uid).queue_bytes, nic.reaper(), id);
  if (!arena.ok()) return arena.status();
  std::vector<Fd> wake_fds;
  for (uint32_t worker = 0; worker < workers; ++worker) {
    wake_fds.emplace_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_fds.back()) return SystemError("eventfd", errno);
  }
  std::unique_ptr<ProgramCore> core(
      new ProgramCore(nic, id, uid, *std::move(arena), std::move(wake_fds)));
  core->own_bytes_.Take(bytes);
  return core;
}

ProgramCore::ProgramCore(Nic& nic, uint32_t id, uint32_t uid, Arena arena, std::vector<Fd> wake_fds)
    : nic_(nic),
      uid_(uid),
      own_bytes_(&nic.user(uid).own_bytes),
      arena_(std::move(arena)),
      wake_fds_(std::move(wake_fds)),
      session_(id, Links(arena_, wake_fds_), uid, nic.user(uid).rate.get(),
               nic.user(uid).memory_rest.get()) {}

absl::Status ProgramCore::TakeOwnBytes(const char* kind, uint64_t bytes) {
  absl::Status status = own_bytes_.Check(kind, bytes);
  if (status.ok()) own_bytes_.Take(bytes);
  return status;
}

void ProgramCore::Join() {
  nic_.workers().RunOnEach([this](datapath::Worker& worker) { worker.AddSession(&session_); });
}

const Limits& ProgramCore::limits() const { return nic_.config().limits; }
UserAccount& ProgramCore::user() const { return nic_.user(uid_); }
void ProgramCore::AwaitGrace() const { nic_.workers().AwaitGrace(); }

bool ProgramCore::is_privileged() const { return IsPrivilegedUser(uid_); }

datapath::RecordSocket ProgramCore::RecordsOn(const UserSocket& socket) const {
  return {.fd = socket.get(), .pace = &user().wake_pace};
}

datapath::Pollers ProgramCore::PollersOf(uint32_t cq_handle) const {
  return {.word = &arena_.At<uroce_arena_header>(0)->pollers,
          .bit = rings::PollerBit(cq_handle),
          .pace = &user().wake_pace};
}

}  // namespace uroce::nic
