// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/driver_rules.h"

namespace uroce::drivers {
namespace {

constexpr uint32_t kXdpFrameBytes = 63 * 64 - 64 - 128 - 128;

// af_packet: frames of path MTU 4096 do not fit 4096 bytes, and the slot size must divide the
// block. The ring has more slots than a burst, because the kernel also fills it while the worker
// does not run. With qdisc bypass, a frame that finds the NIC busy is lost, and tcpdump never sees
// frames.
//
// af_xdp: without copy mode, or with a busy budget of 0 in zero-copy mode, the driver blocks up to
// a second inside a receive burst; with a budget it makes a system call at every empty burst. An
// XDP frame lies in one page, behind the mempool's header, an mbuf, its headroom and 256 bytes of
// XDP; 63 cache lines in all, because the pool would make 65 of 64. The driver's XDP program takes
// all frames that arrive; a program that the user loads may leave frames other than RoCE to the
// kernel.
//
// iface, udp: no drivers of DPDK; packet_socket_port and udp_port implement them.
//
// memif: implemented by memif_port, not by the driver. Buffers of a power of two would crowd into
// few sets of the caches; these buffers hold frames of MTU 9000.
//
// tap: the driver refuses longer frames whatever the interface's MTU is.
//
// vhost: every frame fits a buffer only without TSO.
std::vector<DriverRules> MakeTable() {
  std::vector<DriverRules> table;
  table.push_back({.driver = "", .wake_up = WakeUp::kInterrupt, .sets_mtu = true});
  table.push_back({.driver = "net_af_packet",
                   .keys = {"iface", "qpairs", "blocksz", "framesz", "framecnt", "qdisc_bypass"},
                   .required = {"iface"},
                   .defaults = {{"framesz", "8192"},
                                {"blocksz", "65536"},
                                {"framecnt", "2048"},
                                {"qpairs", "1"},
                                {"qdisc_bypass", "0"}},
                   .queues_key = "qpairs",
                   .interface_keys = {"iface"},
                   .wake_up = WakeUp::kPacketSocket});
  table.push_back({.driver = "net_iface",
                   .keys = {"iface"},
                   .required = {"iface"},
                   .interface_keys = {"iface"},
                   .wake_up = WakeUp::kPacketSocket,
                   .is_our_own = true});
  table.push_back({.driver = kUdpDriver,
                   .keys = {"iface", "address"},
                   .required = {"iface", "address"},
                   .interface_keys = {"iface"},
                   .is_our_own = true,
                   .needs_no_privilege = true});
  table.push_back({.driver = "net_af_xdp",
                   .keys = {"iface", "start_queue", "queue_count", "shared_umem", "xdp_prog",
                            "busy_budget", "force_copy"},
                   .required = {"iface"},
                   .defaults = {{"force_copy", "1"}, {"busy_budget", "0"}},
                   .queues_key = "queue_count",
                   .interface_keys = {"iface"},
                   .takes_interface_without = "xdp_prog",
                   .wake_up = WakeUp::kXdpSocket,
                   .own_pool_frame_bytes = kXdpFrameBytes,
                   .mtu_limit = kXdpFrameBytes - 256 - 22,
                   .pairs_queues = true,
                   .counts_refusals = true});
  table.push_back(
      {.driver = "net_memif",
       .keys = {"role", "socket", "id", "bsize", "rsize", "secret", "zero-copy", "socket-abstract"},
       .required = {"role"},
       .defaults = {{"socket", ""}, {"bsize", "9216"}, {"rsize", "10"}, {"id", "0"}},
       .made_up_mac = true,
       .is_our_own = true});
  table.push_back({.driver = "net_tap",
                   .keys = {"iface", "remote", "persist"},
                   .defaults = {{"iface", "uroce-tap"}},
                   .wake_up = WakeUp::kTapQueue,
                   .mtu_limit = 1500,
                   .made_up_mac = true,
                   .pairs_queues = true,
                   .counts_refusals = true});
  table.push_back({.driver = "net_pcap",
                   .keys = {"rx_pcap", "tx_pcap", "rx_iface", "rx_iface_in", "tx_iface", "iface",
                            "phy_mac", "infinite_rx"},
                   .required = {"iface", "rx_pcap", "tx_pcap", "rx_iface", "rx_iface_in"},
                   .interface_keys = {"iface", "rx_iface", "rx_iface_in"},
                   .wake_up = WakeUp::kPacketSocket,
                   .made_up_mac = true});
  table.push_back({.driver = "net_vhost",
                   .keys = {"iface", "queues", "client", "iommu-support", "postcopy-support", "tso",
                            "linear-buffer", "ext-buffer", "legacy-ol-flags"},
                   .required = {"iface"},
                   .queues_key = "queues",
                   .wake_up = WakeUp::kInterrupt,
                   .made_up_mac = true});
  table.push_back({.driver = "net_virtio_user",
                   .keys = {"path", "queues", "cq", "queue_size", "iface", "mrg_rxbuf", "in_order",
                            "packed_vq", "speed", "vectorized"},
                   .required = {"path"},
                   .defaults = {{"queue_size", "1024"}},
                   .queues_key = "queues",
                   .wake_up = WakeUp::kInterrupt,
                   .made_up_mac = true,
                   .sets_mtu = true});
  return table;
}

}  // namespace

const DriverRules& RulesOf(absl::string_view driver) {
  static const auto* const table = new std::vector<DriverRules>(MakeTable());
  static const auto* const unknown = new DriverRules;
  for (const DriverRules& rules : *table) {
    if (rules.driver == driver) return rules;
  }
  return *unknown;
}

}  // namespace uroce::drivers
