// SPDX-License-Identifier: Apache-2.0
// Marks the copies of multicast packets that workers give each other.
#pragma once

#include <rte_debug.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <cstdint>

namespace uroce::datapath {

/// A dynamic flag of mbufs, allotted by DPDK once per name; drivers clear it in received frames. A
/// frame with it is a copy of a packet that captures have seen and all workers were given.
class MulticastMark {
 public:
  bool IsSet(const rte_mbuf& frame) const { return (frame.ol_flags & flag_) != 0; }
  void Set(rte_mbuf& frame) const { frame.ol_flags |= flag_; }
  void Clear(rte_mbuf& frame) const { frame.ol_flags &= ~flag_; }

 private:
  static uint64_t Register() {
    static constexpr rte_mbuf_dynflag kFlag{.name = "uroce_multicast_copy", .flags = 0};
    const int bit = rte_mbuf_dynflag_register(&kFlag);
    RTE_VERIFY(bit >= 0);
    return uint64_t{1} << static_cast<uint32_t>(bit);
  }

  const uint64_t flag_ = Register();
};

}  // namespace uroce::datapath
