// SPDX-License-Identifier: Apache-2.0
// One connection of the control socket, to a program or to a tool, and the table of commands that
// it executes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nic/base/event_loop.h"
#include "nic/base/reply.h"
#include "nic/base/user_limits.h"
#include "nic/control/control_context.h"
#include "nic/control/monitor.h"
#include "nic/control/program_commands.h"
#include "nic/control/reconfiguration.h"
#include "nic/objects/client.h"
#include "pipeline/os/side_thread.h"
#include "pipeline/os/unix_socket.h"

namespace uroce::nic {

/// One connection of the control socket, to a program or to a tool. Reads one request at a time and
/// answers it before the next, which is read once the client has read the answer. An answer that
/// has to wait for the network or a helper thread is deferred; other connections continue
/// meanwhile. Control thread.
class ControlConnection {
 public:
  ControlConnection(ControlContext& context, uint32_t id, Fd socket, const Peer& peer,
                    Admission::Place place);
  ~ControlConnection();
  ControlConnection(const ControlConnection&) = delete;
  ControlConnection& operator=(const ControlConnection&) = delete;

  const Client& client() const { return client_; }
  /// Reads no more requests; the connection is about to end.
  void StopHearing();
  /// After StopHearing: ends the program's objects, some at least, and goes on until `is_over`.
  /// Returns whether none is left; false: call it again.
  bool EndSome(absl::FunctionRef<bool()> is_over);

  // ---- for commands ----
  absl::Status Hello(const uroce_hello& request, Reply& reply);
  Observations& observations() { return observations_; }
  NetworkChanges& network_changes() { return network_changes_; }
  /// After HELLO.
  ProgramCommands& program_commands() { return *program_commands_; }
  Program& program() { return *client_.program(); }

 private:
  void OnReadable();
  /// Returns false when this turn has nothing more to read.
  bool ReadOne();
  /// Whether the client has read the last reply. False: requests wait until it has.
  bool AwaitReader();
  absl::Status Dispatch(std::span<const uint8_t> datagram, Reply& reply);
  /// Sends now, or when there is room for the reply. False: it waits, or the connection ends.
  bool Send(const absl::Status& status, Reply&& reply);
  /// Sends once the program's own thread has cleared what the program's queues have left: the
  /// program can hold the lock of the arena's file, and then waits alone.
  void ClearThenSend(const absl::Status& status, Reply&& reply);
  /// Switches reading on or off. Hangups are reported in both cases.
  void Listen(bool is_listening);
  /// Whether the program has closed its end.
  bool HasHungUp() const;
  /// Ends the connection. The line of the log about its end says why.
  void End(absl::string_view why);
  void EndForReply(int error);

  ControlContext& context_;
  Admission::Place place_;
  /// Handles all fds that the program hands over. It keeps the place while it hangs.
  std::shared_ptr<SideThread> files_thread_;
  UntrustedSocket socket_;
  Fd pidfd_;
  EventLoop::Id watch_ = 0;
  EventLoop::Id death_watch_ = 0;
  DeferredReply deferred_;
  Client client_;
  std::unique_ptr<ProgramCommands> program_commands_;  ///< From HELLO on.
  Observations observations_;
  NetworkChanges network_changes_;
  std::string why_;  ///< Why the connection ends.
};

}  // namespace uroce::nic
