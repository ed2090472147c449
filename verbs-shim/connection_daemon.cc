// SPDX-License-Identifier: Apache-2.0
// The commands of memory registration over a connection's sockets.
#include "verbs-shim/connection_daemon.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "verbs-shim/memory/registry.h"
#include "verbs-shim/memory/system_call.h"
#include "verbs-shim/shared_file.h"

namespace uroce::memory {
namespace {

using shim::DaemonConnection;

DaemonConnection& ConnectionOf(void* connection) {
  return *static_cast<DaemonConnection*>(connection);
}

int CreateSegment(void* connection, const uroce_create_segment& request, SegmentGrant& grant) {
  uroce_handle reply;
  uint32_t fd_count = 1;
  const int error = shim::Call(ConnectionOf(connection), UROCE_CREATE_SEGMENT, request, &reply,
                               &grant.memfd, &fd_count);
  if (error != 0) return error;
  grant.handle = reply.handle;
  const bool is_there = fd_count == 1;
  if (is_there && shim::IsSealedMemory(grant.memfd, request.length)) return 0;
  if (is_there) SystemCall(SYS_close, grant.memfd);
  (void)shim::Call(ConnectionOf(connection), UROCE_DESTROY_SEGMENT, reply);
  return is_there ? EIO : EMFILE;
}

int DestroySegment(void* connection, uint32_t handle) {
  return shim::Call(ConnectionOf(connection), UROCE_DESTROY_SEGMENT, uroce_handle{handle, 0});
}

int TrimSegment(void* connection, const uroce_trim_segment& request) {
  return shim::Call(ConnectionOf(connection), UROCE_TRIM_SEGMENT, request);
}

/// A command that ends in a list of segments.
template <typename Body, typename Reply>
int CallWithSegments(DaemonConnection& connection, uroce_command command, const Body& body,
                     const uroce_mr_segment* segments, uint32_t count, Reply& reply) {
  struct Message {
    shim::RequestOf<Body> fixed;
    uroce_mr_segment segments[UROCE_MAX_MR_SEGMENTS];
  };
  static_assert(offsetof(Message, segments) == sizeof(uroce_request) + sizeof(Body));
  Message message;
  message.fixed.header.command = command;
  message.fixed.body = body;
  memcpy(message.segments, segments, count * sizeof(uroce_mr_segment));
  const size_t bytes = offsetof(Message, segments) + count * sizeof(uroce_mr_segment);
  return connection.Command(&message, bytes, shim::WholeReply(reply));
}

/// Sends all segments but the last ones, which fit one message.
int AddSegments(DaemonConnection& connection, const uroce_mr_segment* segments, uint32_t count) {
  for (uint32_t first = 0; first < count; first += UROCE_MAX_MR_SEGMENTS) {
    const uint32_t left = count - first;
    const uint32_t some = left < UROCE_MAX_MR_SEGMENTS ? left : UROCE_MAX_MR_SEGMENTS;
    const uroce_add_mr_segments body = {.first = first, .segment_count = some};
    uroce_reply answer;
    const int error =
        CallWithSegments(connection, UROCE_ADD_MR_SEGMENTS, body, segments + first, some, answer);
    if (error != 0) return error;
  }
  return 0;
}

int RegisterRegion(void* connection, const uroce_reg_mr& region, const uroce_mr_segment* segments,
                   uroce_reg_mr_reply& reply) {
  const uint32_t count = region.segment_count;
  const uint32_t before = count > UROCE_MAX_MR_SEGMENTS ? count - UROCE_MAX_MR_SEGMENTS : 0;
  int error = AddSegments(ConnectionOf(connection), segments, before);
  if (error != 0) return error;
  shim::ReplyOf<uroce_reg_mr_reply> answer;
  error = CallWithSegments(ConnectionOf(connection), UROCE_REG_MR, region, segments + before,
                           count - before, answer);
  if (error == 0) reply = answer.body;
  return error;
}

int DeregisterRegion(void* connection, uint32_t handle) {
  return shim::Call(ConnectionOf(connection), UROCE_DEREG_MR, uroce_handle{handle, 0});
}

/// Sends a request with an fd, or without one (-1).
bool SendLend(int socket, uroce_lend request, int fd) {
  iovec part = {&request, sizeof(request)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof(request));
}

/// A thread of this connection answers in the daemon, not the thread that answers commands.
int Lend(void* connection, const uroce_lend& request, int fd, uroce_lend_reply& reply) {
  const shim::ErrnoKeeper keeper;
  const int socket = ConnectionOf(connection).memory_socket();
  if (!ConnectionOf(connection).CheckAlive() || !SendLend(socket, request, fd)) return EIO;
  ssize_t received;
  do {
    received = recv(socket, &reply, sizeof(reply), 0);
  } while (received < 0 && errno == EINTR);
  return received == static_cast<ssize_t>(sizeof(reply)) ? shim::ErrnoOf(reply.error) : EIO;
}

int SendMemoryFd(void* connection, int fd) {
  uroce_lend request = {};
  request.what = UROCE_LEND_MEMORY;
  uroce_lend_reply reply;
  return Lend(connection, request, fd, reply);
}

int ShareFile(void* connection, const SharedFile& file, SharedGrant& grant) {
  const uroce_lend request = {.what = UROCE_LEND_FILE,
                              .writable = file.writable ? 1u : 0u,
                              .vma_start = file.vma.start,
                              .vma_end = file.vma.end,
                              .offset = file.offset,
                              .length = file.length};
  uroce_lend_reply reply;
  const int error = Lend(connection, request, file.fd, reply);
  if (error != 0) return error;
  grant = {.handle = reply.segment, .offset = reply.offset, .length = reply.length};
  return 0;
}

}  // namespace

int LendXrcFile(DaemonConnection& connection, int fd, uint32_t* file) {
  const RegistryLock lock;
  uroce_lend request = {};
  request.what = UROCE_LEND_XRC_FILE;
  uroce_lend_reply reply;
  const int error = Lend(&connection, request, fd, reply);
  if (error == 0) *file = reply.segment;
  return error;
}

Daemon DaemonOf(DaemonConnection& connection) {
  return {.connection = &connection,
          .userfaultfd_device = connection.userfaultfd_device(),
          .create_segment = CreateSegment,
          .destroy_segment = DestroySegment,
          .trim_segment = TrimSegment,
          .register_region = RegisterRegion,
          .deregister_region = DeregisterRegion,
          .send_memory_fd = SendMemoryFd,
          .share_file = ShareFile};
}

}  // namespace uroce::memory
