// SPDX-License-Identifier: Apache-2.0
// Life of a connection, and the way of a request through it.
#include "nic/control/session.h"

#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/control/dump_stream.h"

namespace uroce::nic {
namespace {

// Whoever floods with commands gets so many in a turn of the loop, and no more time than his user
// has in it.
constexpr int kRequestsPerTurn = 16;
constexpr Nanos kFdRetry{10'000'000};        // Until fds may be let out again,
constexpr Nanos kFdPatience{5'000'000'000};  // and until they are given up.
constexpr size_t kMaxRequestBytes =
    sizeof(uroce_request) + sizeof(uroce_reg_mr) + UROCE_MAX_MR_SEGMENTS * sizeof(uroce_mr_segment);

std::string CommandName(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/comm"));
  std::string name;
  std::getline(file, name);
  // Whoever reads it may be a terminal, which obeys some bytes.
  std::ranges::replace_if(
      name, [](char c) { return c < ' ' || c > '~'; }, '?');
  return name;
}

}  // namespace

// The pidfd tells of a death that the socket hides: a forked child may hold it open. Where there is
// none (another PID namespace), the socket alone tells.
Session::Session(ControlContext& context, uint32_t id, Fd socket, const Peer& peer,
                 Admission::Place place)
    : context_(context),
      place_(std::move(place)),
      files_thread_(std::make_shared<SideThread>(place_)),
      id_(id),
      socket_(std::move(socket), files_thread_),
      peer_(peer),
      command_name_(CommandName(peer.pid)),
      pidfd_(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0))) {
  watch_ = context_.loop.Watch(socket_.fd(), EPOLLIN, [this] { OnReadable(); });
  if (pidfd_) death_watch_ = context_.loop.Watch(pidfd_.get(), EPOLLIN, [this] { End(); });
}

Session::~Session() {
  context_.loop.Cancel(answer_timer_);
  context_.errands.Cancel(populating_);
  context_.neighbours.Cancel(lookup_);
  StopHearing();
  if (capture_ != nullptr) --context_.captures;
  if (program_ && context_.log_budget.Take(peer_.uid, Nic::Now())) {
    spdlog::info("session {}: {} (pid {}) left", id_, command_name_, peer_.pid);
  }
}

bool Peer::is_privileged() const { return uid == 0 || uid == geteuid(); }

// While an answer is held, a hangup is all that is reported.
void Session::OnReadable() {
  if (held_) return End();
  const Nanos begin = Nic::Now();
  const Nanos deadline = context_.turns.Enter(peer_.uid, id_, context_.loop.turn(), begin);
  if (deadline <= begin) return;
  for (int i = 0; i < kRequestsPerTurn && !held_; ++i) {
    if (!ReadOne() || Nic::Now() >= deadline) break;
  }
  context_.turns.Leave(peer_.uid, Nic::Now() - begin);
}

void Session::StopHearing() {
  context_.loop.Forget(std::exchange(watch_, 0));
  context_.loop.Forget(std::exchange(death_watch_, 0));
  context_.turns.Forget(peer_.uid, id_);
}

// No command brings fds along: whoever sends some is not served any more.
bool Session::ReadOne() {
  alignas(8) uint8_t buffer[kMaxRequestBytes];
  const auto [outcome, bytes] = socket_.Receive(buffer);
  if (outcome == StrangerSocket::Outcome::kNothing) return false;
  if (outcome != StrangerSocket::Outcome::kMessage) {
    End();
    return false;
  }
  Reply reply;
  const absl::Status status =
      bytes > sizeof(buffer)
          ? absl::InvalidArgumentError(absl::StrCat("a request of ", bytes, " bytes"))
          : Dispatch({buffer, bytes}, reply);
  if (held_) return false;
  if (!status.ok()) spdlog::debug("session {}: {}", id_, std::string(status.message()));
  return AnswerBy(Nic::Now() + kFdPatience, status, std::move(reply));
}

absl::Status Session::Dispatch(std::span<const uint8_t> datagram, Reply& reply) {
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
  const bool may_be_longer = header.command == UROCE_REG_MR ||
                             header.command == UROCE_ADD_MR_SEGMENTS ||
                             header.command == UROCE_WRITE_CM;
  const bool fits =
      may_be_longer ? body.size() >= command->body_bytes : body.size() == command->body_bytes;
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "command ", header.command, " has ", command->body_bytes, " bytes, not ", body.size()));
  }
  if (command->needs_program && program_ == nullptr) {
    return absl::InvalidArgumentError("the first command is HELLO");
  }
  return (this->*command->handler)(body, reply);
}

void Session::Hold() {
  held_ = true;
  context_.loop.SetEvents(watch_, 0);  // Hangups are still reported.
}

void Session::Finish(const absl::Status& status, Reply&& reply) {
  held_ = false;
  context_.loop.SetEvents(watch_, EPOLLIN);
  AnswerBy(Nic::Now() + kFdPatience, status, std::move(reply));
}

// Of a user without privilege the kernel lets so many fds be under way between processes, and no
// more (ETOOMANYREFS): the user's other programs may have them there.
bool Session::AnswerBy(Nanos deadline, const absl::Status& status, Reply&& reply) {
  if (SendReply(socket_.fd(), status, reply)) return true;
  if (errno != ETOOMANYREFS || Nic::Now() >= deadline) {
    End();
    return false;
  }
  Hold();
  auto later = std::make_shared<Reply>(std::move(reply));
  answer_timer_ = context_.loop.After(kFdRetry, [this, status, later, deadline] {
    held_ = false;
    context_.loop.SetEvents(watch_, EPOLLIN);
    AnswerBy(deadline, status, std::move(*later));
  });
  return false;
}

}  // namespace uroce::nic
