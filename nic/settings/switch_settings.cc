// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/switch_settings.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "nic/settings/congestion_settings.h"
#include "nic/settings/port_settings.h"
#include "nic/settings/setting.h"
#include "pipeline/os/amount.h"
#include "pipeline/os/suggestion.h"

namespace uroce::nic {
namespace {

constexpr uint32_t kMostPorts = 64;
constexpr uint64_t kMinBuffer = 10'000;
constexpr uint64_t kMaxBuffer = 1'000'000'000;
constexpr absl::Duration kMaxDelay = absl::Seconds(1);
constexpr uint32_t kEthernetBytes = 18;  // Header and tag.

absl::Status Bad(absl::string_view key, absl::string_view value, absl::string_view right) {
  return absl::InvalidArgumentError(absl::StrCat(key, "=", value, ": ", right));
}

absl::Status SetRate(absl::string_view key, absl::string_view value, uint64_t& rate_bps) {
  if (ParseRate(value, rate_bps).ok()) return absl::OkStatus();
  return Bad(key, value, "a rate in bits per second from 1M to 400G, for example 10G");
}

absl::Status SetDelay(absl::string_view key, absl::string_view value, Nanos& delay) {
  absl::Duration parsed;
  const bool is_duration = absl::ParseDuration(value, &parsed);
  if (!is_duration || parsed < absl::ZeroDuration() || parsed > kMaxDelay) {
    return Bad(key, value, "a time with its unit from 0s to 1s, for example 10us");
  }
  delay = Nanos(absl::ToInt64Nanoseconds(parsed));
  return absl::OkStatus();
}

absl::Status SetBuffer(absl::string_view value, uint64_t& buffer_bytes) {
  const auto parsed = ParseAmount(value);
  if (!parsed || *parsed < kMinBuffer || *parsed > kMaxBuffer) {
    return Bad("buffer", value, "a number of bytes from 10K to 1G, for example 1M");
  }
  buffer_bytes = *parsed;
  return absl::OkStatus();
}

absl::Status SetEcn(absl::string_view value, fabric::EcnConfig& ecn) {
  ecn = {};
  if (value == "off") return absl::OkStatus();
  const std::vector<std::string> parts = absl::StrSplit(value, ':');
  if (parts.size() == 3) {
    const auto low = ParseAmount(parts[0]), high = ParseAmount(parts[1]);
    const auto most = ParsePercent(parts[2]);
    if (low && high && most && *low <= *high && *high <= kMaxBuffer) {
      ecn = {.on = true,
             .min_bytes = static_cast<uint32_t>(*low),
             .max_bytes = static_cast<uint32_t>(*high),
             .max_probability = *most};
      return absl::OkStatus();
    }
  }
  return Bad("ecn", value, "off, or MIN:MAX:PERCENT of bytes in the queue, such as 100K:400K:20%");
}

absl::Status SetPfc(absl::string_view value, PfcSettings& pfc) {
  pfc = {};
  if (value == "off") return absl::OkStatus();
  pfc.mode = PfcSettings::Mode::kOn;
  if (value == "on") return absl::OkStatus();
  pfc.mode = PfcSettings::Mode::kGiven;
  const std::vector<std::string> parts = absl::StrSplit(value, ':');
  const auto xoff = ParseAmount(parts.front());
  const auto xon = parts.size() == 2 ? ParseAmount(parts.back()) : xoff;
  if (parts.size() <= 2 && xoff && xon && *xon <= *xoff && *xoff <= kMaxBuffer) {
    pfc.xoff_bytes = static_cast<uint32_t>(*xoff);
    pfc.xon_bytes = static_cast<uint32_t>(*xon);
    return absl::OkStatus();
  }
  return Bad("pfc", value, "on, off, or XOFF:XON of bytes that came by a link, such as 100K:80K");
}

absl::Status SetNumber(absl::string_view key, absl::string_view value, uint32_t low, uint32_t high,
                       uint32_t& number) {
  if (absl::SimpleAtoi(value, &number) && number >= low && number <= high) return absl::OkStatus();
  return Bad(key, value, absl::StrCat("a whole number from ", low, " to ", high));
}

absl::Status SetOnOff(absl::string_view key, absl::string_view value, absl::string_view on,
                      absl::string_view off, bool& is_on) {
  is_on = value == on;
  if (is_on || value == off) return absl::OkStatus();
  return Bad(key, value, absl::StrCat("either ", on, " or ", off));
}

/// A key and its parser.
struct SwitchField {
  absl::string_view key;
  absl::Status (*set)(const std::string& value, SwitchSettings& settings);
};
constexpr SwitchField kSwitchFields[] = {
    {"name",
     [](const std::string& value, SwitchSettings& settings) {
       settings.name = value;
       return absl::OkStatus();
     }},
    {"ports",
     [](const std::string& value, SwitchSettings& settings) {
       return SetNumber("ports", value, 0, kMostPorts, settings.ports);
     }},
    {"rate",
     [](const std::string& value, SwitchSettings& settings) {
       return SetRate("rate", value, settings.link.rate_bps);
     }},
    {"delay",
     [](const std::string& value, SwitchSettings& settings) {
       return SetDelay("delay", value, settings.link.delay);
     }},
    {"buffer",
     [](const std::string& value, SwitchSettings& settings) {
       return SetBuffer(value, settings.config.buffer_bytes);
     }},
    {"ecn", [](const std::string& value,
               SwitchSettings& settings) { return SetEcn(value, settings.config.ecn); }},
    {"pfc", [](const std::string& value,
               SwitchSettings& settings) { return SetPfc(value, settings.pfc); }},
    {"link",
     [](const std::string& value, SwitchSettings& settings) {
       settings.neighbours = absl::StrSplit(value, '+');
       return absl::OkStatus();
     }},
    {"link-rate",
     [](const std::string& value, SwitchSettings& settings) {
       return SetRate("link-rate", value, settings.trunk_rate_bps.emplace());
     }},
    {"link-delay",
     [](const std::string& value, SwitchSettings& settings) {
       return SetDelay("link-delay", value, settings.trunk_delay.emplace());
     }},
    {"ip",
     [](const std::string& value, SwitchSettings& settings) {
       settings.addresses = value;
       return absl::OkStatus();
     }},
    {"mtu",
     [](const std::string& value, SwitchSettings& settings) {
       return SetNumber("mtu", value, kMinMtuBytes, kMaxMtuBytes, settings.mtu_bytes);
     }},
    {"selective-repeat",
     [](const std::string& value, SwitchSettings& settings) {
       return SetOnOff("selective-repeat", value, "on", "off", settings.selective_repeat);
     }},
    {"icrc", [](const std::string& value,
                SwitchSettings& settings) { return SetIcrc(value, settings.always_icrc); }},
};

absl::Status FinishSwitch(std::vector<SwitchSettings>& switches, size_t index) {
  SwitchSettings& own = switches[index];
  own.link.host_queue_bytes = HostQueueBytes(own.link.rate_bps);
  uint32_t ports = own.ports + static_cast<uint32_t>(own.neighbours.size());
  for (const SwitchSettings& other : switches) {
    ports += static_cast<uint32_t>(std::ranges::count(other.neighbours, own.name));
  }
  const auto pfc = PfcOf(own.pfc, own.config.buffer_bytes, ports, own.link, own.mtu_bytes);
  if (!pfc.ok()) return pfc.status();
  own.config.pfc = *pfc;
  return absl::OkStatus();
}

absl::Status CheckNeighbours(const std::vector<SwitchSettings>& switches,
                             const SwitchSettings& own) {
  std::vector<std::string> names;
  for (const SwitchSettings& each : switches) names.push_back(each.name);
  for (const std::string& neighbour : own.neighbours) {
    if (neighbour == own.name) return Bad("link", neighbour, "leads to the switch itself");
    if (std::ranges::count(names, neighbour) != 0) continue;
    return Bad("link", neighbour,
               absl::StrCat("there is no such switch", Suggestion(neighbour, names)));
  }
  return absl::OkStatus();
}

absl::Status SetChange(const std::string& key, const std::string& value, SwitchChange& change) {
  static const std::vector<std::string> keys = {"rate", "delay", "link", "buffer", "ecn", "pfc"};
  if (key == "rate") return SetRate(key, value, change.rate_bps.emplace());
  if (key == "delay") return SetDelay(key, value, change.delay.emplace());
  if (key == "link") return SetOnOff(key, value, "up", "down", change.is_up.emplace());
  if (key == "buffer") return SetBuffer(value, change.buffer_bytes.emplace());
  if (key == "ecn") return SetEcn(value, change.ecn.emplace());
  if (key == "pfc") return SetPfc(value, change.pfc.emplace());
  return Bad(key, value,
             absl::StrCat("unknown key", Suggestion(key, keys), "; known are ",
                          absl::StrJoin(keys, ", ")));
}

}  // namespace

fabric::LinkConfig SwitchSettings::trunk() const {
  return {.rate_bps = trunk_rate_bps.value_or(link.rate_bps),
          .delay = trunk_delay.value_or(link.delay)};
}

/// Large enough that the line does not become idle during a turn of a worker, and small enough that
/// a program's frames do not wait long in its own NIC.
uint32_t HostQueueBytes(uint64_t rate_bps) {
  constexpr uint64_t kShortest = 16'000;
  constexpr uint64_t kLongest = 1'000'000;
  const uint64_t of_100_us = rate_bps / 8 / 10'000;
  return static_cast<uint32_t>(std::clamp(of_100_us, kShortest, kLongest));
}

const std::vector<std::string>& SwitchKeys() {
  static const auto* const keys = [] {
    auto* made = new std::vector<std::string>{"cc", "cc.PARAMETER"};
    for (const SwitchField& field : kSwitchFields) made->emplace_back(field.key);
    return made;
  }();
  return *keys;
}

absl::Status SetSwitchField(const std::string& key, const std::string& value,
                            SwitchSettings& settings) {
  if (IsCongestionKey(key)) return SetCongestion(key, value, settings.congestion);
  for (const SwitchField& field : kSwitchFields) {
    if (field.key == key) return field.set(value, settings);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown key \"", key, "\"",
                                                 Suggestion(key, SwitchKeys()), "; the keys are ",
                                                 absl::StrJoin(SwitchKeys(), ", ")));
}

absl::Status FinishSwitches(std::vector<SwitchSettings>& switches) {
  for (size_t index = 0; index < switches.size(); ++index) {
    for (const absl::Status& status :
         {CheckNeighbours(switches, switches[index]), FinishSwitch(switches, index)}) {
      if (status.ok()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--switch: name=", switches[index].name, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<fabric::PfcConfig> PfcOf(const PfcSettings& pfc, uint64_t buffer_bytes,
                                        uint32_t ports, const fabric::LinkConfig& link,
                                        uint32_t mtu_bytes) {
  if (pfc.mode == PfcSettings::Mode::kOff) return fabric::PfcConfig{};
  if (pfc.mode == PfcSettings::Mode::kGiven) {
    return fabric::PfcConfig{.on = true, .xoff_bytes = pfc.xoff_bytes, .xon_bytes = pfc.xon_bytes};
  }
  const uint32_t frame_bytes = mtu_bytes + kEthernetBytes;
  const fabric::PfcConfig config = fabric::LosslessPfc(buffer_bytes, ports, link, frame_bytes);
  if (config.on) return config;
  return Bad(
      "pfc", "on",
      absl::StrCat("a buffer of ", buffer_bytes, " bytes is too small for ", ports,
                   " ports with this rate and delay; buffer=",
                   fabric::LeastPfcShare(link, frame_bytes) * ports / 1'000 + 1, "K will do"));
}

absl::StatusOr<SwitchChange> ParseSwitchChange(const std::string& text) {
  SwitchChange change;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    const std::vector<std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (pair.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", part, "\" is not KEY=VALUE, for example rate=1G"));
    }
    if (absl::Status status = SetChange(pair[0], pair[1], change); !status.ok()) return status;
  }
  return change;
}

}  // namespace uroce::nic
