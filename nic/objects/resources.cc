// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/resources.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/memory/memory_rest.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/shared_memory.h"
#include "pipeline/os/side_thread.h"
#include "pipeline/os/unix_socket.h"

namespace uroce::nic {

namespace {

/// A 64th is for root and the daemon's own user.
Pool PoolOf(uint64_t size, uint64_t share = 1) { return {size, size / 64, share}; }

// What objects take of the daemon's and the kernel's memory, as tests/bench/run-memory measures it,
// rounded up. The heap keeps the memory of ended objects for later ones.
constexpr uint64_t kContextBytes = 4608;
constexpr uint64_t kSmallBytes = 448;
constexpr uint64_t kSocketBytes = 66 << 10;

uint64_t BytesOf(Kind kind) {
  switch (kind) {
    case Kind::kSegment:
      return 1536;
    case Kind::kMr:
      return 640;
    case Kind::kMrPart:  // A region that changes has its parts twice.
      return 2 * sizeof(datapath::MrSegment);
    case Kind::kQp:  // And what its works take: QueuePairBytes.
      return 12 << 10;
    case Kind::kXrcd:
      return 48 << 10;
    case Kind::kCq:
    case Kind::kSrq:
      return 1536;
    case Kind::kMw:
    case Kind::kAh:
      return kSmallBytes;
  }
  return 0;
}

}  // namespace

Pools::Pools(const Limits& limits, uint64_t mapping_count, uint64_t memory_bytes)
    : mappings(PoolOf(mapping_count)),
      memory(PoolOf(memory_bytes, 3)),
      queue_bytes(PoolOf(memory_bytes / 2)),
      own_bytes(PoolOf(memory_bytes / 2)),
      keys(PoolOf(limits.total_mrs)) {}

UserAccount::UserAccount(uint32_t uid, const Limits& limits, Pools& pools, bool copies_others)
    : rate(std::make_unique<datapath::SharedRate>(limits.rate_per_user_bps)),
      memory_rest(std::make_unique<datapath::MemoryRest>(copies_others && !IsPrivilegedUser(uid))),
      own_bytes{uid, limits.own_bytes_per_user, "--max-own-bytes-per-user", &pools.own_bytes},
      contexts{uid, UINT64_MAX, ""},
      pds{uid, UINT64_MAX, ""},
      sockets{uid, limits.sockets_per_user, "--max-sockets-per-user"},
      mappings{uid, limits.mappings_per_user, "--max-mappings-per-user", &pools.mappings},
      xrc_files{uid, limits.kinds.of(Kind::kXrcd).of_user, "--max-xrcd-per-user"},
      attachments{uid, limits.attachments_per_user, "--max-mcast-per-user"},
      queue_bytes{uid, limits.queue_bytes_per_user, "--max-queue-bytes-per-user",
                  &pools.queue_bytes},
      memory{uid, limits.memory_per_user, "--max-memory-per-user", &pools.memory},
      refusals_thread(std::make_shared<SideThread>()) {
  for (const KindRow& row : kKinds) {
    kinds_.push_back(
        {uid, limits.kinds.of(row.kind).of_user,
         absl::StrCat("--max-", absl::StrReplaceAll(row.setting, {{"_", "-"}}), "-per-user")});
  }
  for (const Kind kind : {Kind::kMr, Kind::kMw}) of(kind).pool = &pools.keys;
  const bool is_privileged = IsPrivilegedUser(uid);
  for (Quota* const quota :
       {&mappings, &memory, &queue_bytes, &own_bytes, &of(Kind::kMr), &of(Kind::kMw)}) {
    quota->is_privileged = is_privileged;
  }
  const auto count_bytes = [this](Quota& quota, uint64_t bytes_each) {
    quota.bytes = &own_bytes;
    quota.bytes_each = bytes_each;
  };
  for (const KindRow& row : kKinds) count_bytes(of(row.kind), BytesOf(row.kind));
  count_bytes(contexts, kContextBytes);
  count_bytes(pds, kSmallBytes);
  count_bytes(sockets, kSocketBytes);
}

UserAccount::~UserAccount() = default;

void UserAccount::SetLimits(const Limits& limits) {
  rate->Set(limits.rate_per_user_bps);
  own_bytes.limit = limits.own_bytes_per_user;
  sockets.limit = limits.sockets_per_user;
  mappings.limit = limits.mappings_per_user;
  xrc_files.limit = limits.kinds.of(Kind::kXrcd).of_user;
  attachments.limit = limits.attachments_per_user;
  queue_bytes.limit = limits.queue_bytes_per_user;
  memory.limit = limits.memory_per_user;
  for (const KindRow& row : kKinds) of(row.kind).limit = limits.kinds.of(row.kind).of_user;
}

void UserAccount::ForgetRead() {
  constexpr size_t kLooks = 64;
  for (size_t i = std::min(kLooks, unread_.size()); i != 0; --i) {
    next_unread_ = next_unread_ == 0 ? unread_.size() - 1 : next_unread_ - 1;
    if (HasUnread(unread_[next_unread_].writer.get())) continue;
    sockets.Give(unread_[next_unread_].places);
    std::swap(unread_[next_unread_], unread_.back());
    unread_.pop_back();
  }
}

absl::StatusOr<UserSocket> UserSocket::Make(const char* kind, Holds holds, UserAccount& user,
                                            Fd& reader) {
  constexpr int kRecordBytes = 32 << 10;
  user.ForgetRead();
  UserSocket made;
  made.places_ = holds == Holds::kRecords ? 1 : 3;
  if (absl::Status status = user.sockets.Check(kind, made.places_); !status.ok()) return status;
  absl::StatusOr<Fd> writer = MakeOneWaySocket(reader, holds == Holds::kRecords ? kRecordBytes : 0);
  if (!writer.ok()) return writer.status();
  made.writer_ = *std::move(writer);
  made.user_ = &user;
  user.sockets.Take(made.places_);
  return made;
}

UserSocket::UserSocket(UserSocket&& other) noexcept
    : user_(std::exchange(other.user_, nullptr)),
      places_(other.places_),
      writer_(std::move(other.writer_)) {}

UserSocket& UserSocket::operator=(UserSocket&& other) noexcept {
  std::swap(user_, other.user_);
  std::swap(places_, other.places_);
  std::swap(writer_, other.writer_);
  return *this;
}

UserSocket::~UserSocket() {
  if (user_ == nullptr) return;
  if (!HasUnread(writer_.get())) {
    user_->sockets.Give(places_);
    return;
  }
  shutdown(writer_.get(), SHUT_WR);  // The reader sees an end behind the contents.
  user_->unread_.push_back({std::move(writer_), places_});
}

TableLimits LimitsOf(Kind kind, const Limits& limits, UserAccount& user) {
  return {RowOf(kind).name, limits.kinds.of(kind).of_program, &user.of(kind)};
}

absl::StatusOr<Arena> Arena::Make(uint32_t worker_count, Quota* of_user,
                                  std::shared_ptr<SideThread> reaper, uint32_t owner) {
  absl::StatusOr<Fd> fd = MakeSharedFile("uroce-arena", UROCE_ARENA_BYTES);
  if (!fd.ok()) return fd.status();
  KeepPages(fd->get());
  absl::StatusOr<Mapping> mapping = MapShared(fd->get(), UROCE_ARENA_BYTES);
  if (!mapping.ok()) return mapping.status();
  absl::StatusOr<GuardedMapping> guarded = GuardedMapping::Make(*std::move(mapping), owner);
  if (!guarded.ok()) return guarded.status();
  const uint64_t doorbells_end = UROCE_DOORBELLS_OFFSET + worker_count * sizeof(uroce_doorbells);
  std::shared_ptr<Storage> storage(new Storage{*std::move(fd), *std::move(guarded)},
                                   [reaper = std::move(reaper)](Storage* last) {
                                     std::unique_ptr<Storage> its(last);
                                     if (reaper != nullptr) reaper->End(std::move(its));
                                   });
  Arena arena(std::move(storage), (doorbells_end + kPageBytes - 1) / kPageBytes * kPageBytes,
              of_user);
  auto* header = arena.At<uroce_arena_header>(0);
  header->abi_version = UROCE_ABI_VERSION;
  header->worker_count = worker_count;
  return arena;
}

Arena::Arena(std::shared_ptr<Storage> storage, uint64_t queues_offset, Quota* of_user)
    : storage_(std::move(storage)),
      extents_(queues_offset, UROCE_ARENA_BYTES, kPageBytes),
      reached_(queues_offset),
      share_(of_user) {}

absl::StatusOr<uint64_t> Arena::Take(uint64_t length_bytes) {
  const std::optional<uint64_t> offset = extents_.Take(length_bytes);
  if (!offset) {
    return absl::ResourceExhaustedError(absl::StrCat("arena: no room for a queue of ", length_bytes,
                                                     " bytes, ", extents_.free_bytes(),
                                                     " are free"));
  }
  const uint64_t end = *offset + extents_.RoundUp(length_bytes);
  const uint64_t more = end > reached_ ? end - reached_ : 0;
  if (absl::Status status = share_.Check("queue", more); !status.ok()) {
    extents_.Give(*offset, length_bytes);
    return status;
  }
  share_.Take(more);
  reached_ += more;
  return *offset;
}

void Arena::Give(uint64_t offset, uint64_t length_bytes) {
  const uint64_t rounded = extents_.RoundUp(length_bytes);
  returned_.push_back({offset, rounded});
  returned_bytes_ += rounded;
}

bool Arena::MustClear() const {
  if (returned_.empty()) return false;
  return returned_bytes_ >= kMostReturned || !share_.Check("queue", kLeastLeft).ok();
}

Arena::Returned Arena::TakeReturned() {
  returned_bytes_ = 0;
  return {storage_, std::exchange(returned_, {})};
}

void Arena::Reuse(const Returned& cleared) {
  for (const ArenaRange& range : cleared.ranges) extents_.Give(range.offset, range.length_bytes);
}

// Reading a page of the file that is not there makes none, takes no lock that the program could
// hold, and gives zeros.
void Arena::Returned::Clear() const {
  constexpr size_t kPiece = 16 * kPageBytes;
  const std::unique_ptr<uint8_t[]> piece(new uint8_t[kPiece]);
  const auto is_clear = [](const uint8_t* page) {
    return page[0] == 0 && std::memcmp(page, page + 1, kPageBytes - 1) == 0;
  };
  for (const ArenaRange& range : ranges) {
    const uint64_t end = range.offset + range.length_bytes;
    for (uint64_t at = range.offset; at < end; at += kPiece) {
      const uint64_t bytes = std::min<uint64_t>(kPiece, end - at);
      const ssize_t got = pread(storage->fd.get(), piece.get(), bytes, static_cast<off_t>(at));
      for (uint64_t page = 0; page < bytes; page += kPageBytes) {
        const bool is_known = got == static_cast<ssize_t>(bytes);
        if (is_known && is_clear(piece.get() + page)) continue;
        std::memset(storage->mapping.data() + at + page, 0, kPageBytes);
      }
    }
  }
}

}  // namespace uroce::nic
