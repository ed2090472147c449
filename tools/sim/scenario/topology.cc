// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/scenario/topology.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "pipeline/os/amount.h"
#include "pipeline/os/suggestion.h"

namespace uroce::tools::sim {
namespace {

constexpr uint32_t kMostHosts = 16'384;
constexpr uint32_t kMostSwitches = 2'048;
constexpr uint64_t kMostRate = 1'600'000'000'000;
constexpr Nanos kMostDelay{10'000'000'000};
constexpr uint64_t kMostBuffer = 4'000'000'000;

// ---- the keys of links, switches and NICs ----

fabric::LinkConfig ReadLink(Section& section, const fabric::LinkConfig& usual,
                            const std::string& prefix = "") {
  fabric::LinkConfig link = usual;
  const auto key = [&](const char* name) { return prefix + name; };
  link.rate_bps = section.Amount(key("rate").c_str(), usual.rate_bps, 1'000'000, kMostRate);
  link.delay = section.Time(key("delay").c_str(), usual.delay, kMostDelay);
  link.loss = section.Number(key("loss").c_str(), usual.loss, 0, 1);
  return link;
}

fabric::EcnConfig ReadEcn(Section& section, const fabric::EcnConfig& usual) {
  if (!section.Has("ecn")) return usual;
  const std::string text = section.Text("ecn");
  if (text == "off") return {};
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (parts.size() == 3) {
    const auto low = ParseAmount(parts[0]), high = ParseAmount(parts[1]);
    const auto most = ParsePercent(parts[2]);
    if (low && high && most && *low <= *high && *high <= kMostBuffer) {
      return {.on = true,
              .min_bytes = static_cast<uint32_t>(*low),
              .max_bytes = static_cast<uint32_t>(*high),
              .max_probability = *most};
    }
  }
  section.Fail("ecn", absl::StrCat("\"", text,
                                   "\" is neither off nor MIN:MAX:PERCENT of bytes in "
                                   "the queue, such as 100K:400K:20%"));
  return usual;
}

/// What [switch] says of PFC. The thresholds of "on" depend on ports, which are known later.
struct SwitchKind {
  fabric::SwitchConfig config;
  bool finds_pfc = false;
};

void ReadPfc(Section& section, SwitchKind& kind) {
  if (!section.Has("pfc")) return;
  const std::string text = section.Text("pfc");
  kind.finds_pfc = text == "on";
  kind.config.pfc = {};
  if (text == "on" || text == "off") return;
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  const auto xoff = ParseAmount(parts.front());
  const auto xon = parts.size() == 2 ? ParseAmount(parts.back()) : xoff;
  if (parts.size() <= 2 && xoff && xon && *xon <= *xoff && *xoff <= kMostBuffer) {
    kind.config.pfc = {.on = true,
                       .xoff_bytes = static_cast<uint32_t>(*xoff),
                       .xon_bytes = static_cast<uint32_t>(*xon)};
    return;
  }
  section.Fail("pfc", absl::StrCat("\"", text,
                                   "\" is none of on, off, and XOFF:XON of bytes that "
                                   "came by a link, such as 100K:80K"));
}

SwitchKind ReadSwitch(Section section, const SwitchKind& usual) {
  SwitchKind kind = usual;
  kind.config.buffer_bytes =
      section.Amount("buffer", usual.config.buffer_bytes, 10'000, kMostBuffer);
  kind.config.ecn = ReadEcn(section, usual.config.ecn);
  ReadPfc(section, kind);
  section.Finish();
  return kind;
}

void ReadParameter(Section& section, const std::string& name, const std::string& value,
                   congestion::Settings& settings) {
  const congestion::Parameter* const parameter = congestion::FindParameter(name);
  if (parameter == nullptr) {
    std::vector<std::string> names;
    for (const congestion::Parameter& each : congestion::Parameters()) {
      names.emplace_back(each.name);
    }
    return section.Fail("cc", absl::StrCat("unknown parameter ", name, Suggestion(name, names)));
  }
  uint32_t number = 0;
  if (absl::SimpleAtoi(value, &number) && number >= parameter->least && number <= parameter->most) {
    parameter->of(settings) = number;
    return;
  }
  section.Fail("cc", absl::StrCat(name, ": \"", value, "\" is no number from ", parameter->least,
                                  " to ", parameter->most));
}

/// `cc = "dcqcn"`, or the table cc with profile and parameters, as in uroced.toml.
congestion::Settings ReadCongestion(Section& section, const congestion::Settings& usual) {
  const auto profile_of = [&](const std::string& name, congestion::Settings& settings) {
    congestion::Profile profile;
    if (congestion::ParseProfile(name, profile)) {
      settings = congestion::DefaultsOf(profile);
      return;
    }
    section.Fail("cc", absl::StrCat("\"", name, "\" is none of off, dcqcn, dcqcn-mlx, delay"));
  };
  congestion::Settings settings = usual;
  if (!section.Has("cc")) return settings;
  if (!section.IsTable("cc")) {
    profile_of(section.Text("cc"), settings);
    return settings;
  }
  Section table = section.Table("cc");
  const auto all = table.All();
  for (const auto& [key, value] : all) {
    if (key == "profile") profile_of(value, settings);
  }
  for (const auto& [key, value] : all) {
    if (key != "profile") ReadParameter(section, key, value, settings);
  }
  return settings;
}

/// The code of the local ACK timeout: the least that is not shorter than asked for.
uint8_t TimeoutCode(Nanos timeout) {
  uint8_t code = 1;
  while (code < 31 && transport::AckTimeout(code) < timeout) ++code;
  return code;
}

NicConfig ReadNic(Section& section, const NicConfig& usual) {
  NicConfig nic = usual;
  nic.congestion = ReadCongestion(section, usual.congestion);
  if (section.Has("notification_point")) {
    const bool is_on = section.Flag("notification_point", true);
    nic.congestion.np.np_enable = is_on ? 0xff : 0;
  }
  if (section.Has("reaction_point")) {
    const bool is_on = section.Flag("reaction_point", true);
    nic.congestion.rp.rp_enable = is_on ? 0xff : 0;
  }
  nic.selective_repeat = section.Flag("selective_repeat", usual.selective_repeat);
  const uint32_t mtu = section.Count("mtu", usual.mtu_bytes, 256, 4096);
  if ((mtu & (mtu - 1)) != 0) section.Fail("mtu", "must be 256, 512, 1024, 2048 or 4096");
  nic.mtu_bytes = mtu;
  nic.window_packets = section.Count("window", usual.window_packets, 1, 1u << 20);
  nic.max_rd_atomic = static_cast<uint8_t>(section.Count("reads", usual.max_rd_atomic, 1, 128));
  if (section.Has("ack_timeout")) {
    nic.timeout = TimeoutCode(section.Time("ack_timeout", Nanos(67'000'000)));
  }
  nic.retry_count = static_cast<uint8_t>(section.Count("retries", usual.retry_count, 0, 7));
  nic.reorder = section.Number("reorder", usual.reorder, 0, 1);
  nic.reorder_delay = section.Time("reorder_delay", usual.reorder_delay);
  return nic;
}

// ---- topologies ----

class Builder {
 public:
  explicit Builder(Section& scenario)
      : section_(scenario.Table("network")),
        nic_section_(scenario.Table("nic")),
        lower_(ReadSwitch(scenario.Table("switch"), {})),
        upper_(ReadSwitch(scenario.Table("upper_switch"), lower_)),
        link_(ReadLink(section_, {.rate_bps = 25'000'000'000, .delay = Nanos(1'000)})),
        trunk_(ReadLink(section_, link_, "trunk_")),
        nic_(ReadNic(nic_section_,
                     {.congestion = congestion::DefaultsOf(congestion::Profile::kDcqcn)})) {
    nic_section_.Finish();
  }

  Network Build() {
    using Maker = void (Builder::*)();
    static const std::vector<std::pair<std::string, Maker>> kMakers = {
        {"star", &Builder::MakeStar},
        {"dumbbell", &Builder::MakeDumbbell},
        {"parking-lot", &Builder::MakeParkingLot},
        {"ring", &Builder::MakeRing},
        {"leaf-spine", &Builder::MakeLeafSpine},
        {"fat-tree", &Builder::MakeFatTree},
        {"custom", &Builder::MakeCustom}};
    std::vector<std::string> names;
    for (const auto& [name, maker] : kMakers) names.push_back(name);
    (this->*kMakers[section_.Choice("topology", names)].second)();
    section_.Finish();
    FindPfc();
    return std::move(network_);
  }

 private:
  uint32_t AddSwitch(const std::string& name, bool is_upper = false) {
    const SwitchKind& kind = is_upper ? upper_ : lower_;
    network_.switches.push_back({name, kind.config});
    finds_pfc_.push_back(kind.finds_pfc);
    return static_cast<uint32_t>(network_.switches.size() - 1);
  }
  void AddHosts(uint32_t count, uint32_t at) {
    for (uint32_t i = 0; i < count; ++i) {
      network_.hosts.push_back({absl::StrCat("h", network_.hosts.size()), at, link_, nic_});
    }
  }
  void Join(uint32_t first, uint32_t second) { network_.trunks.push_back({first, second, trunk_}); }

  /// All hosts at one switch.
  void MakeStar() { AddHosts(section_.Count("hosts", 2, 2, kMostHosts), AddSwitch("s0")); }

  /// Two switches with `hosts` each, and a trunk between them.
  void MakeDumbbell() {
    const uint32_t hosts = section_.Count("hosts", 2, 1, kMostHosts / 2);
    for (const char* name : {"s0", "s1"}) AddHosts(hosts, AddSwitch(name));
    Join(0, 1);
  }

  /// Switches in a row with `hosts` each.
  void MakeParkingLot() {
    const uint32_t switches = section_.Count("switches", 4, 2, 256);
    const uint32_t hosts = section_.Count("hosts", 2, 1, 64);
    for (uint32_t i = 0; i < switches; ++i) AddHosts(hosts, AddSwitch(absl::StrCat("s", i)));
    for (uint32_t i = 0; i + 1 < switches; ++i) Join(i, i + 1);
  }

  /// Switches in a circle with `hosts` each.
  void MakeRing() {
    const uint32_t switches = section_.Count("switches", 5, 3, 255);
    const uint32_t hosts = section_.Count("hosts", 2, 1, 64);
    for (uint32_t i = 0; i < switches; ++i) AddHosts(hosts, AddSwitch(absl::StrCat("s", i)));
    for (uint32_t i = 0; i < switches; ++i) Join(i, (i + 1) % switches);
  }

  /// Each of `leaves` has `hosts`, and a trunk to each of `spines`.
  void MakeLeafSpine() {
    const uint32_t leaves = section_.Count("leaves", 4, 1, kMostSwitches / 2);
    const uint32_t spines = section_.Count("spines", 2, 1, kMostSwitches / 2);
    const uint32_t hosts = section_.Count("hosts", 8, 1, kMostHosts / leaves);
    for (uint32_t i = 0; i < leaves; ++i) AddHosts(hosts, AddSwitch(absl::StrCat("leaf", i)));
    for (uint32_t i = 0; i < spines; ++i) {
      const uint32_t spine = AddSwitch(absl::StrCat("spine", i), true);
      for (uint32_t leaf = 0; leaf < leaves; ++leaf) Join(leaf, spine);
    }
  }

  /// Three levels: pods of racks, whose switches (tor) have `uplinks` to aggregation switches of
  /// their pod, which have as many to core switches.
  void MakeFatTree() {
    const uint32_t pods = section_.Count("pods", 4, 1, 64);
    const uint32_t racks = section_.Count("racks_of_pod", 2, 1, 64);
    const uint32_t hosts = section_.Count("hosts_of_rack", 4, 1, 64);
    const uint32_t uplinks = section_.Count("uplinks", 2, 1, 16);
    if (pods * racks * hosts > kMostHosts) {
      section_.Fail("pods", absl::StrCat("more than ", kMostHosts, " hosts"));
    }
    for (uint32_t i = 0; i < pods * racks; ++i) AddHosts(hosts, AddSwitch(absl::StrCat("tor", i)));
    const uint32_t first_aggregation = pods * racks;
    for (uint32_t i = 0; i < pods * uplinks; ++i) {
      const uint32_t at = AddSwitch(absl::StrCat("aggregation", i), true);
      for (uint32_t rack = 0; rack < racks; ++rack) Join(i / uplinks * racks + rack, at);
    }
    const uint32_t first_core = first_aggregation + pods * uplinks;
    for (uint32_t i = 0; i < uplinks * uplinks; ++i) AddSwitch(absl::StrCat("core", i), true);
    for (uint32_t i = 0; i < pods * uplinks; ++i) {
      for (uint32_t up = 0; up < uplinks; ++up) {
        Join(first_aggregation + i, first_core + i % uplinks * uplinks + up);
      }
    }
  }

  /// [[network.switches]] and [[network.hosts]] by name, [[network.links]] between switches.
  void MakeCustom() {
    for (Section& each : section_.Tables("switches")) {
      AddSwitch(each.Text("name", absl::StrCat("s", network_.switches.size())),
                each.Flag("is_upper", false));
      each.Finish();
    }
    for (Section& each : section_.Tables("hosts")) {
      const uint32_t at = SwitchOf(each, each.Text("switch"), "switch");
      const std::string name = each.Text("name", absl::StrCat("h", network_.hosts.size()));
      network_.hosts.push_back({name, at, ReadLink(each, link_), nic_});
      each.Finish();
    }
    for (Section& each : section_.Tables("links")) {
      const std::vector<std::string> ends = each.Words("between");
      if (ends.size() != 2) each.Fail("between", "must be two switches");
      if (ends.size() != 2) return;
      network_.trunks.push_back({SwitchOf(each, ends[0], "between"),
                                 SwitchOf(each, ends[1], "between"), ReadLink(each, trunk_)});
      each.Finish();
    }
    if (network_.hosts.size() < 2) section_.Fail("hosts", "a network has two hosts at least");
  }

  uint32_t SwitchOf(Section& section, const std::string& name, const char* key) {
    for (uint32_t i = 0; i < network_.switches.size(); ++i) {
      if (network_.switches[i].name == name) return i;
    }
    section.Fail(key, absl::StrCat("there is no switch \"", name, "\""));
    if (network_.switches.empty()) AddSwitch("s0");
    return 0;
  }

  void FindPfc() {
    constexpr uint32_t kHeaders = 14 + 20 + 8 + 12 + 16 + 4;
    std::vector<uint32_t> ports(network_.switches.size());
    std::vector<fabric::LinkConfig> longest(ports.size(), {.rate_bps = 1});
    const auto count = [&](uint32_t at, const fabric::LinkConfig& link) {
      ++ports[at];
      if (link.rate_bps > longest[at].rate_bps) longest[at] = link;
    };
    for (const Network::Host& host : network_.hosts) count(host.switch_index, host.link);
    for (const Network::Trunk& trunk : network_.trunks) {
      count(trunk.first, trunk.link);
      count(trunk.second, trunk.link);
    }
    for (uint32_t i = 0; i < ports.size(); ++i) {
      if (!finds_pfc_[i]) continue;
      fabric::SwitchConfig& config = network_.switches[i].config;
      const uint32_t frame_bytes = nic_.mtu_bytes + kHeaders;
      config.pfc = fabric::LosslessPfc(config.buffer_bytes, ports[i], longest[i], frame_bytes);
      if (config.pfc.on) continue;
      const uint64_t least = fabric::LeastPfcShare(longest[i], frame_bytes) * ports[i];
      section_.Fail(
          "", absl::StrCat("the buffer of ", network_.switches[i].name, " is too small for PFC at ",
                           ports[i], " ports: ", least / 1000 + 1, "K will do"));
    }
  }

  Section section_;
  Section nic_section_;
  SwitchKind lower_;
  SwitchKind upper_;
  fabric::LinkConfig link_;
  fabric::LinkConfig trunk_;
  NicConfig nic_;
  Network network_;
  std::vector<bool> finds_pfc_;  ///< Of each switch: its thresholds depend on its ports.
};

uint32_t NamedHost(const Network& network, Section& section, const char* key,
                   absl::string_view name) {
  if (const auto host = FindHost(network, absl::StripAsciiWhitespace(name))) return *host;
  const std::string last = network.hosts.empty() ? "none" : network.hosts.back().name;
  section.Fail(key, absl::StrCat("there is no host \"", name, "\"; the last one is ", last));
  return 0;
}

fabric::LinkConfig& LinkOfCable(Network& network, uint32_t cable) {
  const size_t hosts = network.hosts.size();
  return cable < hosts ? network.hosts[cable].link : network.trunks[cable - hosts].link;
}

}  // namespace

std::optional<uint32_t> FindHost(const Network& network, absl::string_view name) {
  // Names of most hosts are their numbers.
  uint32_t number = 0;
  absl::string_view digits = name;
  if (absl::ConsumePrefix(&digits, "h") && absl::SimpleAtoi(digits, &number) &&
      number < network.hosts.size() && network.hosts[number].name == name) {
    return number;
  }
  for (uint32_t i = 0; i < network.hosts.size(); ++i) {
    if (network.hosts[i].name == name) return i;
  }
  return std::nullopt;
}

Network ReadNetwork(Section& scenario) {
  Network network = Builder(scenario).Build();
  for (Section& each : scenario.Tables("nic_of")) {
    for (const uint32_t host : HostsOf(network, each, "hosts")) {
      network.hosts[host].nic = ReadNic(each, network.hosts[host].nic);
    }
    each.Finish();
  }
  for (Section& each : scenario.Tables("link_of")) {
    const uint32_t cable = CableOf(network, each, "link");
    if (!each.errors().status().ok()) break;
    fabric::LinkConfig& link = LinkOfCable(network, cable);
    link = ReadLink(each, link);
    each.Finish();
  }
  return network;
}

std::vector<uint32_t> HostsOf(const Network& network, Section& section, const char* key) {
  std::vector<uint32_t> hosts;
  for (const std::string& word : section.Words(key)) {
    const std::vector<std::string> ends = absl::StrSplit(word, "..");
    const uint32_t first = NamedHost(network, section, key, ends.front());
    const uint32_t last = NamedHost(network, section, key, ends.back());
    if (ends.size() > 2 || first > last) section.Fail(key, absl::StrCat(word, " is no range"));
    for (uint32_t host = first; host <= last; ++host) hosts.push_back(host);
  }
  return hosts;
}

uint32_t HostOf(const Network& network, Section& section, const char* key) {
  return NamedHost(network, section, key, section.Text(key));
}

uint32_t CableOf(const Network& network, Section& section, const char* key) {
  const std::string text = section.Text(key);
  const std::vector<std::string> ends = absl::StrSplit(text, " - ");
  const std::string reversed = ends.size() == 2 ? ends[1] + " - " + ends[0] : "";
  const size_t cables = network.hosts.size() + network.trunks.size();
  for (uint32_t cable = 0; cable < cables; ++cable) {
    const std::string name = network.NameOfCable(cable);
    if (name == text || name == reversed) return cable;
  }
  section.Fail(key, absl::StrCat("there is no link \"", text,
                                 "\"; links are named by their ends, "
                                 "such as \"",
                                 cables == 0 ? "h0 - s0" : network.NameOfCable(0), "\""));
  return 0;
}

}  // namespace uroce::tools::sim
