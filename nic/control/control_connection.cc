// SPDX-License-Identifier: Apache-2.0
// One connection of the control socket, to a program or to a tool, and the table of commands that
// it executes.
#include "nic/control/control_connection.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/base/log.h"
#include "nic/base/user_limits.h"
#include "nic/control/command_body.h"
#include "nic/control/monitor.h"
#include "nic/control/program_commands.h"
#include "nic/control/reconfiguration.h"
#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {
namespace {

/// One row of the table of commands: a command, and the method that executes it.
struct Command {
  uint32_t number;
  size_t body_bytes;  ///< Exact size, or the minimum for a command that ends in a list.
  bool has_list;
  bool needs_program;  ///< The command requires an earlier HELLO.
  absl::Status (*run)(ControlConnection& connection, Body body, Reply& reply);
};

/// The part of a connection with the method of a command; by default a part of its program.
template <typename Part>
Part& PartOf(ControlConnection& connection) {
  return connection.program().part<Part>();
}

template <>
ControlConnection& PartOf(ControlConnection& connection) {
  return connection;
}
template <>
Observations& PartOf(ControlConnection& connection) {
  return connection.observations();
}
template <>
NetworkChanges& PartOf(ControlConnection& connection) {
  return connection.network_changes();
}
template <>
ProgramCommands& PartOf(ControlConnection& connection) {
  return connection.program_commands();
}
template <>
Registrations& PartOf(ControlConnection& connection) {
  return connection.program_commands().registrations();
}
template <>
Program& PartOf(ControlConnection& connection) {
  return connection.program();
}
template <auto kMethod>
constexpr Command Row(uint32_t number) {
  using Method = MethodOf<kMethod>;
  using Part = typename Method::Part;
  constexpr bool kIsOfAnyClient = std::is_same_v<Part, ControlConnection> ||
                                  std::is_same_v<Part, Observations> ||
                                  std::is_same_v<Part, NetworkChanges>;
  return {number, Method::kBodyBytes, Method::kHasList, !kIsOfAnyClient,
          [](ControlConnection& connection, Body body, Reply& reply) {
            return Method::Run(PartOf<Part>(connection), body, reply);
          }};
}

constexpr Command kCommands[] = {
    Row<&ControlConnection::Hello>(UROCE_HELLO),
    Row<&ProgramCommands::ListDevices>(UROCE_LIST_DEVICES),
    Row<&Contexts::Open>(UROCE_OPEN_CONTEXT),
    Row<&ProgramCommands::CloseContext>(UROCE_CLOSE_CONTEXT),
    Row<&Program::ImportContext>(UROCE_IMPORT_CONTEXT),
    Row<&Contexts::QueryPort>(UROCE_QUERY_PORT),
    Row<&Contexts::QueryGids>(UROCE_QUERY_GIDS),
    Row<&Contexts::AllocPd>(UROCE_ALLOC_PD),
    Row<&Contexts::DeallocPd>(UROCE_DEALLOC_PD),
    Row<&Program::ImportPd>(UROCE_IMPORT_PD),
    Row<&Segments::Create>(UROCE_CREATE_SEGMENT),
    Row<&Registrations::DestroySegment>(UROCE_DESTROY_SEGMENT),
    Row<&Registrations::TrimSegment>(UROCE_TRIM_SEGMENT),
    Row<&Regions::CreateStage>(UROCE_CREATE_STAGE),
    Row<&Regions::CreateCopies>(UROCE_CREATE_COPIES),
    Row<&Registrations::AddSegments>(UROCE_ADD_MR_SEGMENTS),
    Row<&Registrations::Register>(UROCE_REG_MR),
    Row<&Registrations::Deregister>(UROCE_DEREG_MR),
    Row<&Program::ImportMr>(UROCE_IMPORT_MR),
    Row<&Windows::Alloc>(UROCE_ALLOC_MW),
    Row<&Windows::Dealloc>(UROCE_DEALLOC_MW),
    Row<&CompletionQueues::CreateChannel>(UROCE_CREATE_CHANNEL),
    Row<&CompletionQueues::DestroyChannel>(UROCE_DESTROY_CHANNEL),
    Row<&CompletionQueues::Create>(UROCE_CREATE_CQ),
    Row<&ProgramCommands::ResizeCq>(UROCE_RESIZE_CQ),
    Row<&CompletionQueues::Modify>(UROCE_MODIFY_CQ),
    Row<&CompletionQueues::Destroy>(UROCE_DESTROY_CQ),
    Row<&QueuePairs::Create>(UROCE_CREATE_QP),
    Row<&QueuePairs::Place>(UROCE_PLACE_QP),
    Row<&ProgramCommands::ModifyQp>(UROCE_MODIFY_QP),
    Row<&QueuePairs::Query>(UROCE_QUERY_QP),
    Row<&ProgramCommands::DestroyQp>(UROCE_DESTROY_QP),
    Row<&QueuePairs::Attach>(UROCE_ATTACH_MCAST),
    Row<&QueuePairs::Detach>(UROCE_DETACH_MCAST),
    Row<&ProgramCommands::CreateAh>(UROCE_CREATE_AH),
    Row<&ProgramCommands::DestroyAh>(UROCE_DESTROY_AH),
    Row<&SharedReceiveQueues::Create>(UROCE_CREATE_SRQ),
    Row<&SharedReceiveQueues::Modify>(UROCE_MODIFY_SRQ),
    Row<&SharedReceiveQueues::Query>(UROCE_QUERY_SRQ),
    Row<&ProgramCommands::DestroySrq>(UROCE_DESTROY_SRQ),
    Row<&Xrc::OpenDomain>(UROCE_OPEN_XRCD),
    Row<&Xrc::CloseDomain>(UROCE_CLOSE_XRCD),
    Row<&Xrc::CreateTarget>(UROCE_CREATE_TARGET),
    Row<&Xrc::OpenTarget>(UROCE_OPEN_TARGET),
    Row<&ProgramCommands::OpenCm>(UROCE_OPEN_CM),
    Row<&ProgramCommands::WriteCm>(UROCE_WRITE_CM),
    Row<&Observations::Dump>(UROCE_DUMP),
    Row<&Observations::StartCapture>(UROCE_CAPTURE),
    Row<&Observations::History>(UROCE_HISTORY),
    Row<&NetworkChanges::Change>(UROCE_CHANGE),
};

/// Null when there is no such command.
const Command* FindCommand(uint32_t number) {
  const auto* found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                   [number](const Command& c) { return c.number == number; });
  return found == std::end(kCommands) ? nullptr : found;
}

// A client that floods commands may execute this many in a turn of the loop, within the time share
// of its user.
constexpr int kRequestsPerTurn = 16;
// How often a reply that finds no room is tried again, and when the connection gives up.
constexpr DeferredReply::Pace kReplyPace{.first = Nanos(10'000'000), .last = Nanos(10'000'000)};
constexpr Nanos kReplyPatience{5'000'000'000};
// How often a connection whose reply has not been read is looked at.
constexpr DeferredReply::Pace kUnreadPace{.first = Nanos(1'000'000), .last = Nanos(64'000'000)};
constexpr char kHungUp[] = "the program closed its socket";
constexpr size_t kMaxRequestBytes =
    sizeof(uroce_request) + sizeof(uroce_reg_mr) + UROCE_MAX_MR_SEGMENTS * sizeof(uroce_mr_segment);

}  // namespace

// ---- the life of a connection, and its requests ----

// The pidfd reports a death that the socket hides: a forked child may hold the socket open. Without
// a pidfd (another PID namespace) only the socket reports it.
ControlConnection::ControlConnection(ControlContext& context, uint32_t id, Fd socket,
                                     const Peer& peer, Admission::Place place)
    : context_(context),
      place_(std::move(place)),
      files_thread_(std::make_shared<SideThread>(place_)),
      socket_(std::move(socket), files_thread_),
      pidfd_(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0))),
      deferred_(context.loop,
                [this](const absl::Status& status, Reply&& reply) {
                  Listen(true);
                  Send(status, std::move(reply));
                }),
      client_(id, peer),
      observations_(context, client_, deferred_),
      network_changes_(context, client_) {
  watch_ = context_.loop.Watch(socket_.fd(), EPOLLIN, [this] { OnReadable(); });
  if (pidfd_)
    death_watch_ = context_.loop.Watch(pidfd_.get(), EPOLLIN, [this] { End("the program ended"); });
}

ControlConnection::~ControlConnection() {
  StopHearing();
  context_.monitor.Forget(client_);
  if (client_.program() != nullptr) context_.monitor.OnProgram(client_, /*has_joined=*/false);
  if (client_.program() != nullptr && context_.log_budget.Take(client_.account(), Nic::Now())) {
    LogInfo("session {}: {} (pid {}) left{}{}", client_.id(), client_.command_name(),
            client_.peer().pid, why_.empty() ? "" : ": ", why_);
  }
}

// An event that the loop took before the answer was deferred may still be reported.
void ControlConnection::OnReadable() {
  if (deferred_.is_pending()) {
    if (HasHungUp()) End(kHungUp);
    return;
  }
  if (!AwaitReader()) return;
  const Nanos begin = Nic::Now();
  const Nanos deadline =
      context_.turns.Enter(client_.account(), client_.id(), context_.loop.turn(), begin);
  if (deadline <= begin) return;
  for (int i = 0; i < kRequestsPerTurn; ++i) {
    if (!ReadOne() || Nic::Now() >= deadline || HasUnread(socket_.fd())) break;
  }
  context_.turns.Leave(client_.account(), Nic::Now() - begin);
}

bool ControlConnection::HasHungUp() const {
  pollfd socket{.fd = socket_.fd(), .events = POLLRDHUP, .revents = 0};
  return poll(&socket, 1, 0) > 0 && (socket.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
}

void ControlConnection::End(absl::string_view why) {
  if (why_.empty()) why_ = std::string(why);
  context_.end(*this);
}

bool ControlConnection::EndSome(absl::FunctionRef<bool()> is_over) {
  deferred_.Cancel();
  return program_commands_ == nullptr ||
         (program_commands_->EndSome(is_over) && program().EndSome(is_over));
}

void ControlConnection::StopHearing() {
  context_.loop.Forget(std::exchange(watch_, 0));
  context_.loop.Forget(std::exchange(death_watch_, 0));
  context_.turns.Forget(client_.account(), client_.id());
}

void ControlConnection::Listen(bool is_listening) {
  context_.loop.SetEvents(watch_, is_listening ? uint32_t{EPOLLIN} : 0);
}

// Replies bring fds, and their memory is the daemon's: a client has one unread reply. A client that
// waits for each reply before its next request is never paused here.
bool ControlConnection::AwaitReader() {
  if (!HasUnread(socket_.fd())) return true;
  Listen(false);
  deferred_.Repeat(kUnreadPace, [this] {
    if (HasUnread(socket_.fd())) return false;
    deferred_.Release();
    Listen(true);
    return true;
  });
  return false;
}

// No command carries fds: a client that sends some is disconnected.
bool ControlConnection::ReadOne() {
  alignas(8) uint8_t buffer[kMaxRequestBytes];
  const auto [outcome, bytes] = socket_.Receive(buffer);
  if (outcome == UntrustedSocket::Outcome::kNothing) return false;
  if (outcome != UntrustedSocket::Outcome::kMessage) {
    End(outcome == UntrustedSocket::Outcome::kFds ? "a request carried fds" : kHungUp);
    return false;
  }
  Reply reply;
  const absl::Status status =
      bytes > sizeof(buffer)
          ? absl::InvalidArgumentError(absl::StrCat("a request of ", bytes, " bytes"))
          : Dispatch({buffer, bytes}, reply);
  if (deferred_.is_pending()) {
    Listen(false);
    return false;
  }
  if (!status.ok()) LogDebug("session {}: {}", client_.id(), std::string(status.message()));
  return Send(status, std::move(reply));
}

absl::Status ControlConnection::Dispatch(std::span<const uint8_t> datagram, Reply& reply) {
  uroce_request header;
  if (datagram.size() < sizeof(header)) return absl::InvalidArgumentError("a short request");
  std::memcpy(&header, datagram.data(), sizeof(header));
  if (header.size != datagram.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a request of ", datagram.size(), " bytes that says ", header.size));
  }
  const Command* command = FindCommand(header.command);
  if (command == nullptr) {
    return absl::UnimplementedError(absl::StrCat("there is no command ", header.command));
  }
  const Body body = datagram.subspan(sizeof(header));
  const bool fits =
      command->has_list ? body.size() >= command->body_bytes : body.size() == command->body_bytes;
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "command ", header.command, " has ", command->body_bytes, " bytes, not ", body.size()));
  }
  if (command->needs_program && program_commands_ == nullptr) {
    return absl::InvalidArgumentError("the first command is HELLO");
  }
  return command->run(*this, body, reply);
}

absl::Status ControlConnection::Hello(const uroce_hello& request, Reply& reply) {
  if (request.abi_version != UROCE_ABI_VERSION) {
    if (context_.log_budget.Take(client_.account(), Nic::Now())) {
      LogWarning(
          "session {}: {} (pid {}) is refused: its liburoce.so speaks version {} of the "
          "protocol, this is {}",
          client_.id(), client_.command_name(), client_.peer().pid, request.abi_version,
          UROCE_ABI_VERSION);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "liburoce.so speaks version ", request.abi_version, " of the protocol, uroced ",
        UROCE_ABI_VERSION, "; use the same release of both"));
  }
  if (program_commands_ != nullptr) return absl::InvalidArgumentError("HELLO was said before");
  Nic& nic = context_.nic;
  absl::StatusOr<std::unique_ptr<Program>> made =
      Program::Make(nic, client_.id(), client_.account(), files_thread_);
  if (!made.ok()) return made.status();
  (*made)->segments().SetFileOwner(client_.uid());
  client_.set_program(*std::move(made));
  Fd program_end;
  absl::StatusOr<std::unique_ptr<ProgramCommands>> served =
      ProgramCommands::Make(context_, client_, deferred_, place_, files_thread_, program_end);
  if (!served.ok()) {
    client_.set_program(nullptr);
    return served.status();
  }
  program_commands_ = *std::move(served);
  context_.monitor.OnProgram(client_, /*has_joined=*/true);
  if (context_.log_budget.Take(client_.account(), Nic::Now())) {
    LogInfo("session {}: {} (pid {}) joined", client_.id(), client_.command_name(),
            client_.peer().pid);
  }
  const bool share = client_.is_privileged() || nic.config().share_userfaultfd;
  const bool has_userfaultfd = share && nic.userfaultfd() >= 0;
  reply.Add(uroce_hello_reply{.abi_version = UROCE_ABI_VERSION,
                              .worker_count = nic.workers().count(),
                              .device_count = static_cast<uint32_t>(nic.devices().size()),
                              .has_userfaultfd = has_userfaultfd});
  ProgramCore& core = program().core();
  reply.Lend(core.arena().fd());
  for (const Fd& wake_fd : core.wake_fds()) reply.Lend(wake_fd.get());
  reply.Give(std::move(program_end));
  if (has_userfaultfd) reply.Lend(nic.userfaultfd());
  return absl::OkStatus();
}

bool ControlConnection::Send(const absl::Status& status, Reply&& reply) {
  if (client_.program() != nullptr && program().core().arena().MustClear()) {
    ClearThenSend(status, std::move(reply));
    return false;
  }
  const int error = SendReply(socket_.fd(), status, reply);
  if (error == 0) return true;
  if (!MaySendLater(error) || !reply.KeepFds()) {
    EndForReply(error);
    return false;
  }
  Listen(false);
  auto later = std::make_shared<const Reply>(std::move(reply));
  const Nanos deadline = Nic::Now() + kReplyPatience;
  deferred_.Repeat(kReplyPace, [this, status, later, deadline] {
    const int again = SendReply(socket_.fd(), status, *later);
    if (MaySendLater(again) && Nic::Now() < deadline) return false;
    deferred_.Release();
    Listen(true);
    if (again != 0) EndForReply(again);
    return true;
  });
  return false;
}

void ControlConnection::ClearThenSend(const absl::Status& status, Reply&& reply) {
  if (!reply.KeepFds()) return EndForReply(EMFILE);
  Listen(false);
  auto later = std::make_shared<Reply>(std::move(reply));
  auto returned = std::make_shared<const Arena::Returned>(program().core().arena().TakeReturned());
  const BackgroundTasks::Id task =
      context_.services.tasks.Start([returned] { returned->Clear(); },
                                    [this, returned, status, later] {
                                      program().core().arena().Reuse(*returned);
                                      deferred_.Release();
                                      Listen(true);
                                      Send(status, std::move(*later));
                                    },
                                    files_thread_);
  deferred_.Defer([this, task] { context_.services.tasks.Cancel(task); });
}

void ControlConnection::EndForReply(int error) {
  End(absl::StrCat("its reply cannot be sent: ", std::strerror(error)));
}

}  // namespace uroce::nic
