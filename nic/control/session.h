// SPDX-License-Identifier: Apache-2.0
// One connection to the control socket: a program, or a tool.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nic/control/admission.h"
#include "nic/control/capture.h"
#include "nic/control/cm_files.h"
#include "nic/control/errands.h"
#include "nic/control/event_loop.h"
#include "nic/control/flight_recorder.h"
#include "nic/control/log_budget.h"
#include "nic/control/memory_socket.h"
#include "nic/control/message.h"
#include "nic/control/segment_list.h"
#include "nic/control/stranger_socket.h"
#include "nic/control/user_turns.h"
#include "nic/net/neighbours.h"
#include "nic/resources/nic.h"
#include "nic/resources/program.h"
#include "nic/resources/side_thread.h"

namespace uroce::nic {

class DumpSource;
class DumpStream;
class PeerAgreements;
class RdmaCmHost;
class Session;

/// What a session needs of the daemon around it.
struct ControlContext {
  EventLoop& loop;
  Nic& nic;
  Neighbours& neighbours;
  RdmaCmHost& rdma_cm;
  PeerAgreements& peers;
  Errands& errands;
  const FlightRecorder& flights;
  UserTurns& turns;
  LogBudget& log_budget;
  /// All sessions, for dumps.
  std::function<std::vector<const Session*>()> sessions;
  /// Ends a session, after the current callback.
  std::function<void(Session&)> end;
  uint32_t captures = 0;
};

/// Who is at the other end (SO_PEERCRED).
struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  /// Of root or of the daemon's own user.
  bool is_privileged() const;
};

/// Control thread. Reads one request at a time and answers it before the next; an answer that has
/// to wait for the network or for a helper thread is held, while other sessions go on.
class Session {
 public:
  Session(ControlContext& context, uint32_t id, Fd socket, const Peer& peer,
          Admission::Place place);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  uint32_t id() const { return id_; }
  const Peer& peer() const { return peer_; }
  /// Name of the process, for people: what is no printable ASCII is '?'.
  const std::string& command_name() const { return command_name_; }
  /// Null before HELLO.
  Program* program() const { return program_.get(); }
  bool is_privileged() const { return peer_.is_privileged(); }
  /// Whether what `other` has is shown to this one.
  bool MaySee(const Session& other) const {
    return is_privileged() || other.peer_.uid == peer_.uid;
  }
  /// It hears nothing any more, and is to end.
  void StopHearing();

 private:
  using Body = std::span<const uint8_t>;
  using Handler = absl::Status (Session::*)(Body, Reply&);
  struct Command {
    uint32_t number;
    size_t body_bytes;  ///< Exactly, or at least for those that end in a list.
    bool needs_program;
    Handler handler;
  };
  static const Command* FindCommand(uint32_t number);

  void OnReadable();
  /// False: the connection is over.
  bool ReadOne();
  absl::Status Dispatch(std::span<const uint8_t> datagram, Reply& reply);
  /// The answer of the current command comes later, by Finish.
  void Hold();
  void Finish(const absl::Status& status, Reply&& reply);
  /// At once, or when the kernel lets fds out again. False: not yet, or the session ends.
  bool AnswerBy(Nanos deadline, const absl::Status& status, Reply&& reply);
  void End() { context_.end(*this); }

  // One per command; see commands.cc.
  absl::Status Hello(Body body, Reply& reply);
  absl::Status ListDevices(Body body, Reply& reply);
  absl::Status OpenContext(Body body, Reply& reply);
  absl::Status CloseContext(Body body, Reply& reply);
  absl::Status ImportContext(Body body, Reply& reply);
  absl::Status QueryPort(Body body, Reply& reply);
  absl::Status QueryGids(Body body, Reply& reply);
  absl::Status AllocPd(Body body, Reply& reply);
  absl::Status DeallocPd(Body body, Reply& reply);
  absl::Status ImportPd(Body body, Reply& reply);
  absl::Status CreateSegment(Body body, Reply& reply);
  absl::Status DestroySegment(Body body, Reply& reply);
  absl::Status TrimSegment(Body body, Reply& reply);
  absl::Status AddMrSegments(Body body, Reply& reply);
  absl::Status RegMr(Body body, Reply& reply);
  absl::Status DeregMr(Body body, Reply& reply);
  absl::Status AllocMw(Body body, Reply& reply);
  absl::Status DeallocMw(Body body, Reply& reply);
  absl::Status ImportMr(Body body, Reply& reply);
  absl::Status CreateChannel(Body body, Reply& reply);
  absl::Status DestroyChannel(Body body, Reply& reply);
  absl::Status CreateCq(Body body, Reply& reply);
  absl::Status ResizeCq(Body body, Reply& reply);
  absl::Status ModifyCq(Body body, Reply& reply);
  absl::Status DestroyCq(Body body, Reply& reply);
  absl::Status CreateQp(Body body, Reply& reply);
  absl::Status ModifyQp(Body body, Reply& reply);
  absl::Status QueryQp(Body body, Reply& reply);
  absl::Status DestroyQp(Body body, Reply& reply);
  absl::Status AttachMcast(Body body, Reply& reply);
  absl::Status DetachMcast(Body body, Reply& reply);
  absl::Status CreateAh(Body body, Reply& reply);
  absl::Status DestroyAh(Body body, Reply& reply);
  absl::Status CreateSrq(Body body, Reply& reply);
  absl::Status ModifySrq(Body body, Reply& reply);
  absl::Status QuerySrq(Body body, Reply& reply);
  absl::Status DestroySrq(Body body, Reply& reply);
  absl::Status OpenXrcd(Body body, Reply& reply);
  absl::Status CloseXrcd(Body body, Reply& reply);
  absl::Status CreateTarget(Body body, Reply& reply);
  absl::Status OpenTarget(Body body, Reply& reply);
  absl::Status OpenCm(Body body, Reply& reply);
  absl::Status WriteCm(Body body, Reply& reply);
  absl::Status Dump(Body body, Reply& reply);
  absl::Status StartCapture(Body body, Reply& reply);
  absl::Status Flight(Body body, Reply& reply);

  absl::StatusOr<Program*> ProgramNumbered(uint32_t id) const;

  struct Population;
  absl::Status PopulateLater(std::unique_ptr<MemoryObject> memory);
  bool MustAwaitCopies(MemoryObject& memory);
  void PublishLater(std::unique_ptr<MemoryObject> memory);
  void AwaitOlderCopies();
  /// Has `answer` write the reply once the MAC of the next hop is known: at once, or later.
  using Answer = std::function<absl::Status(const Mac&, FollowedPaths::Holder, Reply&)>;
  absl::Status WithNextHop(const PathKey& path, Answer answer, Reply& reply);
  /// Has `answer` write the reply once nothing is `unsent` of what was posted before: at once, or
  /// later, or after kLongestSend in any case. An adapter is faster than the system call, and
  /// programs count on that.
  using Condition = std::function<bool()>;
  using LateAnswer = std::function<absl::Status(Reply&)>;
  absl::Status AfterSends(Condition unsent, LateAnswer answer, Reply& reply);
  void AwaitSends(Condition unsent, LateAnswer answer, Nanos until);
  /// Whether it has to look again: a look costs as much as there are queue pairs, and waits for the
  /// user's turn.
  bool MustAwaitSends(const Condition& unsent, Nanos until);
  /// AfterSends of all the program's datagrams: they need address handles and queue pairs.
  absl::Status AfterDatagrams(LateAnswer answer, Reply& reply);
  absl::Status Release(std::vector<std::unique_ptr<MemoryObject>> memory);
  void AwaitCopies();
  /// Lends a socket through which the dump comes.
  absl::Status Stream(absl::StatusOr<std::unique_ptr<DumpSource>> source, Reply& reply);
  absl::Status AnswerResize(const uroce_resize_cq& request, Reply& reply);

  ControlContext& context_;
  Admission::Place place_;
  /// For all that the program hands over. It keeps the place while it hangs.
  std::shared_ptr<SideThread> files_thread_;
  uint32_t id_;
  StrangerSocket socket_;
  Peer peer_;
  std::string command_name_;
  Fd pidfd_;
  EventLoop::Id watch_ = 0;
  EventLoop::Id death_watch_ = 0;
  bool held_ = false;
  Neighbours::Id lookup_ = 0;
  EventLoop::Id answer_timer_ = 0;  ///< Of an answer that is held.
  Nanos copy_wait_{0};
  Errands::Id populating_ = 0;
  /// To be published when copies into the same memory have ended.
  SegmentList mr_segments_;  ///< Of the next REG_MR.
  std::unique_ptr<MemoryObject> arriving_;
  /// Deregistered, and a copy may still be under way.
  std::vector<std::unique_ptr<MemoryObject>> leaving_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<CmFiles> cm_files_;  ///< Goes first: peers are told, then queue pairs end.
  std::unique_ptr<MemorySocket> memory_socket_;
  std::unique_ptr<Capture> capture_;
  std::unique_ptr<DumpStream> dump_;
};

}  // namespace uroce::nic
