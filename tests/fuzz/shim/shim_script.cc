// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/shim/shim_script.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "tests/fuzz/shim/shim_connections.h"

namespace uroce::fuzz {
namespace {

constexpr uint32_t kArenaReach = 1 << 24;
constexpr size_t kMostReplyBytes = 8192;
constexpr uint64_t kGuardBytes = 1 << 20;

ShimScript* g_script = nullptr;

/// Writes as a daemon does, which ignores SIGPIPE; the program's own writes do not.
void Write(int fd, const void* data, size_t size) {
  if (fd < 0) return;
  const auto old = signal(SIGPIPE, SIG_IGN);
  static_cast<void>(write(fd, data, size));
  signal(SIGPIPE, old);
}

}  // namespace

// The linker redirects these calls of the shim to here (--wrap).
extern "C" {

ssize_t __real_send(int fd, const void* data, size_t size, int flags);
ssize_t __real_sendmsg(int fd, const msghdr* message, int flags);
void* __real_mmap64(void* address, size_t size, int protection, int flags, int fd, off_t offset);

/// Sends a request. The daemon answers it, on this thread.
ssize_t __wrap_send(int fd, const void* data, size_t size, int flags) {
  const ssize_t sent = __real_send(fd, data, size, flags);
  if (g_script != nullptr && sent > 0) g_script->OnRequest();
  return sent;
}

/// Programs lend memory by this call. Messages that the daemon itself sends differ in size.
ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  const ssize_t sent = __real_sendmsg(fd, message, flags);
  const bool is_lend = message->msg_iovlen == 1 && message->msg_iov->iov_len == sizeof(uroce_lend);
  if (g_script != nullptr && is_lend && sent > 0) g_script->OnLend();
  return sent;
}

/// Maps the program's arena between pages without access.
void* __wrap_mmap64(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  if (address != nullptr || size != UROCE_ARENA_BYTES || protection != PROT_NONE) {
    return __real_mmap64(address, size, protection, flags, fd, offset);
  }
  void* const reserved = __real_mmap64(nullptr, size + 2 * kGuardBytes, PROT_NONE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) std::abort();
  return __real_mmap64(static_cast<uint8_t*>(reserved) + kGuardBytes, size, protection,
                       flags | MAP_FIXED, fd, offset);
}
}

ShimScript::ShimScript() : daemon_({"fake0", "fake1"}, shim_test::FakeDaemon::Answers::kByHand) {
  setenv("UROCE_SOCKET", daemon_.socket_path().c_str(), 1);
  g_script = this;
}

ShimScript::~ShimScript() {
  plan_.clear();
  EndSessions(kGuardBytes);
  g_script = nullptr;
  for (const int fd : fds_) close(fd);
}

void ShimScript::Run(std::span<const uint8_t> script) {
  ScriptReader reader(script);
  while (!reader.AtEnd() && program_.failure().empty()) {
    const auto record = static_cast<uint8_t>(reader.Number(1));
    record >= kAlterReply ? Do(record, reader) : program_.Do(record, reader);
  }
}

std::string ShimScript::Finish() {
  plan_.clear();
  daemon_.HangUp();
  is_gone_ = true;
  program_.EndAll();
  return program_.failure();
}

void ShimScript::Do(uint8_t record, ScriptReader& reader) {
  switch (record) {
    case kArena: {
      const uint32_t offset = reader.Number(3) % kArenaReach;
      return WriteArena(offset, reader.Bytes(reader.Number(1)));
    }
    case kCompletion:
      return Complete(reader);
    case kEvent:
      return RaiseEvent(reader);
    case kSignal: {
      const std::vector<uint8_t> bytes = reader.Bytes(reader.Number(1) % 32);
      return Write(daemon_.cm_fd(), bytes.data(), bytes.size());
    }
    case kAnswerCm:
      return AnswerCm(reader);
    case kAnswerLend: {
      const std::vector<uint8_t> bytes = reader.Bytes(sizeof(lend_reply_));
      std::memcpy(&lend_reply_, bytes.data(), bytes.size());
      return;
    }
    case kWorkers: {
      const uint32_t count = reader.Number(1) % 4 + 1;
      daemon_.set_worker_count(count);
      return daemon_.set_worker(reader.Number(1) % count);
    }
    default:
      return PlanAlteration(record, reader);
  }
}

void ShimScript::PlanAlteration(uint8_t record, ScriptReader& reader) {
  Alteration alteration{.record = record, .command = static_cast<uint8_t>(reader.Number(1))};
  switch (record) {
    case kAlterReply:
      alteration.place = reader.Number(2) % kMostReplyBytes;
      alteration.bytes = reader.Bytes(reader.Number(1));
      break;
    case kResizeReply:
      alteration.place = reader.Number(2) % kMostReplyBytes;
      break;
    case kReplyFds:
      alteration.bytes = reader.Bytes(reader.Number(1) % 80);
      break;
    case kArenaThen:
      alteration.place = reader.Number(3) % kArenaReach;
      alteration.bytes = reader.Bytes(reader.Number(1));
      break;
    case kHangUp:
      break;
    default:
      return;
  }
  plan_.push_back(std::move(alteration));
}

void ShimScript::Complete(ScriptReader& reader) {
  const uint32_t cq = reader.Number(1);
  const uint32_t worker = reader.Number(1);
  CompletionFields fields;
  const std::vector<uint8_t> bytes = reader.Bytes(sizeof(fields));
  std::memcpy(&fields, bytes.data(), bytes.size());
  if (cqs_.empty()) return;
  shim_test::FakeCq& made = daemon_.cq(cqs_[cq % cqs_.size()]);
  if (made.rings.empty()) return;
  auto ring = made.rings.begin();
  std::advance(ring, worker % made.rings.size());
  uroce_cqe entry = {};
  entry.wr_id = 7;
  entry.qp_handle = fields.handle;
  if (fields.queue_pair != 255 && !queue_pairs_.empty()) {
    entry.qp_handle = queue_pairs_[fields.queue_pair % queue_pairs_.size()];
  }
  entry.wqe_index = fields.wqe_index;
  entry.byte_len = fields.byte_len;
  entry.status = fields.status;
  entry.opcode = fields.opcode;
  entry.wc_flags = fields.wc_flags;
  entry.flags = fields.flags;
  static_cast<void>(ring->second.producer.Push(entry));
}

void ShimScript::RaiseEvent(ScriptReader& reader) {
  const bool is_async = reader.Number(1) % 2 == 1;
  const uint32_t object = reader.Number(1);
  const uint64_t low = reader.Number(4);
  const uint64_t added = low | uint64_t{reader.Number(4)} << 32;
  uroce_event_record record = {};
  const uint32_t event_type = reader.Number(1);
  record.event_type = event_type == 255 ? UROCE_EVENT_COMPLETION : event_type;
  const size_t bytes = reader.Number(1) % (sizeof(record) + 1);
  if (object != 255 && !user_handles_.empty()) {
    record.element = user_handles_[object % user_handles_.size()];
  }
  record.element += added;
  Write(is_async ? daemon_.async_fd() : daemon_.channel_fd(), &record, bytes);
}

void ShimScript::AnswerCm(ScriptReader& reader) {
  shim_test::FakeCmAnswer answer;
  answer.error = static_cast<int>(reader.Number(4));
  answer.signals = reader.Number(4);
  answer.response = reader.Bytes(reader.Number(1));
  daemon_.AnswerCm(std::move(answer));
}

void ShimScript::OnRequest() {
  const auto alter = [this](const auto& request, auto& reply) { Alter(request, reply); };
  if (is_admitted_ && !is_gone_ && daemon_.AnswerNext(alter)) return;
  // The socket belongs to a new client, or to none.
  daemon_.Admit();
  is_admitted_ = true;
  is_gone_ = !daemon_.AnswerNext(alter);
}

void ShimScript::OnLend() { Write(daemon_.memory_socket(), &lend_reply_, sizeof(lend_reply_)); }

void ShimScript::Alter(const shim_test::Received& request, shim_test::FakeReply& reply) {
  Learn(request, reply);
  const auto is_due = [&](const Alteration& one) {
    return one.command == 0 || one.command == request.command;
  };
  for (const Alteration& alteration : plan_) {
    if (is_due(alteration)) Apply(alteration, reply);
  }
  std::erase_if(plan_, is_due);
}

void ShimScript::Learn(const shim_test::Received& request, const shim_test::FakeReply& reply) {
  uint32_t handle = 0;
  if (reply.bytes.size() < sizeof(uroce_reply) + sizeof(handle)) return;
  std::memcpy(&handle, reply.bytes.data() + sizeof(uroce_reply), sizeof(handle));
  switch (request.command) {
    case UROCE_CREATE_CQ:
      cqs_.push_back(handle);
      return user_handles_.push_back(request.As<uroce_create_cq>().user_handle);
    case UROCE_CREATE_QP:
      queue_pairs_.push_back(handle);
      return user_handles_.push_back(request.As<uroce_create_qp>().user_handle);
    case UROCE_CREATE_SRQ:
      return user_handles_.push_back(request.As<uroce_create_srq>().user_handle);
    default:
      return;
  }
}

void ShimScript::Apply(const Alteration& alteration, shim_test::FakeReply& reply) {
  switch (alteration.record) {
    case kAlterReply: {
      const size_t end = alteration.place + alteration.bytes.size();
      if (reply.bytes.size() < end) reply.bytes.resize(end);
      std::ranges::copy(alteration.bytes, reply.bytes.begin() + alteration.place);
      return;
    }
    case kResizeReply:
      return reply.bytes.resize(alteration.place);
    case kReplyFds: {
      std::vector<int> fds;
      for (const uint8_t kind : alteration.bytes) {
        const bool is_good = kind % 16 == 0 && fds.size() < reply.fds.size();
        fds.push_back(is_good ? reply.fds[fds.size()] : MakeFd(kind));
      }
      reply.fds = std::move(fds);
      return;
    }
    case kHangUp:
      is_gone_ = true;
      return daemon_.HangUp();
    case kArenaThen:
      return WriteArena(alteration.place, alteration.bytes);
    default:
      return;
  }
}

void ShimScript::WriteArena(uint32_t offset, const std::vector<uint8_t>& bytes) {
  std::ranges::copy(bytes, daemon_.arena() + offset);
}

int ShimScript::MakeFd(uint8_t kind) {
  int fd = -1;
  int ends[2];
  switch (kind % 16) {
    case 1:  // Smaller than it should be, and not sealed.
      fd = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);
      static_cast<void>(ftruncate(fd, 4096));
      break;
    case 2:  // Of the right size, but able to shrink.
      fd = memfd_create("unsealed", MFD_CLOEXEC);
      static_cast<void>(ftruncate(fd, UROCE_ARENA_BYTES));
      break;
    case 3:  // Without a reader.
      if (pipe2(ends, O_CLOEXEC) != 0) return 0;
      close(ends[0]);
      fd = ends[1];
      break;
    case 4:  // Without a writer.
      if (pipe2(ends, O_CLOEXEC) != 0) return 0;
      close(ends[1]);
      fd = ends[0];
      break;
    case 5:
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return 0;
      close(ends[1]);
      fd = ends[0];
      break;
    case 6:
      if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return 0;
      close(ends[1]);
      fd = ends[0];
      break;
    case 7:
      fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
      break;
    case 8:
      fd = open("/", O_RDONLY | O_CLOEXEC);
      break;
    case 9:  // Sealed, but of pages that may be missing.
      fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
      if (fd < 0) return MakeFd(1);
      static_cast<void>(ftruncate(fd, UROCE_ARENA_BYTES));
      static_cast<void>(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
      break;
    case 10:
      fd = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
      static_cast<void>(ftruncate(fd, UROCE_ARENA_BYTES));
      static_cast<void>(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE));
      break;
    case 11:
      fd = open("/dev/full", O_RDWR | O_CLOEXEC);
      break;
    default:
      fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
      break;
  }
  fds_.push_back(fd);
  return fd;
}

std::string ShimFailure(std::span<const uint8_t> script) {
  ShimScript run;
  run.Run(script);
  return run.Finish();
}

}  // namespace uroce::fuzz
