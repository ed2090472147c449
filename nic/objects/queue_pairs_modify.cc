// SPDX-License-Identifier: Apache-2.0
// ibv_modify_qp and ibv_query_qp for a program's queue pairs.
#include <infiniband/verbs.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "nic/devices/modify_rules.h"
#include "nic/devices/nic_device.h"
#include "nic/devices/verbs_attributes.h"
#include "nic/net/address.h"
#include "nic/net/followed_paths.h"
#include "nic/objects/address_handles.h"
#include "nic/objects/nic.h"
#include "nic/objects/queue_pair_object.h"
#include "nic/objects/queue_pairs.h"
#include "nic/settings/config.h"
#include "nic/settings/congestion_settings.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/wire/encode.h"

namespace uroce::nic {
namespace {

using transport::QpState;

uint32_t ActiveMtuOf(const QueuePairObject& object) {
  return PortAttributes(object.device->info()).active_mtu;
}

datapath::Attributes ToTransport(const uroce_qp_attr& attr, const QueuePairObject& object) {
  datapath::Attributes result;
  result.selective_repeat =
      object.capabilities != nullptr && object.capabilities->selective_repeat();
  result.remote_write = (attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0;
  result.remote_read = (attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) != 0;
  result.remote_atomic = (attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC) != 0;
  // Datagram queue pairs use the port's MTU.
  const bool is_datagram = object.queue_pair.core().is_datagram();
  const uint32_t mtu = is_datagram ? ActiveMtuOf(object) : attr.path_mtu;
  if (mtu != 0) result.path_mtu_bytes = MtuBytes(mtu);
  result.qkey = attr.qkey;
  result.rq_psn = wire::Psn(attr.rq_psn);
  result.sq_psn = wire::Psn(attr.sq_psn);
  result.max_rd_atomic = attr.max_rd_atomic;
  result.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  result.min_rnr_timer = attr.min_rnr_timer;
  result.timeout = attr.timeout;
  result.retry_count = attr.retry_cnt;
  result.rnr_retry = attr.rnr_retry;
  result.notify_drained = attr.en_sqd_async_notify != 0;
  result.congestion = &object.queue_pair.port().CongestionOf(attr.ah_attr.traffic_class);
  return result;
}

datapath::Path ConnectedPath(const PathKey& key, const Mac& destination, Qpn local,
                             const uroce_qp_attr& attr) {
  datapath::Path path = MakePath(key, destination, attr.ah_attr);
  path.remote_qpn = Qpn(attr.dest_qp_num);
  path.udp_source_port = wire::UdpSourcePort(path.flow_label, local, path.remote_qpn);
  return path;
}

/// The lower one of the queue pair's limit and the static rate of its path; 0: there is none.
double RateLimitBps(const uroce_qp_attr& attr) {
  const double own = 1e3 * attr.rate_limit;
  const auto of_path = static_cast<double>(StaticRateBps(attr.ah_attr.static_rate));
  return own == 0 || of_path == 0 ? own + of_path : std::min(own, of_path);
}

// Clears the attributes of a queue pair that returns to RESET, except its sizes.
void ForgetAttributes(uroce_qp_attr& attr) {
  const uroce_qp_cap cap = attr.cap;
  attr = {};
  attr.cap = cap;
}

absl::Status CheckModify(const uroce_qp_attr& wanted, const QueuePairObject& object,
                         const QueuePairLive& live, bool is_privileged) {
  const ModifyView view{live.state, live.draining, ActiveMtuOf(object), object.qp_type,
                        is_privileged};
  const absl::Status status = CheckTransition(wanted, view);
  return status.ok() ? CheckRanges(wanted, view) : status;
}

}  // namespace

// The transition is checked before ApplyModify only if the network has to be asked: a refusal
// should not take a second.
absl::StatusOr<ModifyPlan> QueuePairs::PlanModify(const uroce_modify_qp& wanted) {
  const absl::StatusOr<QueuePairObject*> found = Find(wanted.handle);
  if (!found.ok()) return found.status();
  if (absl::Status status = (*found)->device->CheckThere(); !status.ok()) return status;
  uroce_modify_qp request = wanted;
  request.attr.attr_mask = MaskOfHalf((*found)->qp_type, request.attr.attr_mask);
  if ((request.attr.attr_mask & IBV_QP_AV) == 0) return ModifyPlan{request, std::nullopt};
  const absl::Status status =
      CheckModify(request.attr, **found, LiveState(core_.nic(), **found), core_.is_privileged());
  return status.ok() ? PlanPath(request, **found) : status;
}

absl::StatusOr<ModifyPlan> QueuePairs::PlanPath(const uroce_modify_qp& request,
                                                const QueuePairObject& object) const {
  const NicDevice& device = *object.device;
  const absl::StatusOr<PathKey> path = PathKeyOf("modify_qp", device, request.attr.ah_attr);
  if (!path.ok()) return path.status();
  if (IsMulticast(path->destination)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "modify_qp: dgid ", FormatAddress(path->destination), " is no unicast address"));
  }
  return ModifyPlan{request, *path, object.queue_pair.core().is_reliable()};
}

// The state is read and changed in one turn of the worker: the queue pair may fail at any
// time.
absl::StatusOr<uroce_modify_qp_reply> QueuePairs::ApplyModify(const ModifyPlan& plan,
                                                              const std::optional<Mac>& destination,
                                                              FollowedPaths::Holder followed,
                                                              peers::Holder capabilities) {
  const absl::StatusOr<QueuePairObject*> found = Find(plan.request.handle);
  if (!found.ok()) return found.status();
  QueuePairObject& object = **found;
  const uroce_qp_attr& wanted = plan.request.attr;
  absl::Status status = object.device->CheckThere();
  if (!status.ok()) return status;
  QpState next = QpState::kReset;
  std::unique_ptr<datapath::PacketHistory> history;
  const Config& config = core_.nic().config();
  if (!config.history_dir.empty() && (wanted.attr_mask & IBV_QP_RQ_PSN) != 0) {
    history = std::make_unique<datapath::PacketHistory>(config.history_packets);
  }
  datapath::Worker& worker = core_.nic().OwnerOf(object.queue_pair);
  worker.Run([&] {
    const QueuePairLive live = LookAt(object);
    status = CheckModify(wanted, object, live, core_.is_privileged());
    if (!status.ok()) return;
    next = NextState(wanted, live.state);
    if (next == QpState::kReset) ForgetAttributes(object.attr);
    if (next == QpState::kRtr && history) object.queue_pair.set_history(std::move(history));
    Assign(wanted, object.attr);
    if (plan.path || next == QpState::kReset) object.capabilities = std::move(capabilities);
    std::optional<datapath::Path> path;
    if (plan.path && destination) {
      path = ConnectedPath(*plan.path, *destination, object.queue_pair.qpn(), object.attr);
      path->ecn_capable = IsEcnCapable(object.device->config(), path->traffic_class);
    }
    if (RateLimitBps(object.attr) != object.queue_pair.flow().rate.limit_bps()) {
      object.queue_pair.flow().rate.SetLimit(RateLimitBps(object.attr));
    }
    worker.Modify(&object.queue_pair, next, ToTransport(object.attr, object),
                  path ? &*path : nullptr);
  });
  if (!status.ok()) return status;
  if (plan.path || next == QpState::kReset) object.followed = std::move(followed);
  return uroce_modify_qp_reply{.qp_state = static_cast<uint32_t>(next), .reserved = 0};
}

bool QueuePairs::StaysInside(const uroce_modify_qp& request, const NicDevice& device) const {
  const absl::StatusOr<PathKey> path = PathKeyOf("place_qp", device, request.attr.ah_attr);
  if (!path.ok()) return false;
  return std::ranges::any_of(core_.nic().devices(), [&](const auto& other) {
    const bool is_joined =
        other.get() == &device || (device.wire() >= 0 && other->wire() == device.wire());
    return is_joined && other->datapath().HasAddress(path->destination);
  });
}

absl::StatusOr<datapath::Workers::Rings> QueuePairs::RingsOn(uint32_t worker,
                                                             QueuePairObject& object) {
  const absl::StatusOr<datapath::CompletionRing*> send = cqs_.RingOn(worker, *object.send_cq);
  if (!send.ok()) return send.status();
  const absl::StatusOr<datapath::CompletionRing*> receive = cqs_.RingOn(worker, *object.receive_cq);
  if (!receive.ok()) return receive.status();
  return datapath::Workers::Rings{**send, **receive};
}

uint32_t QueuePairs::MoveTo(uint32_t worker, QueuePairObject& object) {
  Nic& nic = core_.nic();
  const uint32_t from = nic.OwnerOf(object.queue_pair).index();
  if (worker == from) return from;
  const absl::StatusOr<datapath::Workers::Rings> rings = RingsOn(worker, object);
  if (!rings.ok()) return from;
  if (!nic.workers().Move(object.queue_pair, worker, *rings)) return from;
  nic.numbers().queue_pairs.Move(from, worker, PlaceOf(*object.device));
  return worker;
}

absl::StatusOr<uroce_place_qp_reply> QueuePairs::Place(const uroce_modify_qp& request) {
  const absl::StatusOr<QueuePairObject*> found = qps_.Find(request.handle);
  if (!found.ok()) return found.status();
  QueuePairObject& object = **found;
  if (absl::Status status = object.device->CheckThere(); !status.ok()) return status;
  Nic& nic = core_.nic();
  const Qpn own = object.queue_pair.qpn();
  uint32_t worker = nic.OwnerOf(object.queue_pair).index();
  ConnectionPlacement& connections = nic.numbers().connections;
  if (connections.MayMove(own)) {
    const Qpn remote(request.attr.dest_qp_num);
    if (StaysInside(request, *object.device)) {
      const uint32_t of_remote = nic.workers().OwnerOf(remote).index();
      worker = MoveTo(connections.WorkerFor(own, worker, remote, of_remote), object);
    }
    connections.Connect(own, worker);
  }
  return uroce_place_qp_reply{.worker = worker, .reserved = 0};
}

absl::StatusOr<uroce_qp_attr> QueuePairs::Query(uint32_t handle) {
  absl::StatusOr<QueuePairObject*> found = Find(handle);
  if (!found.ok()) return found.status();
  const QueuePairLive live = LiveState(core_.nic(), **found);
  uroce_qp_attr attr = (*found)->attr;
  attr.attr_mask = 0;
  attr.qp_state = static_cast<uint32_t>(live.state);
  attr.cur_qp_state = attr.qp_state;
  attr.sq_draining = live.draining ? 1 : 0;
  if (live.state >= QpState::kRtr && live.state != QpState::kErr) attr.rq_psn = live.expected_psn;
  if (live.state >= QpState::kRts && live.state != QpState::kErr) attr.sq_psn = live.next_send_psn;
  return attr;
}

}  // namespace uroce::nic
