// SPDX-License-Identifier: Apache-2.0
#include "nic/connections/cm_files.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "nic/base/shared_memory.h"

namespace uroce::nic {

CmFiles::CmFiles(EventLoop& loop, Nic& nic, rdma_cm::Service& service, const rdma_cm::Owner& owner,
                 rdma_cm::Service::HasQueuePair has_queue_pair)
    : loop_(loop),
      sockets_("cm file", nic.config().limits.cm_ids, &nic.user(owner.uid).sockets),
      files_(
          service, owner, std::move(has_queue_pair),
          [&nic](uint32_t device) {
            const NicDevice* const its = nic.DeviceAt(device);
            return its == nullptr ? 0 : its->DeviceInfo(nic.config().limits).node_guid;
          },
          [this](ucma::FileId file) { Signal(static_cast<uint32_t>(file)); }) {}

CmFiles::~CmFiles() {
  sockets_.ForEach([this](uint32_t, OpenFile& file) { loop_.Forget(file.watch); });
}

absl::StatusOr<uint32_t> CmFiles::Open(Fd& program_end) {
  if (absl::Status status = sockets_.CheckRoom(); !status.ok()) return status;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError("socketpair", errno);
  }
  program_end.Reset(ends[1]);
  shutdown(ends[0], SHUT_RD);  // Otherwise fds sent here would wait to be closed.
  auto file = std::make_unique<OpenFile>();
  file->socket.Reset(ends[0]);
  const uint32_t handle = sockets_.NextHandle();
  file->watch = loop_.Watch(ends[0], 0, [this, handle] { Close(handle); });
  files_.Open(ucma::FileId{handle});
  return sockets_.Add(std::move(file));
}

void CmFiles::Close(uint32_t handle) {
  files_.Close(ucma::FileId{handle});
  const std::unique_ptr<OpenFile> file = sockets_.Remove(handle);
  loop_.Forget(file->watch);
}

// If there is no room for more bytes, the program has enough unread ones to be woken.
void CmFiles::Signal(uint32_t handle) {
  const absl::StatusOr<OpenFile*> file = sockets_.Find(handle);
  if (!file.ok()) return;
  const uint8_t signal = 1;
  static_cast<void>(
      send((*file)->socket.get(), &signal, sizeof(signal), MSG_NOSIGNAL | MSG_DONTWAIT));
}

void CmFiles::Write(const uroce_write_cm& request, std::span<const uint8_t> bytes, Reply& reply) {
  const ucma::Answer answer =
      files_.Write(ucma::FileId{request.file}, ucma::FileId{request.old_file}, bytes);
  const std::span<const uint8_t> response =
      std::span(answer.response).first(std::min<size_t>(answer.response.size(), UROCE_MAX_CM_OUT));
  reply.Add(uroce_write_cm_reply{.error = answer.error,
                                 .signals = answer.emptied,
                                 .old_signals = answer.old_emptied,
                                 .response_bytes = static_cast<uint32_t>(response.size())});
  reply.AddBytes(response);
}

}  // namespace uroce::nic
