// SPDX-License-Identifier: Apache-2.0
#include "nic/metrics/open_metrics.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace uroce::nic {
namespace {

using HelpTable = absl::flat_hash_map<absl::string_view, const char*>;

const HelpTable& Helps() {
  static const auto* const helps = new HelpTable{
      {"port_rcv_packets", "RoCEv2 packets received"},
      {"port_rcv_bytes", "Bytes of these packets, with all headers"},
      {"port_xmit_packets", "RoCEv2 packets sent"},
      {"port_xmit_bytes", "Bytes of these packets, with all headers"},
      {"port_xmit_discards", "Frames that the port could not send"},
      {"port_rcv_missed", "Frames that the device had no room for"},
      {"port_rcv_damaged", "Frames that the device found damaged"},
      {"port_rcv_pauses", "Pause frames received"},
      {"port_xmit_pauses", "Pause frames sent"},
      {"link_downed", "How often the link went down"},
      {"multicast_rcv_packets", "Packets received for groups with members here"},
      {"multicast_xmit_packets", "Packets sent to multicast groups"},
      {"rx_not_roce", "Frames of other protocols, addresses or ports"},
      {"rx_malformed", "Packets with bad lengths, versions, fragments, options or pad"},
      {"rx_bad_opcode", "Packets with an opcode that is unknown or not of the service"},
      {"rx_icrc_encapsulated", "Packets with a wrong ICRC"},
      {"rx_bad_pkey", "Packets with a wrong partition key"},
      {"rx_unknown_qpn", "Packets for queue pairs that are not there"},
      {"rx_bad_address", "Packets that are not from the peer of their queue pair"},
      {"rx_bad_state", "Packets for queue pairs that cannot receive in their state"},
      {"rx_ghost", "Responses that nothing waits for"},
      {"rx_cross_worker_full", "Packets dropped because the owning worker was behind"},
      {"rx_kept_full", "Packets behind a missing one, without room to keep them"},
      {"rx_parked_full", "Packets without room behind a queue pair that waits for memory"},
      {"np_ecn_marked_roce_packets", "Packets received with an ECN mark"},
      {"np_cnp_sent", "Congestion notification packets sent"},
      {"rp_cnp_handled", "Congestion notification packets that slowed a flow down"},
      {"rp_cnp_ignored", "Congestion notification packets without effect"},
      {"roce_slow_restart", "Losses that slowed a flow down"},
      {"roce_slow_restart_cnps", "Of these, the losses that counted as a notification"},
      {"roce_slow_restart_trans", "Of these, the losses that gave a flow its first limit"},
      {"no_buffer", "Frames lost because no buffer was free"},
      {"sq_corrupt", "Send queues with impossible indices or entries"},
      {"rq_corrupt", "Receive queues with impossible indices or entries"},
      {"cq_overflow", "Completion queues that overflowed"},
      {"host_rcv_packets", "Frames received for the host stack of the port"},
      {"host_rcv_discards", "Of these, the frames without room on the way to it"},
      {"host_rcv_refused", "Of these, the frames that it did not take"},
      {"host_xmit_packets", "Frames sent by the host stack of the port"},
      {"host_xmit_discards", "Of these, the frames that could not be sent"},
      {"gsi_rcv_packets", "Management datagrams received"},
      {"gsi_rcv_discards", "Of these, the datagrams without room"},
      {"gsi_rcv_refused", "Of these, the datagrams that were refused"},
      {"gsi_xmit_packets", "Management datagrams sent"},
      {"gsi_xmit_discards", "Of these, the datagrams that could not be sent"},
      {"retransmitted_pkts", "Packets sent again"},
      {"packet_seq_err", "NAKs for a sequence error received"},
      {"implied_nak_seq_err", "Acknowledgements that implied a lost response"},
      {"local_ack_timeout_err", "Acknowledgement timers that expired"},
      {"tail_loss_probes", "Packets sent again before the acknowledgement timer expired"},
      {"credit_probes", "Messages begun beyond the credits of the responder"},
      {"rnr_nak_retry_err", "RNR NAKs received that did not exhaust the retries"},
      {"retry_exceeded_err", "Queue pairs that ran out of transport retries"},
      {"retry_rnr_exceeded_err", "Queue pairs that ran out of RNR retries"},
      {"req_cqe_error", "Completions with an error, of requests sent"},
      {"req_cqe_flush_error", "Completions flushed, of requests sent"},
      {"req_remote_invalid_request", "NAKs for an invalid request received"},
      {"req_remote_access_errors", "NAKs for a remote access error received"},
      {"rx_write_requests", "RDMA WRITE requests received"},
      {"rx_read_requests", "RDMA READ requests received"},
      {"rx_atomic_requests", "Atomic requests received"},
      {"duplicate_request", "Requests received again"},
      {"out_of_sequence", "Packets behind a missing one, dropped"},
      {"kept_out_of_order", "Packets behind a missing one, kept"},
      {"out_of_buffer", "Messages that found no receive work"},
      {"resp_remote_access_errors", "Requests refused because of their keys or addresses"},
      {"resp_local_length_error", "Messages longer than their receive work"},
      {"resp_cqe_error", "Completions with an error, of receive works"},
      {"resp_cqe_flush_error", "Completions flushed, of receive works"},
      {"qkey_viol", "Datagrams dropped because of their Q_Key"},
      {"dropped_messages", "Messages of UC and UD dropped although a receive work was there"},
      {"queue_pairs", "Queue pairs that exist"},
  };
  return *helps;
}

/// In quotes, as the value of a label.
std::string Quoted(absl::string_view text) {
  return absl::StrCat(
      "\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}), "\"");
}

/// A shape of histograms as the text has it: numbers are multiplied by `unit`.
struct Buckets {
  Buckets(const HistogramShape& shape, double of_unit) : unit(of_unit) {
    for (uint32_t bucket = 0; bucket < HistogramShape::kBounds; ++bucket) {
      labels[bucket] =
          absl::StrFormat("le=\"%.9g\"", static_cast<double>(shape.BoundOf(bucket)) * of_unit);
    }
    labels.back() = "le=\"+Inf\"";
  }
  double unit;
  std::array<std::string, HistogramShape::kBuckets> labels;
};

class Writer {
 public:
  Writer() { text_.reserve(kUsualBytes); }
  /// Begins a family of counters or gauges.
  void Begin(absl::string_view name, bool is_counter, absl::string_view help) {
    suffix_ = is_counter ? "_total" : "";
    BeginFamily(name, is_counter ? "counter" : "gauge", help);
  }
  void BeginHistogram(absl::string_view name, absl::string_view help) {
    BeginFamily(name, "histogram", help);
  }
  template <typename Value>
  void Add(const std::string& labels, Value value) {
    AddLine(suffix_, labels, "", value);
  }
  void AddHistogram(const std::string& labels, const HistogramSums& sums, const Buckets& buckets) {
    uint64_t count = 0;
    for (uint32_t bucket = 0; bucket < HistogramShape::kBuckets; ++bucket) {
      count += sums.counts[bucket];
      AddLine("_bucket", labels, buckets.labels[bucket], count);
    }
    AddLine("_count", labels, "", count);
    AddLine("_sum", labels, "",
            absl::StrFormat("%.12g", static_cast<double>(sums.sum) * buckets.unit));
  }
  std::string End() && {
    text_ += "# EOF\n";
    return std::move(text_);
  }

 private:
  static constexpr size_t kUsualBytes = 32 << 10;

  /// A name that ends in a unit, as OpenMetrics wants it, has that unit.
  void BeginFamily(absl::string_view name, absl::string_view type, absl::string_view help) {
    name_ = std::string(name);
    absl::StrAppend(&text_, "# TYPE ", name_, " ", type, "\n");
    for (const absl::string_view unit : {"bytes", "seconds"}) {
      if (absl::EndsWith(name_, absl::StrCat("_", unit))) {
        absl::StrAppend(&text_, "# UNIT ", name_, " ", unit, "\n");
      }
    }
    absl::StrAppend(&text_, "# HELP ", name_, " ", help, "\n");
  }
  /// `more` is a further label, or empty.
  template <typename Value>
  void AddLine(absl::string_view suffix, absl::string_view labels, absl::string_view more,
               const Value& value) {
    absl::StrAppend(&text_, name_, suffix);
    const char* const separator = labels.empty() || more.empty() ? "" : ",";
    if (!labels.empty() || !more.empty()) {
      absl::StrAppend(&text_, "{", labels, separator, more, "}");
    }
    absl::StrAppend(&text_, " ", value, "\n");
  }

  std::string text_;
  std::string name_;
  const char* suffix_ = "";
};

template <typename Value>
std::string Label(const char* label, const Value& value) {
  return absl::StrCat(label, "=", Quoted(absl::StrCat(value)));
}

const char* HelpOf(const char* name) {
  const auto found = Helps().find(name);
  return found == Helps().end() ? name : found->second;
}

/// A family for each counter, with a line for each device that has it.
void AddDevices(const std::vector<DeviceSnapshot>& devices, Writer& writer) {
  struct Family {
    const char* name;
    std::vector<std::pair<size_t, uint64_t>> values;  ///< By the number of the device.
  };
  std::vector<Family> families;
  std::vector<std::string> labels;
  absl::flat_hash_map<absl::string_view, size_t> places;
  for (const DeviceSnapshot& device : devices) {
    for (const NamedCount& counter : device.counters) {
      const auto [place, is_new] = places.try_emplace(counter.name, families.size());
      if (is_new) families.push_back({counter.name, {}});
      families[place->second].values.emplace_back(labels.size(), counter.value);
    }
    labels.push_back(Label("device", device.name));
  }
  for (const Family& family : families) {
    const bool is_counter = absl::string_view(family.name) != "queue_pairs";
    writer.Begin(absl::StrCat("uroce_", family.name), is_counter, HelpOf(family.name));
    for (const auto& [device, value] : family.values) writer.Add(labels[device], value);
  }
}

struct HistogramFamily {
  HistogramSums DeviceSnapshot::*sums;
  const char* labels;  ///< Besides the device.
  const char* name;    ///< The family. Equal names follow each other.
  const char* help;
  Buckets buckets;
};
const std::vector<HistogramFamily>& HistogramFamilies() {
  static const auto* const families = new std::vector<HistogramFamily>{
      {&DeviceSnapshot::completion_ns, "", "uroce_completion_seconds",
       "Time from the turn in which the worker takes a signaled work from its send queue to the "
       "turn in which it completes; the wait in the queue before is not part of it",
       Buckets(LatencyHistogram::kShape, 1e-9)},
      {&DeviceSnapshot::round_trip_ns, "", "uroce_round_trip_seconds",
       "Round trips of connections with selective repeat; each measures one packet at a time",
       Buckets(LatencyHistogram::kShape, 1e-9)},
      {&DeviceSnapshot::sent_bytes, ",direction=\"send\"", "uroce_message_bytes",
       "Sizes of messages: works taken from send queues, and messages that a receive work has "
       "taken",
       Buckets(SizeHistogram::kShape, 1)},
      {&DeviceSnapshot::received_bytes, ",direction=\"receive\"", "uroce_message_bytes", "",
       Buckets(SizeHistogram::kShape, 1)},
  };
  return *families;
}

void AddHistograms(const std::vector<DeviceSnapshot>& devices, Writer& writer) {
  absl::string_view name;
  for (const HistogramFamily& family : HistogramFamilies()) {
    if (name != family.name) writer.BeginHistogram(family.name, family.help);
    name = family.name;
    for (const DeviceSnapshot& device : devices) {
      writer.AddHistogram(Label("device", device.name) + family.labels, device.*family.sums,
                          family.buckets);
    }
  }
}

/// A family for a number of each fault, direction by direction.
void AddFaults(const std::vector<DeviceSnapshot>& devices, Writer& writer) {
  bool has_begun = false;
  for (const DeviceSnapshot& device : devices) {
    for (const auto& [faults, direction] : {std::pair(&device.fault_receive, "receive"),
                                            std::pair(&device.fault_transmit, "transmit")}) {
      for (const NamedCount& fault : *faults) {
        if (!has_begun)
          writer.Begin("uroce_fault_frames", true, "Frames by what faults did to them");
        has_begun = true;
        writer.Add(absl::StrCat(Label("device", device.name), ",direction=\"", direction, "\",",
                                Label("kind", fault.name)),
                   fault.value);
      }
    }
  }
}

struct WorkerFamily {
  uint64_t WorkerSnapshot::*value;
  const char* name;
  bool is_counter;
  const char* help;
};
constexpr WorkerFamily kWorkerFamilies[] = {
    {&WorkerSnapshot::queue_pairs, "uroce_worker_queue_pairs", false, "Queue pairs of the worker"},
    {&WorkerSnapshot::received_packets, "uroce_worker_rcv_packets", true,
     "Packets that the worker received"},
    {&WorkerSnapshot::sent_packets, "uroce_worker_xmit_packets", true,
     "Packets that the worker sent"},
    {&WorkerSnapshot::handed_over, "uroce_worker_handed_over_packets", true,
     "Packets that the worker handed to the owner of their queue pair"},
    {&WorkerSnapshot::turns, "uroce_worker_turns", true, "Turns of the worker's loop"},
    {&WorkerSnapshot::involuntary_switches, "uroce_worker_involuntary_switches", true,
     "Times that the kernel gave the worker's CPU to another thread"},
};

constexpr double kMicrosecond = 1e-6;

struct WorkerTime {
  uint64_t WorkerSnapshot::*milliseconds;
  const char* name;
  const char* help;
};
constexpr WorkerTime kWorkerTimes[] = {
    {&WorkerSnapshot::busy_ms, "uroce_worker_busy_seconds", "Time of the turns that found work"},
    {&WorkerSnapshot::cpu_ms, "uroce_worker_cpu_seconds", "Time that the worker was on a CPU"},
    {&WorkerSnapshot::cpu_wait_ms, "uroce_worker_cpu_wait_seconds",
     "Time that the worker was ready to run, but had no CPU"},
};

const Buckets& TurnBuckets() {
  static const auto* const turns = new Buckets(TurnHistogram::kShape, 1e-9);
  return *turns;
}

void AddWorkers(const std::vector<WorkerSnapshot>& workers, Writer& writer) {
  for (const WorkerFamily& family : kWorkerFamilies) {
    writer.Begin(family.name, family.is_counter, family.help);
    for (const WorkerSnapshot& worker : workers) {
      writer.Add(Label("worker", worker.index), worker.*family.value);
    }
  }
  for (const WorkerTime& time : kWorkerTimes) {
    writer.Begin(time.name, true, time.help);
    for (const WorkerSnapshot& worker : workers) {
      writer.Add(Label("worker", worker.index),
                 static_cast<double>(worker.*time.milliseconds) / 1000);
    }
  }
  writer.Begin("uroce_worker_longest_turn_seconds", false,
               "Length of the longest turn since the daemon began");
  for (const WorkerSnapshot& worker : workers) {
    writer.Add(Label("worker", worker.index),
               static_cast<double>(worker.longest_turn_us) * kMicrosecond);
  }
  writer.BeginHistogram("uroce_worker_turn_seconds", "Lengths of the turns that found work");
  for (const WorkerSnapshot& worker : workers) {
    writer.AddHistogram(Label("worker", worker.index), worker.turn_ns, TurnBuckets());
  }
}

void AddControl(const ControlSnapshot& control, Writer& writer) {
  writer.Begin("uroce_control_longest_turn_seconds", false,
               "Length of the control thread's longest turn since the daemon began");
  writer.Add("", static_cast<double>(control.longest_turn_us) * kMicrosecond);
  writer.BeginHistogram("uroce_control_turn_seconds",
                        "Lengths of the turns of the control thread, without its waits");
  writer.AddHistogram("", control.turn_ns, TurnBuckets());
}

void AddHeld(const std::vector<NamedCount>& held, Writer& writer) {
  writer.Begin("uroce_objects", false, "Objects that exist, by kind");
  for (const NamedCount& kind : held) writer.Add(Label("kind", kind.name), kind.value);
}

struct ProgramFamily {
  uint64_t ProgramSnapshot::*value;
  const char* name;
  const char* help;
};
constexpr ProgramFamily kProgramFamilies[] = {
    {&ProgramSnapshot::queue_pairs, "uroce_program_queue_pairs", "Queue pairs of the program"},
    {&ProgramSnapshot::sent_bytes, "uroce_program_sent_bytes",
     "Bytes sent by its queue pairs that exist"},
    {&ProgramSnapshot::received_bytes, "uroce_program_received_bytes",
     "Bytes received by its queue pairs that exist"},
};

void AddPrograms(const std::vector<ProgramSnapshot>& programs, Audience audience, Writer& writer) {
  std::vector<const ProgramSnapshot*> order;
  for (const ProgramSnapshot& program : programs) order.push_back(&program);
  std::ranges::stable_sort(order, [](const ProgramSnapshot* a, const ProgramSnapshot* b) {
    return a->queue_pairs > b->queue_pairs;
  });
  writer.Begin("uroce_programs", false, "Programs that are connected");
  writer.Add("", order.size());
  if (audience == Audience::kAnyUser) return;
  for (const ProgramFamily& family : kProgramFamilies) {
    writer.Begin(family.name, false, family.help);
    uint64_t rest = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const ProgramSnapshot& program = *order[i];
      if (i >= kMaxProgramLabels) {
        rest += program.*family.value;
        continue;
      }
      writer.Add(absl::StrCat(Label("program", program.name), ",", Label("pid", program.pid), ",",
                              Label("session", program.session)),
                 program.*family.value);
    }
    if (order.size() > kMaxProgramLabels) {
      writer.Add("program=\"other\",pid=\"\",session=\"\"", rest);
    }
  }
}

}  // namespace

std::string OpenMetrics(const Snapshot& snapshot, Audience audience) {
  Writer writer;
  writer.Begin("uroce_build", false, "1, with the version of the daemon");
  writer.Add("version=\"" UROCE_VERSION "\"", 1);
  AddDevices(snapshot.devices, writer);
  AddHistograms(snapshot.devices, writer);
  AddFaults(snapshot.devices, writer);
  AddWorkers(snapshot.workers, writer);
  AddControl(snapshot.control, writer);
  AddHeld(snapshot.held, writer);
  AddPrograms(snapshot.programs, audience, writer);
  return std::move(writer).End();
}

}  // namespace uroce::nic
