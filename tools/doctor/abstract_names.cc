// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/abstract_names.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>

#include "pipeline/os/fd.h"

namespace uroce::tools {
namespace {

constexpr size_t kPartBytes = 64 << 10;  // The kernel's parts of a dump have up to 32 KB.
constexpr timeval kPatience{.tv_sec = 2, .tv_usec = 0};

bool Ask(int socket) {
  struct {
    nlmsghdr header;
    unix_diag_req request;
  } message{};
  message.header = {.nlmsg_len = sizeof(message),
                    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                    .nlmsg_seq = 0,
                    .nlmsg_pid = 0};
  message.request.sdiag_family = AF_UNIX;
  message.request.udiag_states = ~0u;
  message.request.udiag_show = UDIAG_SHOW_NAME;
  return send(socket, &message, sizeof(message), 0) == sizeof(message);
}

void Take(nlmsghdr& header, std::vector<NamedSocket>& sockets) {
  if (header.nlmsg_len < NLMSG_LENGTH(sizeof(unix_diag_msg))) return;
  auto* const message = static_cast<unix_diag_msg*>(NLMSG_DATA(&header));
  auto* attribute = reinterpret_cast<rtattr*>(message + 1);
  auto left = header.nlmsg_len - NLMSG_LENGTH(sizeof(*message));
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    const auto* const bytes = static_cast<const char*>(RTA_DATA(attribute));
    const size_t length = RTA_PAYLOAD(attribute);
    if (attribute->rta_type != UNIX_DIAG_NAME || length == 0 || bytes[0] != 0) continue;
    sockets.push_back({{bytes + 1, length - 1}, std::to_string(message->udiag_ino)});
  }
}

}  // namespace

std::optional<std::vector<NamedSocket>> ReadAbstractNames() {
  const Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!socket || !Ask(socket.get())) return std::nullopt;
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  std::vector<NamedSocket> sockets;
  alignas(nlmsghdr) static char part[kPartBytes];
  for (;;) {
    const ssize_t got = recv(socket.get(), part, sizeof(part), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    auto left = static_cast<size_t>(got);
    for (auto* header = reinterpret_cast<nlmsghdr*>(part); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_type == NLMSG_DONE) return sockets;
      if (header->nlmsg_type == NLMSG_ERROR) return std::nullopt;
      Take(*header, sockets);
    }
  }
}

}  // namespace uroce::tools
