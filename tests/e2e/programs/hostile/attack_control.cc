// SPDX-License-Identifier: Apache-2.0
// Attacks on sockets and files.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "tests/e2e/programs/hostile/attacks.h"

namespace uroce::hostile {
namespace {

constexpr uint32_t kCommands = UROCE_MODIFY_CQ + 2;
constexpr size_t kMostFds = 250;  // SCM_MAX_FD is 253.

/// The size of some command's structure, or any.
size_t AnySize(Random& random) {
  static constexpr size_t kSizes[] = {
      0,
      sizeof(uroce_handle),
      sizeof(uroce_create_segment),
      sizeof(uroce_reg_mr),
      sizeof(uroce_reg_mr) + sizeof(uroce_mr_segment),
      sizeof(uroce_create_cq),
      sizeof(uroce_create_qp),
      sizeof(uroce_modify_qp),
      sizeof(uroce_create_ah),
      sizeof(uroce_create_srq),
      sizeof(uroce_open_xrcd),
      sizeof(uroce_create_target),
  };
  if (Below(random, 8) == 0) return 4 * Below(random, 60);
  return kSizes[Below(random, std::size(kSizes))];
}

std::vector<uint8_t> RandomBytes(Random& random, size_t bytes) {
  std::vector<uint8_t> body(bytes);
  for (size_t at = 0; at + 4 <= bytes; at += 4) {
    const auto word = static_cast<uint32_t>(Below(random, 3) == 0 ? random() : Below(random, 6));
    std::memcpy(body.data() + at, &word, sizeof(word));
  }
  return body;
}

void Send(int socket, const std::vector<uint8_t>& bytes, const std::vector<int>& fds) {
  iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostFds)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
  }
  static_cast<void>(sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

void DrainAnswers(int socket) {
  char bytes[4096];
  while (recv(socket, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) continue;
}

/// A file of a kind that a program might take for memory.
Fd AnyFile(Random& random) {
  switch (Below(random, 8)) {
    case 0:
      return Fd(open("/dev/zero", O_RDWR | O_CLOEXEC));
    case 1:
      return Fd(open("/etc/passwd", O_RDONLY | O_CLOEXEC));
    case 2:
      return Fd(open("/proc/self/mem", O_PATH | O_CLOEXEC));
    case 3:
      return Fd(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    case 4:
      return Fd(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
    case 5:
      return Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    case 6: {
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0) return Fd();
      close(ends[1]);
      return Fd(ends[0]);
    }
    default: {
      Fd file(memfd_create("hostile", MFD_CLOEXEC));
      static_cast<void>(ftruncate(file.get(), static_cast<off_t>(Below(random, 1 << 20))));
      return file;
    }
  }
}

std::vector<uint8_t> AnyLend(Random& random) {
  uroce_lend lend{};
  lend.what = static_cast<uint32_t>(Below(random, 5));
  lend.writable = static_cast<uint32_t>(Below(random, 2));
  lend.vma_start = Below(random, 2) == 0 ? random() : 0x10000;
  lend.vma_end = lend.vma_start + Below(random, 1 << 20);
  lend.offset = Below(random, 3) == 0 ? random() : 4096 * Below(random, 4);
  lend.length = Below(random, 3) == 0 ? random() : 4096 * Below(random, 64);
  std::vector<uint8_t> bytes(sizeof(lend));
  std::memcpy(bytes.data(), &lend, sizeof(lend));
  if (Below(random, 8) == 0) bytes.resize(Below(random, 2 * sizeof(lend)));
  return bytes;
}

/// Changes files under the daemon's mappings: seals and sizes hold, or do not matter.
void AttackSizes(const Program& program, Random& random) {
  std::vector<int> fds = {program.hello.fds.at(0).get()};
  for (const Fd& file : program.files) fds.push_back(file.get());
  const int fd = fds[Below(random, fds.size())];
  switch (Below(random, 4)) {
    case 0:
      static_cast<void>(ftruncate(fd, static_cast<off_t>(Below(random, 1 << 20))));
      break;
    case 1:
      fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20);
      break;
    case 2:
      fcntl(fd, F_SETPIPE_SZ, 4096 << Below(random, 9));
      break;
    default:
      fcntl(fd, F_ADD_SEALS, static_cast<int>(Below(random, 64)));
      break;
  }
}

}  // namespace

bool AttackCommands(Program& program, Random& random) {
  const auto command = static_cast<uint32_t>(Below(random, kCommands));
  const nic::Answer answer =
      program.client.CallBytes(command, RandomBytes(random, AnySize(random)));
  if (answer.hung_up) return false;
  // Of the right size for one that takes a handle.
  const auto handle = static_cast<uint32_t>(Below(random, 8));
  return !program.client.Handle(command, handle).hung_up;
}

bool AttackFiles(Program& program, Random& random, int stuck_fd) {
  std::vector<Fd> files;
  std::vector<int> fds;
  const uint64_t count = Below(random, 8) == 0 ? kMostFds : Below(random, 3);
  while (files.size() < count) {
    files.push_back(AnyFile(random));
    fds.push_back(files.back().get());
  }
  std::erase(fds, -1);
  if (Below(random, 8) == 0 && fds.size() < kMostFds) fds.push_back(program.client.socket_fd());
  if (stuck_fd >= 0 && Below(random, 8) == 0 && fds.size() < kMostFds) fds.push_back(stuck_fd);
  switch (Below(random, 4)) {
    case 0:
      AttackSizes(program, random);
      return true;
    case 1: {
      std::vector<uint8_t> bytes = RandomBytes(random, 8 * Below(random, 200));
      Send(program.client.socket_fd(), bytes, fds);
      DrainAnswers(program.client.socket_fd());
      return true;
    }
    default:
      Send(program.lend_socket(), AnyLend(random), fds);
      DrainAnswers(program.lend_socket());
      return true;
  }
}

void AttackHello(const std::string& socket_path, Random& random) {
  const nic::ControlClient client(socket_path);
  const int socket = client.socket_fd();
  for (uint64_t count = Below(random, 4); count != 0; --count) {
    const uroce_request header{UROCE_HELLO, static_cast<uint32_t>(Below(random, 40))};
    std::vector<uint8_t> bytes(Below(random, 3) == 0 ? 150'000
                                                     : sizeof(header) + Below(random, 20));
    std::memcpy(bytes.data(), &header, sizeof(header));
    if (Below(random, 3) == 0) bytes.resize(Below(random, sizeof(header)));
    Send(socket, bytes, {});
  }
  if (Below(random, 2) == 0) shutdown(socket, static_cast<int>(Below(random, 3)));
}

}  // namespace uroce::hostile
