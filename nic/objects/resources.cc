// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/resources.h"

#include <fcntl.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/thread/shared_rate.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/shared_memory.h"
#include "pipeline/os/side_thread.h"

namespace uroce::nic {

UserAccount::UserAccount(uint32_t uid, const Limits& limits)
    : rate(std::make_unique<datapath::SharedRate>(limits.rate_per_user_bps)),
      sockets{uid, limits.sockets_per_user, "--max-sockets-per-user"},
      mappings{uid, limits.mappings_per_user, "--max-mappings-per-user"},
      xrc_files{uid, limits.kinds.of(Kind::kXrcd).of_user, "--max-xrcd-per-user"},
      attachments{uid, limits.attachments_per_user, "--max-mcast-per-user"},
      queue_bytes{uid, limits.queue_bytes_per_user, "--max-queue-bytes-per-user"},
      refusals_thread(std::make_shared<SideThread>()) {
  for (const KindRow& row : kKinds) {
    kinds_.push_back(
        {uid, limits.kinds.of(row.kind).of_user,
         absl::StrCat("--max-", absl::StrReplaceAll(row.setting, {{"_", "-"}}), "-per-user")});
  }
}

UserAccount::~UserAccount() = default;

void UserAccount::SetLimits(const Limits& limits) {
  rate->Set(limits.rate_per_user_bps);
  sockets.limit = limits.sockets_per_user;
  mappings.limit = limits.mappings_per_user;
  xrc_files.limit = limits.kinds.of(Kind::kXrcd).of_user;
  attachments.limit = limits.attachments_per_user;
  queue_bytes.limit = limits.queue_bytes_per_user;
  for (const KindRow& row : kKinds) of(row.kind).limit = limits.kinds.of(row.kind).of_user;
}

TableLimits LimitsOf(Kind kind, const Limits& limits, UserAccount& user) {
  return {RowOf(kind).name, limits.kinds.of(kind).of_program, &user.of(kind)};
}

absl::StatusOr<Arena> Arena::Make(uint32_t worker_count, Quota* of_user,
                                  std::shared_ptr<SideThread> reaper) {
  absl::StatusOr<Fd> fd = MakeSharedFile("uroce-arena", UROCE_ARENA_BYTES);
  if (!fd.ok()) return fd.status();
  absl::StatusOr<Mapping> mapping = MapShared(fd->get(), UROCE_ARENA_BYTES);
  if (!mapping.ok()) return mapping.status();
  const uint64_t doorbells_end = UROCE_DOORBELLS_OFFSET + worker_count * sizeof(uroce_doorbells);
  std::shared_ptr<Storage> storage(new Storage{*std::move(fd), *std::move(mapping)},
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
      share_(of_user) {}

absl::StatusOr<uint64_t> Arena::Take(uint64_t length_bytes) {
  const uint64_t rounded = extents_.RoundUp(length_bytes);
  if (absl::Status status = share_.Check("queue", rounded); !status.ok()) return status;
  const std::optional<uint64_t> offset = extents_.Take(length_bytes);
  if (offset) {
    share_.Take(rounded);
    return *offset;
  }
  return absl::ResourceExhaustedError(absl::StrCat("arena: no room for a queue of ", length_bytes,
                                                   " bytes, ", extents_.free_bytes(), " are free"));
}

void Arena::Give(uint64_t offset, uint64_t length_bytes) {
  fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(extents_.RoundUp(length_bytes)));
  extents_.Give(offset, length_bytes);
  share_.Give(extents_.RoundUp(length_bytes));
}

}  // namespace uroce::nic
