// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/program/program_script.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "pipeline/shm/rings/doorbells.h"

namespace uroce::fuzz {
namespace {

constexpr uint64_t kReach = 1 << 20;  // The part of the arena where the first queues lie.
constexpr uint64_t kLentBytes = 1 << 20;
constexpr uint64_t kSegmentReach = 64 << 10;
constexpr uint8_t kMostWait = 24;  // 17 s.

nic::Limits SmallLimits() {
  using nic::Kind;
  nic::Limits limits{.contexts = 4,
                     .pds = 8,
                     .channels = 4,
                     .cqe = 1 << 12,
                     .qp_wr = 1 << 10,
                     .queue_bytes_per_user = 16 << 20,
                     .memory_per_user = 16 << 20,
                     .capture_bytes = 1 << 20};
  for (const Kind kind : {Kind::kSegment, Kind::kCq, Kind::kQp, Kind::kAh}) {
    limits.kinds.of(kind).of_program = 8;
  }
  limits.kinds.of(Kind::kMr).of_program = 16;
  return limits;
}

/// Starts a process that has memory at kAddr and sleeps. A program that lent the memory of the
/// daemon's own process could have it overwritten.
pid_t StartSleeper() {
  int ready[2];
  if (pipe(ready) != 0) abort();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    void* const memory = mmap(reinterpret_cast<void*>(kAddr), kLentBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory == MAP_FAILED || write(ready[1], "", 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  char byte = 0;
  if (read(ready[0], &byte, 1) != 1) abort();
  close(ready[0]);
  return child;
}

Fd MemoryOf(pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/mem";
  return Fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
}

Fd MemoryOfASleeper() {
  static const Fd memory = MemoryOf(StartSleeper());
  return Fd(dup(memory.get()));
}

Fd MemoryOfAnEndedProcess() {
  static const Fd memory = [] {
    const pid_t child = StartSleeper();
    Fd its = MemoryOf(child);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    return its;
  }();
  return Fd(dup(memory.get()));
}

Fd FileOfKind(uint8_t kind) {
  switch (kind % 7) {
    case 0: {
      Fd file(memfd_create("fuzz", MFD_CLOEXEC));
      static_cast<void>(ftruncate(file.get(), 1 << 20));
      return file;
    }
    case 1:
      return MemoryOfASleeper();
    case 2:
      return Fd(open("/dev/zero", O_RDWR | O_CLOEXEC));
    case 3:
      return Fd(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    case 4:
      return Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    case 5:
      return MemoryOfAnEndedProcess();
    default:
      return {};
  }
}

}  // namespace

ProgramScript::ProgramScript(nic::HandDaemon& daemon)
    : ProgramScript(daemon, std::make_shared<Common>(Common{nic::Nic::Now(), {}, {}, {}})) {}

ProgramScript::ProgramScript(nic::HandDaemon& daemon, std::shared_ptr<Common> common)
    : daemon_(daemon), client_(daemon.socket_path()), common_(std::move(common)) {
  const size_t before = daemon_.server().connection_count();
  daemon_.TurnUntil([&] { return daemon_.server().connection_count() > before; });
}

// Of two programs, the first one waits for the end of both, since it ends last.
ProgramScript::~ProgramScript() {
  shutdown(client_.socket_fd(), SHUT_RDWR);
  const bool is_first = common_.use_count() == (other_ == nullptr ? 1 : 2);
  other_.reset();
  if (is_first) daemon_.TurnUntil([this] { return daemon_.server().connection_count() == 0; });
  if (arena_ != nullptr) munmap(arena_, UROCE_ARENA_BYTES);
}

ProgramScript& ProgramScript::Other() {
  if (other_ == nullptr) other_.reset(new ProgramScript(daemon_, common_));
  return *other_;
}

void ProgramScript::Run(std::span<const uint8_t> script) {
  ScriptReader reader(script);
  ProgramScript* speaker = this;
  while (!reader.AtEnd()) {
    const auto kind = static_cast<uint8_t>(reader.Number(1));
    if (kind == kOther) {
      speaker = speaker == this ? &Other() : this;
    } else {
      speaker->Do(kind, reader);
    }
  }
}

void ProgramScript::Do(uint8_t kind, ScriptReader& reader) {
  switch (kind) {
    case kDatagram:
      return SendDatagram(reader);
    case kLend:
      return Lend(reader);
    case kMemory:
      return WriteArena(reader);
    case kRing:
      return Ring(reader.Number(2) % UROCE_DOORBELL_SLOTS);
    case kTurns:
      for (uint32_t count = reader.Number(1); count != 0; --count) PassTime(Nanos(1000));
      return;
    case kWait:
      return PassTime(Nanos(int64_t{1000} << reader.Number(1) % (kMostWait + 1)));
    case kSegment:
      return WriteSegment(reader);
    case kFdAlong:
      return SendFdAlong(reader);
    default:
      return Command(kind, reader);
  }
}

void ProgramScript::SendDatagram(ScriptReader& reader) {
  const std::vector<uint8_t> bytes = reader.Bytes(reader.Number(1));
  send(client_.socket_fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  TakeAnswers(0);
}

void ProgramScript::WriteArena(ScriptReader& reader) {
  const uint32_t offset = reader.Number(3) % kReach;
  std::vector<uint8_t> bytes = reader.Bytes(reader.Number(1));
  Fill(bytes);
  if (arena_ != nullptr) std::copy(bytes.begin(), bytes.end(), arena_ + offset);
}

void ProgramScript::WriteSegment(ScriptReader& reader) {
  const size_t number = reader.Number(1);
  const uint64_t offset = uint64_t{4} * reader.Number(2) % kSegmentReach;
  std::vector<uint8_t> bytes = reader.Bytes(reader.Number(1));
  Fill(bytes);
  if (number >= segments_.size()) return;
  static_cast<void>(
      pwrite(segments_[number].get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)));
}

void ProgramScript::Ring(uint32_t slot) {
  if (arena_ == nullptr) return;
  auto& doorbells = *reinterpret_cast<uroce_doorbells*>(arena_ + UROCE_DOORBELLS_OFFSET);
  static_cast<void>(rings::Ring(doorbells, slot));
}

void ProgramScript::PassTime(Nanos time) {
  common_->now = common_->now + time;
  daemon_.TurnWorker(common_->now);
}

void ProgramScript::Command(uint32_t command, ScriptReader& reader) {
  std::vector<uint8_t> body = reader.Bytes(size_t{4} * reader.Number(1));
  Fill(body);
  client_.Post(command, body);
  if (command == UROCE_REG_MR || command == UROCE_CLOSE_CONTEXT) AwaitAnswer();
  TakeAnswers(command);
}

// A thread of the daemon inspects lent files: the script goes on when that is done.
void ProgramScript::Lend(ScriptReader& reader) {
  const Fd file = FileOfKind(static_cast<uint8_t>(reader.Number(1)));
  std::vector<uint8_t> bytes = reader.Bytes(sizeof(uroce_lend));
  if (!lend_socket_) return;
  if (!Send(lend_socket_.get(), bytes, file)) return;
  uroce_lend_reply reply;
  for (int i = 0; i < 100; ++i) {
    daemon_.Turn(1);
    if (recv(lend_socket_.get(), &reply, sizeof(reply), MSG_DONTWAIT) >= 0) return;
  }
}

void ProgramScript::SendFdAlong(ScriptReader& reader) {
  const Fd file = FileOfKind(static_cast<uint8_t>(reader.Number(1)));
  std::vector<uint8_t> bytes = reader.Bytes(reader.Number(1));
  Send(client_.socket_fd(), bytes, file);
  TakeAnswers(0);
}

bool ProgramScript::Send(int socket, std::vector<uint8_t>& bytes, const Fd& file) {
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (file) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = file.get();
    std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

void ProgramScript::Fill(std::vector<uint8_t>& bytes) const {
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    const std::vector<uint32_t>* known = nullptr;
    if ((word & ~0xffu) == kKeyOf) known = &common_->keys;
    if ((word & ~0xffu) == kQpnOf) known = &common_->qpns;
    if ((word & ~0xffu) == kNameOf) known = &common_->names;
    const uint32_t index = word & 0xff;
    if (known == nullptr || index >= known->size()) continue;
    std::memcpy(bytes.data() + at, known->data() + index, sizeof(word));
  }
}

// A thread of the daemon populates regions, and contexts end in pieces: the script goes on when
// that is done.
void ProgramScript::AwaitAnswer() {
  pollfd socket{.fd = client_.socket_fd(), .events = POLLIN, .revents = 0};
  for (int i = 0; i < 100 && poll(&socket, 1, 0) == 0; ++i) daemon_.Turn(1);
}

void ProgramScript::TakeAnswers(uint32_t command) {
  daemon_.Turn();
  for (;;) {
    nic::Answer answer = client_.Receive(MSG_DONTWAIT);
    if (answer.hung_up) return;
    if (answer.error == 0) Learn(command, std::move(answer));
  }
}

void ProgramScript::Learn(uint32_t command, nic::Answer answer) {
  switch (command) {
    case UROCE_HELLO: {
      if (arena_ != nullptr || answer.fds.size() < 3) return;
      void* const memory = mmap(nullptr, UROCE_ARENA_BYTES, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_NORESERVE, answer.fds[0].get(), 0);
      if (memory != MAP_FAILED) arena_ = static_cast<uint8_t*>(memory);
      lend_socket_ = std::move(answer.fds[2]);
      return;
    }
    case UROCE_OPEN_CONTEXT: {
      uint32_t words[sizeof(uroce_context_name) / sizeof(uint32_t)] = {};
      if (answer.fds.size() < 2) return;
      static_cast<void>(pread(answer.fds[1].get(), words, sizeof(words), 0));
      common_->names.insert(common_->names.end(), std::begin(words), std::end(words));
      return;
    }
    case UROCE_CREATE_SEGMENT:
      if (!answer.fds.empty()) segments_.push_back(std::move(answer.fds[0]));
      return;
    case UROCE_REG_MR:
      common_->keys.push_back(answer.As<uroce_reg_mr_reply>().lkey);
      return;
    case UROCE_CREATE_QP:
      common_->qpns.push_back(answer.As<uroce_create_qp_reply>().qp_num);
      return;
    default:
      return;
  }
}

// Dumps and captures end after their programs, and what was not read of them is closed later.
bool HoldsNothing(nic::HandDaemon& daemon) {
  for (int i = 0; i < 100 && !daemon.Held().empty(); ++i) {
    daemon.nic().ForgetRead();
    daemon.Turn(1);
  }
  const std::string held = daemon.Held();
  if (!held.empty()) std::fprintf(stderr, "the daemon still holds:\n%s", held.c_str());
  return held.empty();
}

nic::HandDaemon& TheDaemon() {
  static const std::unique_ptr<nic::HandDaemon> daemon = [] {
    auto made = std::make_unique<nic::HandDaemon>(SmallLimits());
    made->StopWorkers();
    return made;
  }();
  return *daemon;
}

bool ScriptHolds(std::span<const uint8_t> script, bool made) {
  {
    ProgramScript program(TheDaemon());
    if (made) {
      static const std::vector<uint8_t> before = MadeProgram();
      program.Run(before);
    }
    program.Run(script);
  }
  return HoldsNothing(TheDaemon());
}

}  // namespace uroce::fuzz
