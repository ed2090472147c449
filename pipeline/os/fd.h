// SPDX-License-Identifier: Apache-2.0
// Owners of file descriptors and of mappings; sets of file descriptors; standard input and output
// that the caller has closed.
#pragma once

#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace uroce {

/// Owns an fd and closes it at the end. Empty: -1.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.Release()) {}
  Fd& operator=(Fd&& other) noexcept {
    Reset(other.Release());
    return *this;
  }
  ~Fd() { Reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1) {
    const int old = std::exchange(fd_, fd);
    if (old >= 0) close(old);
  }

 private:
  int fd_ = -1;
};

/// Owns a mapping and unmaps it at the end. Empty: data() is null.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* data, size_t length) : data_(data), length_(length) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), length_(std::exchange(other.length_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(length_, other.length_);
    return *this;
  }
  ~Mapping() {
    if (data_ != nullptr) munmap(data_, length_);
  }

  uint8_t* data() const { return static_cast<uint8_t*>(data_); }
  size_t length() const { return length_; }

 private:
  void* data_ = nullptr;
  size_t length_ = 0;
};

/// Pages of memory, as the kernel maps them on x86-64, and Debian's on arm64.
inline constexpr uint64_t kPageBytes = 4096;

/// A set of file descriptors. Its own descriptor is readable while any of the set is.
class Epoll {
 public:
  /// Adds `fd`. No effect when the set has it already.
  void Add(int fd) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &event);
  }
  /// Removes `fd`. No effect when the set does not have it.
  void Remove(int fd) const { epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr); }
  int fd() const { return fd_.get(); }

 private:
  const Fd fd_{epoll_create1(EPOLL_CLOEXEC)};
};

/// Takes the numbers of closed standard fds, so that no socket or file of ours gets one and, with
/// it, what is printed. Reading or writing there still fails with EBADF. Call it first in main.
void TakeClosedStandardFds();

}  // namespace uroce
