// SPDX-License-Identifier: Apache-2.0
// Writes the datagrams of the control socket.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "nic/base/fd.h"

namespace uroce {

/// The answer to a command: its structure, and the fds that go with it.
class Reply {
 public:
  /// Appends the bytes of `value`.
  template <typename T>
  void Add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    body_.insert(body_.end(), bytes, bytes + sizeof(T));
  }
  void AddBytes(std::span<const uint8_t> bytes) {
    body_.insert(body_.end(), bytes.begin(), bytes.end());
  }
  /// Adds an fd that the daemon keeps.
  void Lend(int fd) { fds_.push_back(fd); }
  /// Adds an fd that is closed here once sent.
  void Give(Fd fd) {
    fds_.push_back(fd.get());
    owned_.push_back(std::move(fd));
  }

  std::span<const uint8_t> body() const { return body_; }
  std::span<const int> fds() const { return fds_; }

 private:
  std::vector<uint8_t> body_;
  std::vector<int> fds_;
  std::vector<Fd> owned_;
};

/// The errno that verbs return for a status.
int ErrnoOf(const absl::Status& status);

/// Sends a reply, or an error with its text. False: the socket did not take it at once. A program
/// has one request under way and room for its answer, so it is not served any more.
[[nodiscard]] bool SendReply(int socket, const absl::Status& status, const Reply& reply);

}  // namespace uroce
