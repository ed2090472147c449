// SPDX-License-Identifier: Apache-2.0
// Owners of file descriptors and mappings.
#pragma once

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

}  // namespace uroce
