// SPDX-License-Identifier: Apache-2.0
#include "drivers/dpdk/flow_control.h"

#include <rte_ethdev.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace uroce::drivers {
namespace {

/// In the order of FlowControl.
constexpr std::array kModes = {RTE_ETH_FC_NONE, RTE_ETH_FC_RX_PAUSE, RTE_ETH_FC_TX_PAUSE,
                               RTE_ETH_FC_FULL};

}  // namespace

std::optional<FlowControl> ReadFlowControl(uint16_t port_id) {
  rte_eth_fc_conf conf{};
  if (rte_eth_dev_flow_ctrl_get(port_id, &conf) != 0) return std::nullopt;
  for (size_t i = 0; i < kModes.size(); ++i) {
    if (kModes[i] == conf.mode) return static_cast<FlowControl>(i);
  }
  return std::nullopt;
}

absl::Status WriteFlowControl(const DeviceArguments& arguments, uint16_t port_id,
                              FlowControl flow_control) {
  rte_eth_fc_conf conf{};
  int error = rte_eth_dev_flow_ctrl_get(port_id, &conf);
  conf.mode = kModes[static_cast<size_t>(flow_control)];
  if (error == 0) error = rte_eth_dev_flow_ctrl_set(port_id, &conf);
  if (error == 0) return absl::OkStatus();
  const std::string what =
      absl::StrCat("dev \"", arguments.name, "\": flow-control=", NameOf(flow_control), ": ");
  if (error == -ENOTSUP || error == -ENOSYS) {
    return absl::UnimplementedError(absl::StrCat(what, "the device has none, or not this mode"));
  }
  return absl::InternalError(absl::StrCat(what, std::strerror(-error)));
}

std::string EthtoolCommand(const std::string& interface, FlowControl flow_control) {
  const bool rx = flow_control == FlowControl::kRx || flow_control == FlowControl::kFull;
  const bool tx = flow_control == FlowControl::kTx || flow_control == FlowControl::kFull;
  return absl::StrCat("ethtool -A ", interface, " rx ", rx ? "on" : "off", " tx ",
                      tx ? "on" : "off");
}

PauseStatistic PauseStatisticOf(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  const auto has = [&](absl::string_view word) { return absl::StrContains(lower, word); };
  if (!has("pause") && !has("xoff") && !has("pfc")) return PauseStatistic::kNone;
  if (has("xon") || has("duration") || has("time")) return PauseStatistic::kNone;
  if (absl::StartsWith(lower, "rx")) return PauseStatistic::kReceived;
  return absl::StartsWith(lower, "tx") ? PauseStatistic::kSent : PauseStatistic::kNone;
}

void PauseCounts::Watch(uint16_t port_id) {
  port_id_ = port_id;
  received_.clear();
  sent_.clear();
  const int count = rte_eth_xstats_get_names(port_id, nullptr, 0);
  if (count <= 0) return;
  std::vector<rte_eth_xstat_name> names(static_cast<size_t>(count));
  if (rte_eth_xstats_get_names(port_id, names.data(), static_cast<unsigned>(count)) != count) {
    return;
  }
  for (size_t id = 0; id < names.size(); ++id) {
    const PauseStatistic kind = PauseStatisticOf(names[id].name);
    if (kind == PauseStatistic::kReceived) received_.push_back(id);
    if (kind == PauseStatistic::kSent) sent_.push_back(id);
  }
}

void PauseCounts::Add(uint16_t port_id, const std::vector<uint64_t>& ids,
                      std::optional<uint64_t>& sum) {
  std::vector<uint64_t> values(ids.size());
  const auto count = static_cast<unsigned>(ids.size());
  if (ids.empty() || rte_eth_xstats_get_by_id(port_id, ids.data(), values.data(), count) < 0) {
    return;
  }
  for (const uint64_t value : values) sum = sum.value_or(0) + value;
}

void PauseCounts::AddTo(PortCounters& counters) const {
  Add(port_id_, received_, counters.rx_pauses);
  Add(port_id_, sent_, counters.tx_pauses);
}

}  // namespace uroce::drivers
