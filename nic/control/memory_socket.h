// SPDX-License-Identifier: Apache-2.0
// The second socket of a program, over which it sends the files of its memory to the daemon.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "nic/base/background_tasks.h"
#include "nic/base/event_loop.h"
#include "nic/base/fd.h"
#include "nic/base/stranger_socket.h"
#include "nic/control/admission.h"
#include "nic/control/lent_file.h"
#include "nic/objects/program.h"

namespace uroce::nic {

/// An untrusted fd may block the thread that uses or closes it. So the connection's side thread
/// receives each message and checks, maps and closes its fd. The control thread only learns the
/// outcome. Control thread.
class MemorySocket {
 public:
  /// `program_end` is the program's end of the socket pair. Threads that hang in what the program
  /// lent keep `place`; `thread` does so itself.
  static absl::StatusOr<std::unique_ptr<MemorySocket>> Make(
      EventLoop& loop, BackgroundTasks& background_tasks, Program& program, const Lender& lender,
      Admission::Place place, std::shared_ptr<SideThread> thread, Fd& program_end);
  ~MemorySocket();
  MemorySocket(const MemorySocket&) = delete;
  MemorySocket& operator=(const MemorySocket&) = delete;

 private:
  struct Inspection;

  MemorySocket(EventLoop& loop, BackgroundTasks& background_tasks, Program& program,
               const Lender& lender, Admission::Place place, std::shared_ptr<SideThread> thread,
               Fd socket);
  void Watch();
  void OnMessage();
  void OnInspected(Inspection& inspection);
  /// Takes over what was lent; fills in `reply`.
  void Take(Inspection& inspection, uroce_lend_reply& reply);

  EventLoop& loop_;
  BackgroundTasks& tasks_;
  Program& program_;
  const Lender lender_;
  const Admission::Place place_;
  const std::shared_ptr<SideThread> thread_;
  const std::shared_ptr<StrangerSocket> socket_;
  EventLoop::Id watch_ = 0;
  BackgroundTasks::Id task_ = 0;
};

}  // namespace uroce::nic
