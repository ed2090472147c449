// SPDX-License-Identifier: Apache-2.0
// A mark that a frame carries while it is in the daemon.
#pragma once

#include <rte_debug.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <cstdint>
#include <cstdio>

namespace uroce::drivers {

/// A dynamic flag of mbufs, allotted by DPDK once per name; drivers clear it in received frames.
class FrameFlag {
 public:
  /// DPDK has been started. `name` has fewer than RTE_MBUF_DYN_NAMESIZE characters.
  explicit FrameFlag(const char* name) : bit_(Register(name)) {}

  bool IsSet(const rte_mbuf& frame) const { return (frame.ol_flags & bit_) != 0; }
  void Set(rte_mbuf& frame) const { frame.ol_flags |= bit_; }
  void Clear(rte_mbuf& frame) const { frame.ol_flags &= ~bit_; }

 private:
  static uint64_t Register(const char* name) {
    rte_mbuf_dynflag flag{};
    std::snprintf(flag.name, sizeof(flag.name), "%s", name);
    const int bit = rte_mbuf_dynflag_register(&flag);
    RTE_VERIFY(bit >= 0);
    return uint64_t{1} << static_cast<uint32_t>(bit);
  }

  const uint64_t bit_;
};

}  // namespace uroce::drivers
