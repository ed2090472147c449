// SPDX-License-Identifier: Apache-2.0
#include "nic/net/address_signs.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "nic/net/address.h"

namespace uroce::nic {
namespace {

/// Empty if the name is in use, or there is no socket. `is_taken`: the name is in use.
Fd Sign(const AddressSigns::Place& place, int number, bool& is_taken) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name =
      absl::StrCat("uroced/address/", place.first, "/", FormatAddress(place.second), "/", number);
  static_assert(sizeof address.sun_path > 100, "a name has 15 + 11 + 40 + 2 bytes at most");
  std::ranges::copy(name, address.sun_path + 1);  // Behind a 0: no file.
  const auto length = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  // Nothing can be sent to a socket of connections that does not listen.
  Fd sign(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!sign) return sign;
  const auto* const at = reinterpret_cast<const sockaddr*>(&address);
  if (bind(sign.get(), at, static_cast<socklen_t>(length)) == 0) return sign;
  is_taken |= errno == EADDRINUSE;
  return {};
}

}  // namespace

// All numbers are tried: one that ended has left a lower number free.
std::vector<AddressSigns::Place> AddressSigns::Show(const std::set<Place>& places) {
  std::erase_if(signs_, [&](const auto& sign) { return !places.contains(sign.first); });
  std::vector<Place> shared;
  for (const Place& place : places) {
    if (signs_.contains(place)) continue;
    Fd& own = signs_[place];
    bool is_taken = false;
    for (int number = 0; number < kNumbers; ++number) {
      Fd sign = Sign(place, number, is_taken);
      if (!own) own = std::move(sign);
    }
    if (is_taken) shared.push_back(place);
  }
  return shared;
}

}  // namespace uroce::nic
