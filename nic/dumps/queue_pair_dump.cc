// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/queue_pair_dump.h"

#include <infiniband/verbs.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "nic/capture/packet_histories.h"
#include "nic/devices/nic_device.h"
#include "nic/devices/verbs_attributes.h"
#include "nic/dumps/object_dumps.h"
#include "nic/net/address.h"
#include "nic/objects/client.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "nic/objects/queue_pair_object.h"
#include "nic/objects/xrc.h"
#include "nic/settings/config.h"
#include "nic/settings/congestion_settings.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint32_t kQueuePairsPerPiece = 64;  // Their worker waits some us.

FlowView FlowOf(const datapath::QueuePair& queue_pair, const congestion::DelaySettings& settings) {
  const datapath::FlowControl& flow = queue_pair.flow();
  FlowView view{.limit_bps = flow.rate.limit_bps(),
                .cnps_sent = flow.cnps_sent,
                .cnps_handled = flow.cnps_handled};
  if (const congestion::ReactionPoint* const point = flow.rate.point()) {
    view.is_limited = true;
    view.rate_bps = point->rate_bps();
    view.target_bps = point->target_bps();
    view.alpha = point->alpha();
  }
  if (!queue_pair.core().is_reliable()) return view;
  const congestion::Window& window = queue_pair.core().reliable().window();
  view.window_packets = window.packets();
  if (const congestion::DelayWindow* const delay = window.delay()) {
    view.round_trip = delay->delay();
    view.shortest_round_trip = delay->base();
    view.target_round_trip = delay->Target(settings);
  }
  return view;
}

void Look(QueuePairView& view) {
  const datapath::QueuePair& queue_pair = view.object->queue_pair;
  view.state = queue_pair.state();
  const datapath::QueuePairCore& core = queue_pair.core();
  view.draining = core.draining();
  view.is_selective = core.is_reliable() && core.reliable().selective();
  view.next_send_psn = core.next_send_psn().value();
  view.expected_psn = core.expected_psn().value();
  view.path = queue_pair.path();
  view.traffic = queue_pair.traffic();
  view.counters = queue_pair.counters();
  const congestion::Environment& environment =
      queue_pair.port().CongestionOf(queue_pair.traffic_class());
  view.priority = environment.priority;
  view.profile = environment.reacts() ? environment.settings.profile : congestion::Profile::kOff;
  view.flow = FlowOf(queue_pair, environment.settings.delay);
}

const char* TypeName(uint32_t qp_type) {
  switch (qp_type) {
    case IBV_QPT_UC:
      return "UC";
    case IBV_QPT_UD:
      return "UD";
    case IBV_QPT_XRC_SEND:
      return "XRC_SEND";
    case IBV_QPT_XRC_RECV:
      return "XRC_RECV";
    default:
      return "RC";
  }
}

/// The name of the method that repeats lost packets.
const char* RecoveryName(const QueuePairView& view) {
  if (!view.object->queue_pair.core().is_reliable()) return "";
  return view.is_selective ? "selective" : "go-back-n";
}

/// The objects that it uses, as `uroce ctx`, `pd`, `cq` and `srq` number them.
void AddUsed(const QueuePairObject& object, Json& json) {
  if (object.pd == nullptr) return;
  json["ctx"] = object.pd->context->handle;
  json["pd"] = object.pd->number();
  if (object.send_cq != nullptr) json["send_cq"] = object.send_cq->handle;
  if (object.receive_cq != nullptr) json["receive_cq"] = object.receive_cq->handle;
  if (object.srq != nullptr) json["srq"] = object.srq->queue.config().handle;
}

Json QueuePairJson(const QueuePairView& view) {
  const datapath::QueuePairConfig& config = view.object->queue_pair.config();
  Json json;
  json["device"] = config.device->name();
  json["pid"] = view.client->peer().pid;
  json["session"] = view.client->id();
  json["program"] = view.client->command_name();
  json["qpn"] = config.qpn.value();
  json["type"] = TypeName(view.object->qp_type);
  json["state"] = QpStateName(view.state);
  AddUsed(*view.object, json);
  json["draining"] = view.draining;
  json["recovery"] = RecoveryName(view);
  json["remote_qpn"] = view.path.remote_qpn.value();
  json["local"] = view.path.remote_qpn == Qpn() ? "" : FormatAddress(view.path.source);
  json["remote"] = view.path.remote_qpn == Qpn() ? "" : FormatAddress(view.path.destination);
  json["remote_mac"] = FormatMac(view.path.destination_mac);
  json["udp_source_port"] = view.path.udp_source_port;
  json["path_mtu"] = MtuBytes(view.object->attr.path_mtu);
  json["send_psn"] = view.next_send_psn;
  json["expected_psn"] = view.expected_psn;
  json["sent_packets"] = view.traffic.sent_packets;
  json["sent_bytes"] = view.traffic.sent_bytes;
  json["received_packets"] = view.traffic.received_packets;
  json["received_bytes"] = view.traffic.received_bytes;
  Json counters = Json::object();  // Only the counters that are not 0: most always are.
  for (const CounterRow& row : kCounters) {
    if (view.counters.*row.value != 0) counters[row.name] = view.counters.*row.value;
  }
  if (!counters.empty()) json["counters"] = counters;
  return json;
}

class QueuePairsSource : public ListSource {
 public:
  QueuePairsSource(const DumpContext& context, const Client& asker)
      : ListSource("qps"), context_(context), walk_(context, asker, /*of_all=*/false) {}

 private:
  bool AppendItems(std::string& text) override {
    const std::vector<QueuePairView> views = walk_.Next();
    for (const QueuePairView& view : views) {
      Json json = QueuePairJson(view);
      json["worker"] = context_.nic.OwnerOf(view.object->queue_pair).index();
      const std::string file = context_.histories.FileOf(view.object->queue_pair.qpn());
      if (!file.empty()) json["history"] = file;
      AddItem(text, json);
    }
    return !views.empty();
  }

  const DumpContext& context_;
  QueuePairWalk walk_;
};

}  // namespace

const char* QpStateName(transport::QpState state) {
  static constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return kNames[static_cast<size_t>(state)];
}

void RunByOwners(Nic& nic, std::span<const FoundQueuePair> found,
                 absl::FunctionRef<void(size_t index)> look) {
  std::map<datapath::Worker*, std::vector<size_t>> of_worker;
  for (size_t index = 0; index < found.size(); ++index) {
    of_worker[&nic.OwnerOf(found[index].object->queue_pair)].push_back(index);
  }
  for (const auto& [worker, its] : of_worker) {
    worker->Run([&its = its, look] {
      for (const size_t index : its) look(index);
    });
  }
}

QueuePairWalk::QueuePairWalk(const DumpContext& context, const Client& asker, bool of_all)
    : context_(context), asker_(asker), of_all_(of_all) {}

std::vector<FoundQueuePair> QueuePairWalk::Find(uint32_t most) {
  std::vector<FoundQueuePair> found;
  found.reserve(most);
  for (const Client* client : context_.clients()) {
    if (client->id() < client_) continue;
    const bool is_shown = client->program() != nullptr && (of_all_ || asker_.MaySee(*client));
    if (is_shown) {
      if (client->id() != client_) {
        in_targets_ = false;
        handle_ = 0;
      }
      client_ = client->id();
      bool has_more = true;
      while (has_more && found.size() < most) {
        has_more = TakeSome(*client, most - static_cast<uint32_t>(found.size()), found);
      }
      if (found.size() >= most) break;
    }
    client_ = client->id() + 1;
    in_targets_ = false;
    handle_ = 0;
  }
  return found;
}

bool QueuePairWalk::TakeSome(const Client& client, uint32_t room,
                             std::vector<FoundQueuePair>& found) {
  Program& program = *client.program();
  if (handle_ == UROCE_NONE && in_targets_) return false;
  if (handle_ == UROCE_NONE) {
    in_targets_ = true;
    handle_ = 0;
  }
  if (!in_targets_) {
    handle_ = program.queue_pairs().table().ForSome(
        handle_, room, [&](uint32_t, const QueuePairObject& object) {
          found.push_back({.client = &client, .object = &object});
        });
    return true;
  }
  // A target is shown once, for the first program that has it open.
  handle_ =
      program.xrc().targets().ForSome(handle_, room, [&](uint32_t, const OpenedTarget& opened) {
        if (!seen_targets_.insert(opened.target->qpn().value()).second) return;
        found.push_back({.client = &client, .object = &opened.target->object()});
      });
  return true;
}

std::vector<QueuePairView> QueuePairWalk::Next() {
  const std::vector<FoundQueuePair> found = Find(kQueuePairsPerPiece);
  std::vector<QueuePairView> views;
  views.reserve(found.size());
  for (const FoundQueuePair& each : found) {
    views.push_back({.client = each.client, .object = each.object});
  }
  RunByOwners(context_.nic, found, [&views](size_t index) { Look(views[index]); });
  return views;
}

std::unique_ptr<DumpSource> MakeQueuePairsDump(const DumpContext& context, const Client& asker) {
  return std::make_unique<QueuePairsSource>(context, asker);
}

namespace {

double Micros(Nanos time) { return static_cast<double>(time.count()) / 1000; }
uint64_t WholeBps(double bps) { return static_cast<uint64_t>(std::llrint(bps)); }
double Thousandths(double value) { return std::round(value * 1000) / 1000; }

/// What is not measured is left out.
Json FlowJson(const QueuePairView& view) {
  const FlowView& flow = view.flow;
  Json json;
  json["device"] = view.object->device->name();
  json["pid"] = view.client->peer().pid;
  json["program"] = view.client->command_name();
  json["qpn"] = view.object->queue_pair.qpn().value();
  json["remote"] = view.path.remote_qpn == Qpn() ? "" : FormatAddress(view.path.destination);
  json["priority"] = view.priority;
  json["profile"] = congestion::NameOf(view.profile);
  if (flow.limit_bps != 0) json["limit_bps"] = WholeBps(flow.limit_bps);
  if (flow.is_limited) {
    json["rate_bps"] = WholeBps(flow.rate_bps);
    json["target_bps"] = WholeBps(flow.target_bps);
    json["alpha"] = Thousandths(flow.alpha);
  }
  if (flow.window_packets != 0) json["window_packets"] = flow.window_packets;
  if (flow.round_trip != Nanos(0)) {
    json["round_trip_us"] = Micros(flow.round_trip);
    json["shortest_us"] = Micros(flow.shortest_round_trip);
    json["target_us"] = Micros(flow.target_round_trip);
  }
  json["cnps_handled"] = flow.cnps_handled;
  json["cnps_sent"] = flow.cnps_sent;
  json["sent_bytes"] = view.traffic.sent_bytes;
  return json;
}

/// A queue pair that has no peer, and has sent no datagram, is no flow.
bool IsFlow(const QueuePairView& view) {
  return view.path.remote_qpn != Qpn() || view.traffic.sent_packets != 0;
}

class FlowsSource : public ListSource {
 public:
  FlowsSource(const DumpContext& context, const Client& asker)
      : ListSource("flows"), walk_(context, asker, /*of_all=*/false) {}

 private:
  bool AppendItems(std::string& text) override {
    const std::vector<QueuePairView> views = walk_.Next();
    for (const QueuePairView& view : views) {
      if (IsFlow(view)) AddItem(text, FlowJson(view));
    }
    return !views.empty();
  }

  QueuePairWalk walk_;
};

/// The profile of each priority, under its number.
void AddPriorities(const DeviceConfig& device, Json& json) {
  const auto settings = CongestionOfPriorities(device);
  for (size_t priority = 0; priority < settings.size(); ++priority) {
    json[std::to_string(priority)] = congestion::NameOf(settings[priority].profile);
  }
}

}  // namespace

std::unique_ptr<DumpSource> MakeFlowsDump(const DumpContext& context, const Client& asker) {
  return std::make_unique<FlowsSource>(context, asker);
}

Json CongestionSettingsJson(const Nic& nic) {
  Json list = Json::array();
  for (const auto& device : nic.devices()) {
    congestion::Settings settings = CongestionOf(device->config());
    Json json = {{"device", device->name()}, {"profile", congestion::NameOf(settings.profile)}};
    AddPriorities(device->config(), json);
    json["rate_bps"] = device->config().rate_bps;
    json["max_rate_per_user_bps"] = nic.config().limits.rate_per_user_bps;
    for (const congestion::Parameter& parameter : congestion::Parameters()) {
      json[std::string(parameter.name)] = parameter.of(settings);
    }
    list.push_back(std::move(json));
  }
  return {{"settings", list}};
}

}  // namespace uroce::nic
