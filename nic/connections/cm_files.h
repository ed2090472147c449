// SPDX-License-Identifier: Apache-2.0
// A program's open files of rdma_cm, and the sockets that represent them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "nic/base/event_loop.h"
#include "nic/base/fd.h"
#include "nic/base/message.h"
#include "nic/objects/handle_table.h"
#include "nic/objects/nic.h"
#include "nic/rdma_cm/service.h"
#include "nic/ucma/files.h"
#include "pipeline/shm/abi/uroce_cm_commands.h"

namespace uroce::nic {

/// Control thread. The program holds one end of each socket pair; bytes sent to it say that events
/// wait. The daemon's end receives nothing: its hang-up means that the file is closed.
class CmFiles {
 public:
  CmFiles(EventLoop& loop, Nic& nic, rdma_cm::Service& service, const rdma_cm::Owner& owner,
          rdma_cm::Service::HasQueuePair has_queue_pair);
  ~CmFiles();
  CmFiles(const CmFiles&) = delete;
  CmFiles& operator=(const CmFiles&) = delete;

  /// Errors: ResourceExhausted; Internal: no sockets.
  absl::StatusOr<uint32_t> Open(Fd& program_end);
  /// Executes a command. `bytes`: as described at UROCE_WRITE_CM. The reply has the result.
  void Write(const uroce_write_cm& request, std::span<const uint8_t> bytes, Reply& reply);

 private:
  struct OpenFile {
    Fd socket;
    EventLoop::Id watch = 0;
  };
  void Close(uint32_t handle);
  void Signal(uint32_t handle);

  EventLoop& loop_;
  HandleTable<OpenFile> sockets_;
  ucma::Files files_;
};

}  // namespace uroce::nic
