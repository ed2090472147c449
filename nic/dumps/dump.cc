// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/dump.h"

#include <infiniband/verbs.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/capture/capture.h"
#include "nic/capture/packet_histories.h"
#include "nic/devices/nic_device.h"
#include "nic/devices/verbs_attributes.h"
#include "nic/dumps/config_dump.h"
#include "nic/dumps/connection_dump.h"
#include "nic/dumps/dump_stream.h"
#include "nic/dumps/object_dumps.h"
#include "nic/dumps/queue_pair_dump.h"
#include "nic/dumps/stat_dump.h"
#include "nic/net/address.h"
#include "nic/objects/client.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {
namespace {

/// Maps numbers of uroce_dump_what to the dumps that list objects. Each dump shows what `asker` may
/// see; `asker` outlives the dump.
struct ObjectDump {
  uint32_t what;
  std::unique_ptr<DumpSource> (*make)(const DumpContext& context, const Client& asker);
};
constexpr ObjectDump kObjectDumps[] = {
    {UROCE_DUMP_QP, MakeQueuePairsDump},
    {UROCE_DUMP_MR, MakeMemoryDump},
    {UROCE_DUMP_CM, MakeConnectionsDump},
    {UROCE_DUMP_SRQ, MakeSharedReceiveQueuesDump},
    {UROCE_DUMP_CC, MakeFlowsDump},
    {UROCE_DUMP_CQ, MakeCompletionQueuesDump},
    {UROCE_DUMP_PD, MakeProtectionDomainsDump},
    {UROCE_DUMP_CTX, MakeContextsDump},
};

using Json = nlohmann::ordered_json;

Json DeviceJson(const NicDevice& device) {
  const uroce_port_info port = PortAttributes(device.info());
  const drivers::PortInfo& info = device.info();
  Json json;
  json["name"] = device.name();
  json["driver"] = info.driver;
  json["interface"] = info.interface;
  json["kernel_drops_early"] = device.kernel().drops_early();
  json["link"] = info.link_up ? "up" : "down";
  json["speed_bps"] = info.speed_bps;
  if (device.config().rate_bps != 0) json["rate_bps"] = device.config().rate_bps;
  if (info.flow_control) json["flow_control"] = drivers::NameOf(*info.flow_control);
  json["mtu"] = info.mtu_bytes;
  json["active_mtu"] = MtuBytes(port.active_mtu);
  json["mac"] = FormatMac(info.mac);
  json["fault"] = device.config().fault.text;
  json["addresses"] = Json::array();
  for (const InterfaceAddress& address : device.gids().addresses()) {
    json["addresses"].push_back(FormatInterfaceAddress(address));
  }
  json["groups"] = Json::array();
  for (const auto& [group, joins] : device.groups().joined())
    json["groups"].push_back(FormatAddress(group));
  json["routes"] = Json::array();
  for (const Route& route : device.config().routes) json["routes"].push_back(FormatRoute(route));
  json["gids"] = Json::array();
  for (uint32_t index = 0; index < GidTable::kLength; ++index) {
    const std::optional<GidEntry> gid = device.gids().At(index);
    if (!gid) continue;
    json["gids"].push_back({{"index", index},
                            {"gid", FormatGid(gid->gid)},
                            {"address", FormatAddress(gid->gid)},
                            {"type", "RoCE v2"},
                            {"vlan", gid->vlan_id},
                            {"ifindex", device.InterfaceOf(gid->vlan_id)}});
  }
  return json;
}

Json DevicesJson(const Nic& nic) {
  Json list = Json::array();
  for (const auto& device : nic.devices()) list.push_back(DeviceJson(*device));
  return {{"devices", list},
          {"daemon", {{"version", UROCE_VERSION}, {"abi_version", UROCE_ABI_VERSION}}}};
}

std::vector<const Client*> Visible(const DumpContext& context, const Client& asker) {
  std::vector<const Client*> visible = context.clients();
  std::erase_if(visible, [&](const Client* client) { return !asker.MaySee(*client); });
  return visible;
}

std::unique_ptr<DumpSource> Whole(const Json& json) {
  return std::make_unique<TextSource>(JsonText(json));
}

class HistorySource : public DumpSource {
 public:
  HistorySource(std::vector<datapath::HistoryPacket> packets,
                const uroce_capture_interface& interface)
      : file_(std::move(packets), interface, "") {}
  bool Append(std::string& text) override { return file_.Append(text); }

 private:
  HistoryFile file_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DumpSource>> MakeDump(uint32_t what, const DumpContext& context,
                                                     const Client& asker) {
  for (const ObjectDump& dump : kObjectDumps) {
    if (dump.what == what) return dump.make(context, asker);
  }
  switch (what) {
    case UROCE_DUMP_DEVICES:
      return Whole(DevicesJson(context.nic));
    case UROCE_DUMP_STAT:
      return std::make_unique<StatSource>(context, asker);
    case UROCE_DUMP_PEERS:
      return Whole(PeersJson(context.nic, Visible(context, asker)));
    case UROCE_DUMP_SWITCH:
      return Whole(SwitchesJson(context.nic));
    case UROCE_DUMP_CONFIG:
      return Whole(ConfigJson(context.nic));
    case UROCE_DUMP_CC_SETTINGS:
      return Whole(CongestionSettingsJson(context.nic));
    default:
      return absl::InvalidArgumentError(absl::StrCat("there is no dump ", what));
  }
}

absl::StatusOr<std::unique_ptr<DumpSource>> MakeHistoryDump(Qpn qpn, const DumpContext& context,
                                                            const Client& asker) {
  Nic& nic = context.nic;
  if (nic.config().history_dir.empty()) {
    return absl::FailedPreconditionError("the daemon runs without --history-dir");
  }
  std::vector<datapath::HistoryPacket> packets;
  const QueuePairObject* object = nullptr;
  for (const Client* client : Visible(context, asker)) {
    if (client->program() == nullptr) continue;
    client->program()->queue_pairs().ForEach([&](const QueuePairObject& each) {
      if (each.queue_pair.qpn() == qpn) object = &each;
    });
  }
  if (object == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("there is no queue pair 0x", absl::Hex(qpn.value(), absl::kZeroPad6)));
  }
  nic.OwnerOf(object->queue_pair).Run([&] {
    const datapath::PacketHistory* const history = object->queue_pair.history();
    if (history != nullptr) packets = history->InOrder();
  });
  return std::make_unique<HistorySource>(std::move(packets), CaptureInterface(*object->device));
}

}  // namespace uroce::nic
