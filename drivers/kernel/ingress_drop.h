// SPDX-License-Identifier: Apache-2.0
// Frees the kernel of the RoCE packets that a port beside it receives too: without it, the kernel
// looks for each one's route and socket before a KernelMute drops the packet. Control thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/base/types.h"
#include "pipeline/os/fd.h"

namespace uroce::drivers {

/// Has the kernel drop the RoCE packets of an interface behind the packet sockets and captures, and
/// before its IP. A program in the kernel (eBPF, at the interface's "tcx" ingress hook) drops what
/// its IP would give to the interface's own addresses alone: UDP to port 4791, unicast, not tagged,
/// no fragment, without IPv4 options. Packets that the kernel forwards, or gives to a VLAN, a
/// macvlan, an ipvlan or a bridge, go on. The hook is gone when this object, or the daemon, is.
///
/// Needs Linux 6.6, and CAP_BPF and CAP_NET_ADMIN when the first object of the process is used;
/// CAP_NET_ADMIN alone later. Without them `Set` does nothing.
class IngressDrop {
 public:
  IngressDrop() = default;
  ~IngressDrop() { Clear(); }
  IngressDrop(const IngressDrop&) = delete;
  IngressDrop& operator=(const IngressDrop&) = delete;

  /// Drops on interface `ifindex` of this network namespace, for these of its addresses, and for no
  /// others from now on.
  void Set(int ifindex, std::span<const Gid> addresses);
  /// Drops nothing from now on.
  void Clear();
  /// Whether the kernel has the program.
  bool is_active() const { return static_cast<bool>(link_); }

 private:
  /// What the program looks up: the interface, and the address as a GID.
  struct Key {
    int32_t ifindex = 0;
    std::array<uint8_t, 16> address{};
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  static_assert(sizeof(Key) == 20);
  class Program;

  /// That of the process. Null: the kernel does not take it.
  static const Program* ProgramOfProcess();

  int ifindex_ = 0;
  Fd link_;
  std::vector<Key> keys_;  ///< Sorted.
};

}  // namespace uroce::drivers
