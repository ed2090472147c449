// SPDX-License-Identifier: Apache-2.0
// The process at the other end of a connection to the control socket: a program or a tool.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

namespace uroce::nic {

class Program;

/// The process that made the connection (SO_PEERCRED).
struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  uid_t account = uid;  ///< The user who answers for what the process holds (LoginUsers).
  /// Whether the process is root's or the daemon's own user's.
  bool is_privileged() const;
};

/// One connected process and its objects. Control thread.
class Client {
 public:
  /// `id` is unique during the life of the daemon.
  Client(uint32_t id, const Peer& peer);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  uint32_t id() const { return id_; }
  const Peer& peer() const { return peer_; }
  uid_t uid() const { return peer_.uid; }
  uid_t account() const { return peer_.account; }
  bool is_privileged() const { return peer_.is_privileged(); }
  /// Name of the process, for logs: each byte that is not printable ASCII is '?'.
  const std::string& command_name() const { return command_name_; }
  /// Null for a tool, and before HELLO.
  Program* program() const { return program_.get(); }
  void set_program(std::unique_ptr<Program> program);
  /// Whether this client may see the objects of `other`.
  bool MaySee(const Client& other) const { return is_privileged() || other.uid() == uid(); }

 private:
  const uint32_t id_;
  const Peer peer_;
  const std::string command_name_;
  std::unique_ptr<Program> program_;
};

}  // namespace uroce::nic
