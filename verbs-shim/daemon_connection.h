// SPDX-License-Identifier: Apache-2.0
// The process's connection to the daemon: the control socket, the arena and the doorbells, and the
// checks of the fds that the daemon sends.
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "pipeline/shm/rings/shared_word.h"
#include "verbs-shim/connection_tables.h"
#include "verbs-shim/support.h"

namespace uroce::shim {

// ---- The kinds of the fds that the daemon sends ----
// Access to their memory and writes to them must neither end the program nor block it.

/// Whether `fd` is a memory file of `size_bytes` or more, which cannot shrink and has ordinary
/// pages: accesses to its mapping never raise SIGBUS.
bool IsSealedMemory(int fd, uint64_t size_bytes);

/// Whether `fd` is an eventfd or another anonymous inode, and no file, pipe, device or socket. A
/// write to such an fd neither raises SIGPIPE nor waits for a peer.
bool IsAnonymous(int fd);

// ---- The connection ----

/// The state of a connection. It starts as kLive and changes at most once.
enum class ConnectionState : uint32_t {
  kLive,
  kDaemonGone,  ///< Commands give EIO; the shim flushes what was posted.
  kForked       ///< This process is a forked child: the arena is not mapped, all objects are dead.
};

/// Where a reply is stored, and the allowed length of a reply without an error.
struct ReplyRoom {
  void* reply;
  size_t least_bytes;
  size_t most_bytes;
};

/// The room of a reply that fills all of `reply`.
template <typename Reply>
ReplyRoom WholeReply(Reply& reply) {
  return {&reply, sizeof(reply), sizeof(reply)};
}

/// One per process and run of the daemon. The first ibv_get_device_list makes it. It is never
/// freed, since objects refer to it. Any thread.
///
/// The shim trusts the daemon as little as possible. It checks offsets, depths, slots and grants of
/// replies before it accesses memory (`IsSane`), the length of each reply, and that an error is an
/// errno. Events name their objects by numbers (EventTable). A completion counts only for a queue
/// pair that completes there, and only for what was posted. Not checked are the contents of a
/// completion (wr_id, status, lengths), the contents of registered memory, and whether the daemon
/// answers at all.
class DaemonConnection {
 public:
  /// The process's connection. Connects if there is none or its daemon is gone. Null: no daemon.
  static DaemonConnection* Get();
  /// The process's live connection, or null. Never connects.
  static DaemonConnection* Current();

  /// Sends `request`, which starts with uroce_request (this function sets all of it but `command`),
  /// and waits for the reply, which starts with uroce_reply and is stored in `room`. Returns 0 or a
  /// positive errno: the daemon's, or EIO when it is gone or its reply has another length than
  /// `room` allows. `fds`, with room for `*fd_count`, takes the fds of the reply, all
  /// close-on-exec. Fds that have no room are closed. On an error no fd is left open.
  int Command(void* request, size_t request_bytes, const ReplyRoom& room, int* fds = nullptr,
              uint32_t* fd_count = nullptr);

  ConnectionState state() const { return static_cast<ConnectionState>(rings::LoadRelaxed(state_)); }
  bool is_live() const { return state() == ConnectionState::kLive; }
  /// Checks, without blocking, whether the daemon still holds its end of the socket. Two system
  /// calls.
  bool CheckAlive();
  /// Wakes a sleeping worker. A program may have closed all fds that it does not know, and have
  /// opened others with the same numbers. This function does not write to those, and ends the
  /// connection.
  void Wake(int wake_fd);

  uint8_t* arena() const { return arena_; }
  /// Whether [offset, offset + size_bytes) lies in the arena and begins at a cache line, which
  /// atomic instructions on it need. If so, it may be accessed from now on. The arena is 4 GiB of
  /// addresses, of which a program with a limit of address space maps what has room. It is
  /// accessible only as far as replies have named parts of it: mlockall(2) brings in every page
  /// that a program could access.
  bool Reach(uint64_t offset, uint64_t size_bytes);
  /// Whether the next `size_bytes` that the daemon gives out surely lie where Reach reaches. It
  /// gives out the lowest free part, which ends that far behind all that replies have named, at
  /// most.
  bool CanReachMore(uint64_t size_bytes) const {
    return arena_bytes_ == UROCE_ARENA_BYTES ||
           size_bytes <= arena_bytes_ - rings::LoadAcquire(reached_bytes_);
  }
  uint32_t device_count() const { return device_count_; }
  uroce_doorbells* doorbells(uint32_t worker) const;
  int wake_fd(uint32_t worker) const { return wake_fds_[worker]; }
  uint32_t worker_count() const { return worker_count_; }
  QueuePairTable& queue_pairs() { return queue_pairs_; }
  EventTable& events() { return events_; }
  /// Held while a queue pair is made or destroyed: the daemon may reuse its handle at once, and
  /// until the lock is free no thread may take one queue pair for the other.
  pthread_mutex_t& queue_pair_mutex() { return queue_pair_mutex_; }
  /// The ids of rdma_cm for which the program has set a uid.
  CmIds& cm_ids() { return cm_ids_; }
  CopiedRegions& copied_regions() { return copied_regions_; }
  /// Socket for uroce_lend.
  int memory_socket() const { return memory_socket_; }
  /// /dev/userfaultfd as the daemon passed it, or -1.
  int userfaultfd_device() const { return userfaultfd_device_; }

 private:
  DaemonConnection() = default;
  template <typename T>
  friend T* Make();
  static DaemonConnection* Connect();
  static void InChild();
  bool SayHello();
  bool TakeHelloFds(const uroce_hello_reply& hello, const int* fds, uint32_t fd_count);
  bool MapArena(int arena_fd, uint32_t workers);
  int Exchange(const void* request, size_t request_bytes, const ReplyRoom& room, int* fds,
               uint32_t* fd_count);
  void MarkGone();
  /// Whether the control socket still has its fd number. Async-signal-safe.
  bool HoldsSocket() const;

  pthread_mutex_t command_mutex_ = PTHREAD_MUTEX_INITIALIZER;
  uint32_t state_ = static_cast<uint32_t>(ConnectionState::kLive);
  int control_fd_ = -1;
  uint64_t control_inode_ = 0;
  int memory_socket_ = -1;
  int userfaultfd_device_ = -1;
  uint32_t worker_count_ = 0;
  uint32_t device_count_ = 0;
  uint8_t* arena_ = nullptr;
  uint64_t arena_bytes_ = 0;    ///< Mapped of the arena, from its start.
  uint64_t reached_bytes_ = 0;  ///< Of the arena, from its start: the rest has no access.
  int wake_fds_[UROCE_MAX_WORKERS] = {};
  DaemonConnection* older_ = nullptr;
  QueuePairTable queue_pairs_;
  EventTable events_;
  CmIds cm_ids_;
  CopiedRegions copied_regions_;
  pthread_mutex_t queue_pair_mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/// A request of a command whose own structure is `Body`, in the layout in which it is sent.
template <typename Body>
struct RequestOf {
  uroce_request header;
  Body body;
};
template <typename Body>
struct ReplyOf {
  uroce_reply header;
  Body body;
};
struct Nothing {};

/// The error in a reply: 0 or a positive errno. Any other value becomes EIO.
inline int ErrnoOf(int32_t error) {
  constexpr int32_t kGreatest = 4095;
  return error >= 0 && error <= kGreatest ? error : EIO;
}

/// Runs a command with fixed structures in both directions. Returns 0 or a positive errno; `reply`
/// is set only on 0.
/// only on 0.
template <typename Request, typename Reply>
int Call(DaemonConnection& connection, uroce_command command, const Request& request, Reply* reply,
         int* fds = nullptr, uint32_t* fd_count = nullptr) {
  static_assert(offsetof(RequestOf<Request>, body) == sizeof(uroce_request));
  static_assert(offsetof(ReplyOf<Reply>, body) == sizeof(uroce_reply));
  RequestOf<Request> message = {};
  message.header.command = command;
  message.body = request;
  ReplyOf<Reply> answer;
  const int error =
      connection.Command(&message, sizeof(message), WholeReply(answer), fds, fd_count);
  if (error == 0) *reply = answer.body;
  return error;
}

/// Like Call, for commands that reply with an error code alone.
template <typename Request>
int Call(DaemonConnection& connection, uroce_command command, const Request& request) {
  RequestOf<Request> message = {};
  message.header.command = command;
  message.body = request;
  uroce_reply answer;
  return connection.Command(&message, sizeof(message), WholeReply(answer));
}

}  // namespace uroce::shim
