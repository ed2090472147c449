// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/connection_dump.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nic/connections/negotiation_host.h"
#include "nic/connections/rdma_cm_host.h"
#include "nic/devices/nic_device.h"
#include "nic/dumps/object_dumps.h"
#include "nic/net/address.h"
#include "nic/objects/client.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;

const char* SpaceName(wire::PortSpace space) {
  switch (space) {
    case wire::PortSpace::kTcp:
      return "TCP";
    case wire::PortSpace::kUdp:
      return "UDP";
    case wire::PortSpace::kIb:
      return "IB";
    case wire::PortSpace::kIpoib:
      return "IPOIB";
  }
  return "";
}

const char* StateName(rdma_cm::State state) {
  static constexpr const char* kNames[] = {
      "IDLE",    "ADDR_QUERY", "ADDR_RESOLVED", "ROUTE_QUERY", "ROUTE_RESOLVED",
      "CONNECT", "DISCONNECT", "ADDR_BOUND",    "LISTEN",      "DEVICE_REMOVED"};
  return kNames[static_cast<size_t>(state)];
}

/// Returns the state of the connection once there is one: it says more.
std::string StateOf(const rdma_cm::EndpointInfo& info) {
  const bool connects =
      info.state == rdma_cm::State::kConnect || info.state == rdma_cm::State::kDisconnect;
  const bool is_datagram = info.qp_type == IBV_QPT_UD;
  return connects && !is_datagram ? std::string(cm::StateName(info.connection))
                                  : StateName(info.state);
}

std::string TextOf(const rdma_cm::SocketAddress& address) {
  if (address.port == 0 && cm::IsWildcard(address.address)) return "";
  if (cm::IsWildcard(address.address)) {
    return absl::StrCat(address.address.is_ipv4() ? "0.0.0.0:" : "[::]:", address.port);
  }
  const std::string host = FormatAddress(address.address);
  return address.address.is_ipv4() ? absl::StrCat(host, ":", address.port)
                                   : absl::StrCat("[", host, "]:", address.port);
}

Json EndpointJson(const Nic& nic, const Client& client, const rdma_cm::EndpointInfo& info) {
  const NicDevice* const device = info.device ? nic.DeviceAt(*info.device) : nullptr;
  return {{"device", device == nullptr ? "" : device->name()},
          {"pid", client.peer().pid},
          {"program", client.command_name()},
          {"space", SpaceName(info.space)},
          {"state", StateOf(info)},
          {"local", TextOf(info.local)},
          {"remote", TextOf(info.remote)},
          {"qpn", info.qpn.value()},
          {"remote_qpn", info.remote_qpn.value()},
          {"comm_id", info.comm_id.value()},
          {"remote_comm_id", info.remote_comm_id.value()}};
}

/// Dumps a snapshot of all endpoints.
class ConnectionsSource : public ListSource {
 public:
  ConnectionsSource(const DumpContext& context, const Client& asker)
      : ListSource("ids"), context_(context), asker_(asker) {
    context.rdma_cm.service().ForEach(
        [&](const rdma_cm::Owner& owner, rdma_cm::EndpointId, const rdma_cm::EndpointInfo& info) {
          if (asker.is_privileged() || owner.uid == asker.account()) {
            rows_.push_back({owner.client, info});
          }
        });
  }

 private:
  bool AppendItems(std::string& text) override {
    std::map<uint32_t, const Client*> by_id;
    for (const Client* client : context_.clients()) by_id[client->id()] = client;
    for (; next_ < rows_.size() && text.size() < kPieceBytes; ++next_) {
      const auto its = by_id.find(rows_[next_].client);
      if (its == by_id.end() || !asker_.MaySee(*its->second)) continue;
      AddItem(text, EndpointJson(context_.nic, *its->second, rows_[next_].info));
    }
    return next_ < rows_.size();
  }

  struct Row {
    uint32_t client;
    rdma_cm::EndpointInfo info;
  };

  const DumpContext& context_;
  const Client& asker_;
  std::vector<Row> rows_;
  size_t next_ = 0;
};

constexpr const char* kMessageNames[wire::kCmAttributeCount] = {
    "req", "mra", "rej", "rep", "rtu", "dreq", "drep", "sidr_req", "sidr_rep", "lap", "apr"};

}  // namespace

std::unique_ptr<DumpSource> MakeConnectionsDump(const DumpContext& context, const Client& asker) {
  return std::make_unique<ConnectionsSource>(context, asker);
}

Json ManagerJson(const RdmaCmHost& host) {
  const cm::Counters& counters = host.service().counters();
  Json json;
  for (size_t i = 0; i < wire::kCmAttributeCount; ++i) {
    json[absl::StrCat(kMessageNames[i], "_received")] = counters.received[i];
    json[absl::StrCat(kMessageNames[i], "_sent")] = counters.sent[i];
  }
  uint64_t malformed = 0;
  for (size_t i = 1; i < counters.decoded.size(); ++i) malformed += counters.decoded[i];
  json["malformed"] = malformed;
  json["retransmitted"] = counters.retransmitted;
  json["duplicates"] = counters.duplicates;
  json["unknown_id"] = counters.unknown_id;
  json["wrong_address"] = counters.wrong_address;
  json["wrong_state"] = counters.wrong_state;
  json["stale"] = counters.stale;
  json["no_listener"] = counters.no_listener;
  json["backlog_full"] = counters.backlog_full;
  json["over_rate"] = counters.over_rate;
  json["no_room"] = counters.no_room;
  json["unknown_class"] = host.gsi().counters().unknown_class;
  json["no_neighbour"] = host.gsi().counters().no_neighbour;
  json["send_queue_full"] = host.gsi().counters().no_room + host.service().unsent_dropped();
  return json;
}

namespace {

const char* StateName(peers::State state) {
  static constexpr const char* kNames[] = {"unknown", "answers", "refuses", "silent"};
  return kNames[static_cast<size_t>(state)];
}

Json PeerJson(const Nic& nic, const peers::PeerCapabilities& capabilities, uint32_t queue_pairs) {
  const peers::Key& key = capabilities.key;
  const bool was_heard = capabilities.heard_at != Nanos(0);
  Json json;
  const NicDevice* const device = nic.DeviceAt(key.device);
  json["device"] = device == nullptr ? "" : device->name();
  json["vlan"] = key.vlan_id;
  json["local"] = FormatAddress(key.local);
  json["remote"] = FormatAddress(key.remote);
  json["state"] = StateName(capabilities.state);
  json["agreed"] = capabilities.selective_repeat() ? "selective-repeat" : "";
  json["heard_ms_ago"] = Json();
  if (was_heard) json["heard_ms_ago"] = (Nic::Now() - capabilities.heard_at).count() / 1'000'000;
  json["restarts"] = capabilities.restarts;
  json["queue_pairs"] = queue_pairs;
  return json;
}

}  // namespace

Json PeersJson(const Nic& nic, const std::vector<const Client*>& clients) {
  std::map<peers::Holder, uint32_t> queue_pairs;
  for (const Client* client : clients) {
    if (client->program() == nullptr) continue;
    client->program()->queue_pairs().ForEach([&](const QueuePairObject& object) {
      if (object.capabilities != nullptr) ++queue_pairs[object.capabilities];
    });
  }
  Json list = Json::array();
  for (const auto& [capabilities, count] : queue_pairs) {
    list.push_back(PeerJson(nic, *capabilities, count));
  }
  return {{"peers", list}};
}

Json PeerCountersJson(const NegotiationHost& peers) {
  const peers::Counters& counters = peers.counters();
  return {{"questions_sent", counters.questions_sent},
          {"questions_received", counters.questions_received},
          {"answers_sent", counters.answers_sent},
          {"answers_received", counters.answers_received},
          {"refusals_received", counters.refusals_received},
          {"unmatched", counters.unmatched},
          {"malformed", counters.malformed},
          {"over_rate", counters.over_rate},
          {"no_room", counters.no_room},
          {"fell_silent", counters.fell_silent}};
}

}  // namespace uroce::nic
