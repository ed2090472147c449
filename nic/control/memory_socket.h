// SPDX-License-Identifier: Apache-2.0
// The second socket of a program: the way of its /proc/self/mem to the daemon.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "nic/control/errands.h"
#include "nic/control/event_loop.h"
#include "nic/resources/fd.h"
#include "pipeline/datapath/session.h"

namespace uroce::nic {

/// A stranger's fd may block whoever looks at it or closes it. So each message is received, and its
/// fd checked, on a thread of its own that nobody waits for; the control thread only learns the
/// outcome. Control thread.
class MemorySocket {
 public:
  /// `program_end` is for the program.
  static absl::StatusOr<std::unique_ptr<MemorySocket>> Make(EventLoop& loop, Errands& errands,
                                                            datapath::Session& session,
                                                            Fd& program_end);
  ~MemorySocket();
  MemorySocket(const MemorySocket&) = delete;
  MemorySocket& operator=(const MemorySocket&) = delete;

 private:
  struct Inspection;

  MemorySocket(EventLoop& loop, Errands& errands, datapath::Session& session, Fd socket);
  void Watch();
  void OnMessage();
  void OnInspected(Inspection& inspection);

  EventLoop& loop_;
  Errands& errands_;
  datapath::Session& session_;
  Fd socket_;
  EventLoop::Id watch_ = 0;
  Errands::Id errand_ = 0;
  uint32_t messages_ = 0;
};

}  // namespace uroce::nic
