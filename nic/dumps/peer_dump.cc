// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/peer_dump.h"

#include <map>
#include <nlohmann/json.hpp>

#include "nic/connections/peer_agreements.h"
#include "nic/net/address.h"
#include "nic/objects/client.h"
#include "nic/objects/program.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;

const char* StateName(peers::State state) {
  static constexpr const char* kNames[] = {"unknown", "answers", "refuses", "silent"};
  return kNames[static_cast<size_t>(state)];
}

Json AgreementJson(const Nic& nic, const peers::Agreement& agreement, uint32_t queue_pairs) {
  const peers::Key& key = agreement.key;
  const bool was_heard = agreement.heard_at != Nanos(0);
  Json json;
  const NicDevice* const device = nic.DeviceAt(key.device);
  json["device"] = device == nullptr ? "" : device->name();
  json["vlan"] = key.vlan_id;
  json["local"] = FormatAddress(key.local);
  json["remote"] = FormatAddress(key.remote);
  json["state"] = StateName(agreement.state);
  json["agreed"] = agreement.selective_repeat() ? "selective-repeat" : "";
  json["heard_ms_ago"] = Json();
  if (was_heard) json["heard_ms_ago"] = (Nic::Now() - agreement.heard_at).count() / 1'000'000;
  json["restarts"] = agreement.restarts;
  json["queue_pairs"] = queue_pairs;
  return json;
}

}  // namespace

Json PeersJson(const Nic& nic, const std::vector<const Client*>& clients) {
  std::map<peers::Holder, uint32_t> queue_pairs;
  for (const Client* client : clients) {
    if (client->program() == nullptr) continue;
    client->program()->queue_pairs().ForEach([&](const QueuePairObject& object) {
      if (object.agreement != nullptr) ++queue_pairs[object.agreement];
    });
  }
  Json list = Json::array();
  for (const auto& [agreement, count] : queue_pairs) {
    list.push_back(AgreementJson(nic, *agreement, count));
  }
  return {{"peers", list}};
}

Json PeerCountersJson(const PeerAgreements& peers) {
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
