# SPDX-License-Identifier: Apache-2.0
"""Bugs on purpose in whose memory is whose, and in who owns which number: name, file of nic, text
that stands there once, what replaces it."""

MUTATIONS = [
    ("shared-domain-with-copied-memory", "objects/domain.cc",
     "  if (!other.expired()) return nullptr;\n", "  if (false) return other.lock();\n"),
    ("copied-memory-not-held", "objects/regions.cc",
     "  memory->copied = (*pd)->domain->HoldCopiedMemory();\n"
     "  if (memory->copied != nullptr) return memory;\n",
     "  if ((*pd)->domain->HoldCopiedMemory() != nullptr) return memory;\n"),
    ("import-not-held", "objects/imports.cc",
     "AddPd(**context, domain, std::move(share));", "AddPd(**context, domain, nullptr);"),
    ("domains-of-one-number", "objects/domain.cc",
     "  } while (!held_.insert(last_).second);",
     "    held_.insert(last_);\n  } while (false);"),
    ("number-of-no-use-counts", "objects/numbers.cc",
     "  if (qpn != 0) ++counts_[worker];", "  ++counts_[worker];"),
    ("queue-pair-leaves-worker-0", "objects/numbers.cc",
     "  --counts_[OwnerOf(qpn, workers())];", "  --counts_[0];"),
    ("number-of-another-worker", "objects/numbers.cc",
     "FirstQpnOf(worker + 1, workers())", "FirstQpnOf(workers(), workers())"),
    ("new-queue-pairs-on-the-fullest", "objects/numbers.cc", "min_element", "max_element"),
    ("cqes-left-behind", "objects/cqe_moves.cc",
     "    if (ring.done < waiting) return false;\n", ""),
    ("all-cqes-in-one-turn", "control/served_program.cc",
     "constexpr uint32_t kCqesInAPiece = 2048;", "constexpr uint32_t kCqesInAPiece = 1u << 31;"),
    ("follower-without-the-right-holds-others-up", "objects/remapped_regions.cc",
     "        })) {\n      continue;\n", "        })) {\n      return replaced;\n"),
    ("any-file-of-proc-is-memory", "control/lent_file.cc",
     " && lseek(fd, kUpperHalf, SEEK_SET) == kUpperHalf &&\n         pwrite(fd, \"\", 0, 0) == 0;",
     ";"),
    ("page-map-is-memory", "control/lent_file.cc",
     " &&\n         pwrite(fd, \"\", 0, 0) == 0;", ";"),
]

# Settings and files of devices.
SETTINGS_MUTATIONS = [
    ("half-a-change-of-congestion-control", "settings/port_congestion.cc",
     "  CongestionConfig changed = config;\n", "  CongestionConfig& changed = config;\n"),
    ("priorities-counted-from-one", "devices/device_files.cc",
     "congestion::IsEnabled(mask, priority);", "congestion::IsEnabled(mask, priority + 1);"),
    ("priorities-enabled-by-no-profile", "devices/device_files.cc",
     "is_on && congestion::IsEnabled", "congestion::IsEnabled"),
    ("a-profile-of-all-priorities", "settings/port_congestion.cc",
     "own.value_or(ProfileOf(device))", "own ? ProfileOf(device) : ProfileOf(device)"),
    ("priorities-without-parameters", "settings/port_congestion.cc",
     "  for (const auto& [parameter, value] : config.parameters) "
     "parameter->of(settings) = value;\n",
     "  static_cast<void>(config);\n"),
    ("any-rate", "settings/amount.cc", "!parsed || *parsed < kMinRate || *parsed > kMaxRate",
     "!parsed || *parsed < kMinRate * 0 || *parsed > kMaxRate * 1000"),
]

# What watches the daemon is shown: files of counters, metrics, where they are served.
WATCH_MUTATIONS = [
    ("data-in-bytes", "devices/counter_files.cc", "kWordBytes = 4;", "kWordBytes = 1;"),
    ("unicast-below-zero", "devices/counter_files.cc", "packets - std::min(multicast, packets);",
     "packets - multicast;"),
    ("parts-of-sums-are-missing", "devices/counter_files.cc", "    used.erase(part);\n", ""),
    ("queue-pairs-are-a-counter", "devices/counter_files.cc", "used = {\"queue_pairs\"};",
     "used = {};"),
    ("port-0", "settings/listen_address.cc", " && port != 0 &&", " &&"),
    ("host-by-name", "settings/listen_address.cc",
     "!has_port || !IsNumericHost(host, is_bracketed)",
     "!has_port || (host.empty() && !IsNumericHost(host, is_bracketed))"),
    ("label-ends-early", "metrics/open_metrics.cc", "{\"\\\"\", \"\\\\\\\"\"}, ", ""),
    ("programs-without-a-bound", "metrics/open_metrics.cc", "if (i >= kMaxProgramLabels) {",
     "if (false) {"),
    ("smallest-programs-first", "metrics/open_metrics.cc",
     "a->queue_pairs > b->queue_pairs", "a->queue_pairs < b->queue_pairs"),
    ("gauge-is-a-counter", "metrics/open_metrics.cc",
     "absl::string_view(family.name) != \"queue_pairs\"", "true"),
]

# Ports that come and go.
PORT_MUTATIONS = [
    ("an-index-is-given-again", "devices/device_table.h",
     "    next_ = (device->index() + 1) % kIndices;\n", "    next_ = 0;\n"),
    ("a-held-device-is-released", "devices/device_table.h",
     "      if (device.use_count() != 1) return false;\n", ""),
    ("a-switch-has-any-number-of-ports", "settings/port_addition.cc",
     ".ports == its.ports) {", ".ports != 0) {"),
    ("nics-at-a-switch-have-any-key", "settings/nic_settings.cc",
     "key != \"name\" && key != \"ip\" && key != \"fault\"", "key.empty()"),
    ("an-added-wire-has-no-interfaces", "settings/config.cc", "  MarkWireInterfaces(next);\n", ""),
    ("a-wire-takes-one-place-of-two", "devices/device_table.h",
     "      if (!is_taken_[index % kSlots]) indices.push_back(index);\n",
     "      if (!is_taken_[index % kSlots]) indices.assign(count, index);\n"),
    ("an-exception-interface-is-forgotten", "settings/port_addition.cc",
     "  if (!device.exception.empty()) {\n    return", "  if (false) {\n    return"),
    ("programs-are-not-told-of-a-removed-port", "objects/nic.cc",
     "    program->contexts().RaisePortEvent(device, IBV_EVENT_DEVICE_FATAL);\n",
     "    static_cast<void>(program);\n"),
    ("a-port-event-is-lost-while-wake-ups-rest", "objects/contexts.cc",
     "{ context.port_events.Retry(); }", "{ context.port_events.has_pending(); }"),
    ("works-on-a-removed-port-are-not-flushed", "objects/nic.cc",
     "    workers_.at(worker).FailDevice(device.datapath());\n", ""),
    ("a-removed-port-takes-commands", "devices/nic_device.cc",
     "  if (!is_removed_) return absl::OkStatus();\n", "  if (!port_) return absl::OkStatus();\n"),
]

# What daemons see of each other: signs of addresses, the lock of the socket.
DAEMONS_MUTATIONS = [
    ("signs-that-nobody-misses", "net/address_signs.cc",
     "  std::erase_if(signs_, [&](const auto& sign) { return !places.contains(sign.first); });\n",
     ""),
    ("a-sign-looks-at-lower-numbers-alone", "net/address_signs.cc",
     "number < kNumbers; ++number", "number < kNumbers && !own; ++number"),
    ("an-address-is-one-on-all-interfaces", "net/address_signs.cc",
     "\"uroced/address/\", place.first, \"/\"", "\"uroced/address/\", 0, \"/\""),
    ("every-daemon-is-waited-for", "control/socket_lock.cc",
     "    if (served == kLooks) break;\n", ""),
    ("pending-signals-are-overlooked", "control/served_socket.cc",
     "    if ((pending & kEnds) != 0) return true;\n", ""),
    ("every-signal-is-an-end", "control/served_socket.cc", "(pending & kEnds) != 0",
     "pending != 0"),
    ("a-daemon-without-a-socket-is-served", "control/socket_lock.cc",
     "IsServed(socket_path) ? served + 1 : 0", "served + 1"),
]
