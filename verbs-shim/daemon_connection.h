// SPDX-License-Identifier: Apache-2.0
// The process's connection to the daemon: control socket, arena, doorbells.
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "pipeline/shm/rings/shared_word.h"
#include "verbs-shim/cm_ids.h"
#include "verbs-shim/event_table.h"
#include "verbs-shim/queue_pair_table.h"
#include "verbs-shim/support.h"

namespace uroce::shim {

/// Where a connection stands. It only ever leaves kLive.
enum class ConnectionState : uint32_t {
  kLive,
  kDaemonGone,  ///< Commands give EIO; what was posted is flushed by this side.
  kForked       ///< This is a child: the arena is not mapped, every object is dead.
};

/// Where a reply goes, and how long one without an error is.
struct ReplyRoom {
  void* reply;
  size_t least_bytes;
  size_t most_bytes;
};

/// The room of a reply that is all of `reply`.
template <typename Reply>
ReplyRoom WholeReply(Reply& reply) {
  return {&reply, sizeof(reply), sizeof(reply)};
}

/// One per process and life of the daemon; made by the first ibv_get_device_list, never freed,
/// since objects refer to it. Any thread.
class DaemonConnection {
 public:
  /// The process's connection, connecting if there is none or its daemon is gone. Null: no daemon.
  static DaemonConnection* Get();
  /// The process's connection if there is a live one, without connecting.
  static DaemonConnection* Current();

  /// Sends `request`, which starts with uroce_request (filled in here but for `command`), and waits
  /// for the reply, which starts with uroce_reply and goes to `room`. Returns 0 or a positive
  /// errno: the daemon's, or EIO when it is gone, or its reply has another length than `room` says.
  /// `fds`, with room for `*fd_count`, takes the fds that came along, all close-on-exec; those that
  /// find no room are closed. On an error no fd is left open.
  int Command(void* request, size_t request_bytes, const ReplyRoom& room, int* fds = nullptr,
              uint32_t* fd_count = nullptr);

  ConnectionState state() const { return static_cast<ConnectionState>(rings::LoadRelaxed(state_)); }
  bool is_live() const { return state() == ConnectionState::kLive; }
  /// Looks, without waiting, whether the daemon still holds its end of the socket. Two system
  /// calls.
  bool CheckAlive();
  /// Ends the sleep of a worker. A program may have closed all fds that it does not know, and have
  /// others under their numbers: those are left alone, and the connection is over.
  void Wake(int wake_fd);

  uint8_t* arena() const { return arena_; }
  uint32_t device_count() const { return device_count_; }
  uroce_doorbells* doorbells(uint32_t worker) const;
  int wake_fd(uint32_t worker) const { return wake_fds_[worker]; }
  uint32_t worker_count() const { return worker_count_; }
  QueuePairTable& queue_pairs() { return queue_pairs_; }
  EventTable& events() { return events_; }
  /// Held while a queue pair comes or goes: the daemon may give its handle out again at once, and
  /// until then nobody may take the one for the other.
  pthread_mutex_t& queue_pair_mutex() { return queue_pair_mutex_; }
  /// Of rdma_cm, as far as they have told a name of their own.
  CmIds& cm_ids() { return cm_ids_; }
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
  bool MapArena(int arena_fd);
  int Exchange(const void* request, size_t request_bytes, const ReplyRoom& room, int* fds,
               uint32_t* fd_count);
  void MarkGone();
  /// Whether the control socket is still under its number; async-signal-safe.
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
  int wake_fds_[UROCE_MAX_WORKERS] = {};
  DaemonConnection* older_ = nullptr;
  QueuePairTable queue_pairs_;
  EventTable events_;
  CmIds cm_ids_;
  pthread_mutex_t queue_pair_mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/// A request of a command whose own structure is `Body`, laid out as it goes out.
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

/// An error as the daemon says it: 0 or a positive errno. What is neither is EIO.
inline int ErrnoOf(int32_t error) {
  constexpr int32_t kGreatest = 4095;
  return error >= 0 && error <= kGreatest ? error : EIO;
}

/// Runs a command with fixed structures both ways. Returns 0 or a positive errno; `reply` is set
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

/// As Call, for commands that reply with nothing but an error.
template <typename Request>
int Call(DaemonConnection& connection, uroce_command command, const Request& request) {
  RequestOf<Request> message = {};
  message.header.command = command;
  message.body = request;
  uroce_reply answer;
  return connection.Command(&message, sizeof(message), WholeReply(answer));
}

}  // namespace uroce::shim
