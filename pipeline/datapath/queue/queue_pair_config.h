// SPDX-License-Identifier: Apache-2.0
// What nic sets when it makes a queue pair, the path on which a queue pair sends, and the paths of
// address handles.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "pipeline/base/types.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/datapath/queue/notification.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

class CompletionRing;
class Device;
class Session;
class SharedReceiveQueue;
class XrcQueues;

/// Fixed at creation. Addresses are the daemon's, in the session's arena.
struct QueuePairConfig {
  Session* session = nullptr;
  Device* device = nullptr;
  uint32_t handle = 0;  ///< Repeated in CQEs.
  Qpn qpn;
  wire::Service service = wire::Service::kRc;  ///< kRc, kUc, kUd or kXrc.
  uint32_t pd = 0;                             ///< Daemon-wide number.
  /// Both belong to the worker that owns the queue pair; null for an XRC target.
  CompletionRing* send_ring = nullptr;
  CompletionRing* receive_ring = nullptr;
  uint64_t user_handle = 0;  ///< Element of asynchronous events.
  RecordSocket async;
  bool signal_all = false;
  bool selective_repeat = true;  ///< A reliable connection may agree on it.
  /// The environment of the device and worker. Null: losses alone bound what is in flight.
  const congestion::Environment* congestion = nullptr;
  uint32_t doorbell_slot = 0;
  uroce_qp_page* page = nullptr;
  uint8_t* sq = nullptr;
  uint8_t* rq = nullptr;
  uint32_t sq_depth = 0;  ///< Powers of two, 0 for none.
  uint32_t rq_depth = 0;
  uint32_t sq_slot_bytes = 0;
  uint32_t rq_slot_bytes = 0;
  uint32_t max_send_sge = 0;
  uint32_t max_receive_sge = 0;
  uint32_t max_inline_bytes = 0;
  SharedReceiveQueue* shared = nullptr;  ///< Belongs to the same worker; there is no RQ then.
  /// For an XRC target, which has no queues: requests name a shared receive queue of the domain.
  XrcQueues* domain = nullptr;
};

using Attributes = transport::QueuePairAttributes;
using Counters = transport::QueuePairCounters;

/// Where packets go, as an address vector and the neighbour table say.
struct Path {
  Mac source_mac{};
  Mac destination_mac{};
  Gid source;
  Gid destination;
  uint8_t traffic_class = 0;  ///< As the program gave it.
  bool ecn_capable = false;   ///< Packets carry ECT(0), whatever the traffic class.
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;
  uint16_t vlan_tci = 0;  ///< 0: no 802.1Q header.
  uint16_t udp_source_port = 0xc000;
  Qpn remote_qpn;                ///< For a connected queue pair.
  uint64_t static_rate_bps = 0;  ///< Of an address handle: datagrams leave no faster. 0: no limit.
};

/// The headers that packets on `path` have in common.
wire::HeaderTemplate MakeTemplate(const Path& path);

// The address handles of one program, as workers see them. The control thread writes, and any
// number of workers read, without a lock.

/// Where the datagrams of one address handle go. The path names no queue pair: each datagram names
/// its own. Changed while all workers stand still.
class AddressVector {
 public:
  /// `pd`: the daemon-wide number of the protection domain.
  AddressVector(uint32_t pd, const Path& path) : pd_(pd) { set_path(path); }

  uint32_t pd() const { return pd_; }
  const Path& path() const { return path_; }
  const wire::HeaderTemplate& header_template() const { return header_template_; }
  void set_path(const Path& path) {
    path_ = path;
    header_template_ = MakeTemplate(path);
  }

 private:
  uint32_t pd_;
  Path path_;
  wire::HeaderTemplate header_template_;
};

/// By handle: a small number that the control thread gives and the program repeats in requests.
class AddressTable {
 public:
  /// Makes a table for handles below `capacity`.
  explicit AddressTable(uint32_t capacity)
      : capacity_(capacity),
        slots_(std::make_unique<std::atomic<const AddressVector*>[]>(capacity)) {}

  /// Returns the address vector of a handle, or null. Any worker; valid for this turn.
  const AddressVector* Find(uint32_t handle) const {
    return handle < capacity_ ? slots_[handle].load(std::memory_order_acquire) : nullptr;
  }
  /// Sets an entry. Null hides the old one: free it after a grace period. Control thread.
  void Set(uint32_t handle, const AddressVector* vector) {
    slots_[handle].store(vector, std::memory_order_release);
  }

 private:
  const uint32_t capacity_;
  std::unique_ptr<std::atomic<const AddressVector*>[]> slots_;
};

}  // namespace uroce::datapath
