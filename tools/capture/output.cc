// SPDX-License-Identifier: Apache-2.0
#include "tools/capture/output.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace uroce::tools {
namespace {

constexpr mode_t kOwnerOnly = 0600;  // A capture holds the data of programs.
// How long the end of a capture waits for a pipe's reader.
constexpr std::chrono::milliseconds kStuckReader{2000};
constexpr size_t kNoBlocking = PIPE_BUF;  // A writable pipe takes as much.
constexpr size_t kPartsOfACall = 256;     // Linux takes up to 1024.

/// The user who called sudo, and that user's group.
struct Caller {
  uid_t uid;
  gid_t gid;
};

std::optional<Caller> FindCaller() {
  const char* uid_text = getenv("SUDO_UID");
  const char* gid_text = getenv("SUDO_GID");
  Caller caller{};
  if (geteuid() != 0 || uid_text == nullptr || gid_text == nullptr) return std::nullopt;
  if (!absl::SimpleAtoi(uid_text, &caller.uid) || !absl::SimpleAtoi(gid_text, &caller.gid)) {
    return std::nullopt;
  }
  return caller;
}

/// Gives a file that sudo made to the user who called sudo.
void GiveToCaller(int fd) {
  const std::optional<Caller> caller = FindCaller();
  // No error when the file system refuses: root can still change the owner later.
  if (caller && fchown(fd, caller->uid, caller->gid) != 0) return;
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

/// Whether another user may have put a file, a pipe or a link there, in a directory like /tmp. The
/// kernel has the same rule (protected_regular, protected_fifos and protected_symlinks, proc(5)),
/// where it is set, and the first two only for programs that would make the file.
bool IsOfAnotherUser(const std::string& path) {
  struct stat directory {};
  struct stat file {};
  if (stat(DirectoryOf(path).c_str(), &directory) != 0) return false;
  const bool is_shared =
      (directory.st_mode & S_ISVTX) != 0 && (directory.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (!is_shared || lstat(path.c_str(), &file) != 0) return false;
  const std::optional<Caller> caller = FindCaller();
  return file.st_uid != geteuid() && file.st_uid != directory.st_uid &&
         (!caller || file.st_uid != caller->uid);
}

/// Only a new file changes its owner: an old one may belong to another user, and be reached by a
/// link.
absl::StatusOr<Fd> Create(const std::string& path) {
  Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly));
  if (fd) GiveToCaller(fd.get());
  if (!fd && errno == EEXIST) {
    if (IsOfAnotherUser(path)) {
      return absl::InvalidArgumentError("another user made it, in a directory of all users");
    }
    fd = Fd(open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  }
  if (!fd) return absl::InvalidArgumentError(strerror(errno));
  return fd;
}

/// Whether the pipe can take kNoBlocking bytes; a file always can.
bool IsWritable(int fd) { return Await(fd, POLLOUT, kStuckReader); }

/// Removes `written` bytes from the front, and empty parts.
void Skip(std::span<std::span<const uint8_t>>& parts, size_t written) {
  while (!parts.empty() && written >= parts.front().size()) {
    written -= parts.front().size();
    parts = parts.subspan(1);
  }
  if (!parts.empty()) parts.front() = parts.front().subspan(written);
}

}  // namespace

bool Await(int fd, short events, std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + patience;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    pollfd poller{fd, events, 0};
    const int ready = poll(&poller, 1, std::max(0, static_cast<int>(left.count())));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

std::string RingFileName(const std::string& path, uint64_t number, const tm& local_time) {
  const size_t slash = path.rfind('/');
  const size_t base = slash == std::string::npos ? 0 : slash + 1;
  size_t dot = path.rfind('.');
  if (dot == std::string::npos || dot <= base) dot = path.size();
  return absl::StrFormat("%s_%05d_%04d%02d%02d%02d%02d%02d%s", path.substr(0, dot), number,
                         local_time.tm_year + 1900, local_time.tm_mon + 1, local_time.tm_mday,
                         local_time.tm_hour, local_time.tm_min, local_time.tm_sec,
                         path.substr(dot));
}

absl::StatusOr<CaptureOutput> CaptureOutput::Open(const std::string& path, bool is_ring,
                                                  uint64_t kept_files) {
  CaptureOutput output(path, is_ring, kept_files);
  if (path == "-" && isatty(STDOUT_FILENO)) {
    return absl::InvalidArgumentError("-w -: stdout is a terminal, pipe it into a program");
  }
  const absl::Status status = output.OpenFile();
  if (!status.ok()) return status;
  return output;
}

absl::Status CaptureOutput::OpenFile() {
  name_ = path_;
  if (is_ring_) {
    const time_t now = time(nullptr);
    tm local_time{};
    localtime_r(&now, &local_time);
    name_ = RingFileName(path_, file_count_ + 1, local_time);
  }
  absl::StatusOr<Fd> fd = path_ == "-" ? Fd(dup(STDOUT_FILENO)) : Create(name_);
  if (fd.ok() && !*fd) fd = absl::ErrnoToStatus(errno, "standard output");
  if (!fd.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("-w ", name_, ": ", fd.status().message()));
  }
  fd_ = *std::move(fd);
  ++file_count_;
  if (is_ring_) ring_names_.push_back(name_);
  return absl::OkStatus();
}

absl::Status CaptureOutput::Next() {
  fd_ = Fd();
  // The old file is removed first: on a nearly full disk the new one may need its space.
  while (kept_files_ != 0 && ring_names_.size() >= kept_files_) RemoveOldest();
  return OpenFile();
}

void CaptureOutput::RemoveOldest() {
  unlink(ring_names_.front().c_str());  // It may be gone already.
  ring_names_.pop_front();
}

WriteResult CaptureOutput::Write(std::span<std::span<const uint8_t>> parts,
                                 const volatile sig_atomic_t& stopping) {
  const off_t begin = lseek(fd_.get(), 0, SEEK_CUR);  // -1 for a pipe.
  while (!parts.empty()) {
    if (stopping != 0 && !IsWritable(fd_.get())) return WriteResult::kStuck;
    const std::span<const uint8_t> first =
        parts.front().first(std::min(parts.front().size(), kNoBlocking));
    const ssize_t written = stopping != 0 ? WriteSome({&first, 1}) : WriteSome(parts);
    if (written >= 0) {
      Skip(parts, static_cast<size_t>(written));
    } else if (errno == EPIPE) {
      return WriteResult::kReaderGone;
    } else if (errno != EINTR) {
      const int reason = errno;
      if (begin >= 0 && ftruncate(fd_.get(), begin) == 0) lseek(fd_.get(), begin, SEEK_SET);
      errno = reason;
      return WriteResult::kFailed;
    }
  }
  return WriteResult::kOk;
}

ssize_t CaptureOutput::WriteSome(std::span<const std::span<const uint8_t>> parts) const {
  std::array<iovec, kPartsOfACall> pieces;
  const size_t count = std::min(parts.size(), pieces.size());
  for (size_t i = 0; i < count; ++i) {
    pieces[i] = {const_cast<uint8_t*>(parts[i].data()), parts[i].size()};  // They are only read.
  }
  return writev(fd_.get(), pieces.data(), static_cast<int>(count));
}

}  // namespace uroce::tools
