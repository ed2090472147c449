// SPDX-License-Identifier: Apache-2.0
#include "nic/objects/client.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/base/user_limits.h"
#include "nic/objects/program.h"

namespace uroce::nic {
namespace {

std::string CommandName(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/comm"));
  std::string name;
  std::getline(file, name);
  // The name may be printed on a terminal, which interprets control bytes.
  std::ranges::replace_if(
      name, [](char c) { return c < ' ' || c > '~'; }, '?');
  return name;
}

}  // namespace

bool Peer::is_privileged() const { return IsPrivilegedUser(uid); }

Client::Client(uint32_t id, const Peer& peer)
    : id_(id), peer_(peer), command_name_(CommandName(peer.pid)) {}

Client::~Client() = default;

void Client::set_program(std::unique_ptr<Program> program) { program_ = std::move(program); }

}  // namespace uroce::nic
