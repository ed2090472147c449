// SPDX-License-Identifier: Apache-2.0
#include "nic/metrics/open_metrics.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;

const std::map<absl::string_view, const char*>& Helps() {
  static const auto* const helps = new std::map<absl::string_view, const char*>{
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

class Writer {
 public:
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
    AddLine(suffix_, labels, value);
  }
  /// `histogram` is as of HistogramJson; its values are multiplied by `unit`.
  void AddHistogram(const std::string& labels, const Json& histogram, double unit) {
    const Json& bounds = histogram.at("bounds");
    uint64_t count = 0;
    size_t bucket = 0;
    for (const Json& in_bucket : histogram.at("counts")) {
      count += in_bucket.get<uint64_t>();
      const std::string bound =
          bucket < bounds.size() ? absl::StrFormat("%.9g", bounds.at(bucket).get<double>() * unit)
                                 : "+Inf";
      AddLine("_bucket", absl::StrCat(labels, ",le=\"", bound, "\""), count);
      ++bucket;
    }
    AddLine("_count", labels, count);
    AddLine("_sum", labels, absl::StrFormat("%.12g", histogram.at("sum").get<double>() * unit));
  }
  std::string End() && { return std::move(text_) + "# EOF\n"; }

 private:
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
  template <typename Value>
  void AddLine(absl::string_view suffix, const std::string& labels, const Value& value) {
    absl::StrAppend(&text_, name_, suffix, labels.empty() ? "" : "{", labels,
                    labels.empty() ? "" : "}", " ", value, "\n");
  }

  std::string text_;
  std::string name_;
  const char* suffix_ = "";
};

std::string LabelOf(const char* label, const Json& object, const char* member) {
  const Json& value = object.at(member);
  return absl::StrCat(label, "=",
                      Quoted(value.is_string() ? value.get<std::string>() : value.dump()));
}

const char* HelpOf(const std::string& name) {
  const auto found = Helps().find(name);
  return found == Helps().end() ? name.c_str() : found->second;
}

/// A family for each counter, with a line for each device that has it.
void AddDevices(const Json& devices, Writer& writer) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::pair<std::string, uint64_t>>> families;
  for (const Json& device : devices) {
    const std::string label = LabelOf("device", device, "name");
    for (const auto& [name, value] : device.at("counters").items()) {
      if (!value.is_number_unsigned()) continue;
      if (!families.contains(name)) order.push_back(name);
      families[name].emplace_back(label, value.get<uint64_t>());
    }
  }
  for (const std::string& name : order) {
    writer.Begin(absl::StrCat("uroce_", name), name != "queue_pairs", HelpOf(name));
    for (const auto& [label, value] : families[name]) writer.Add(label, value);
  }
}

struct HistogramFamily {
  const char* member;
  const char* labels;  ///< Besides the device.
  const char* name;    ///< The family. Equal names follow each other.
  double unit;         ///< Of the numbers in the dump.
  const char* help;
};
constexpr HistogramFamily kHistogramFamilies[] = {
    {"completion_ns", "", "uroce_completion_seconds", 1e-9,
     "Time from the turn in which the worker takes a signaled work from its send queue to the turn "
     "in which it completes; the wait in the queue before is not part of it"},
    {"round_trip_ns", "", "uroce_round_trip_seconds", 1e-9,
     "Round trips of connections with selective repeat; each measures one packet at a time"},
    {"sent_bytes", ",direction=\"send\"", "uroce_message_bytes", 1,
     "Sizes of messages: works taken from send queues, and messages that a receive work has taken"},
    {"received_bytes", ",direction=\"receive\"", "uroce_message_bytes", 1, ""},
};

void AddHistograms(const Json& devices, Writer& writer) {
  absl::string_view family;
  for (const HistogramFamily& each : kHistogramFamilies) {
    if (family != each.name) writer.BeginHistogram(each.name, each.help);
    family = each.name;
    for (const Json& device : devices) {
      writer.AddHistogram(LabelOf("device", device, "name") + each.labels,
                          device.at("histograms").at(each.member), each.unit);
    }
  }
}

/// A family for a number of each fault, direction by direction.
void AddFaults(const Json& devices, Writer& writer) {
  bool has_begun = false;
  for (const Json& device : devices) {
    for (const auto& [member, direction] :
         {std::pair("fault_receive", "receive"), std::pair("fault_transmit", "transmit")}) {
      const auto faults = device.find(member);
      if (faults == device.end()) continue;
      if (!has_begun) writer.Begin("uroce_fault_frames", true, "Frames by what faults did to them");
      has_begun = true;
      for (const auto& [kind, count] : faults->items()) {
        writer.Add(absl::StrCat(LabelOf("device", device, "name"), ",direction=\"", direction,
                                "\",kind=", Quoted(kind)),
                   count.get<uint64_t>());
      }
    }
  }
}

struct WorkerFamily {
  const char* member;
  const char* name;
  bool is_counter;
  const char* help;
};
constexpr WorkerFamily kWorkerFamilies[] = {
    {"queue_pairs", "uroce_worker_queue_pairs", false, "Queue pairs of the worker"},
    {"port_rcv_packets", "uroce_worker_rcv_packets", true, "Packets that the worker received"},
    {"port_xmit_packets", "uroce_worker_xmit_packets", true, "Packets that the worker sent"},
    {"handed_over", "uroce_worker_handed_over_packets", true,
     "Packets that the worker handed to the owner of their queue pair"},
    {"turns", "uroce_worker_turns", true, "Turns of the worker's loop"},
};

void AddWorkers(const Json& workers, Writer& writer) {
  for (const WorkerFamily& family : kWorkerFamilies) {
    writer.Begin(family.name, family.is_counter, family.help);
    for (const Json& worker : workers) {
      writer.Add(LabelOf("worker", worker, "worker"), worker.at(family.member).get<uint64_t>());
    }
  }
  writer.Begin("uroce_worker_busy_seconds", true, "Time of the turns that found work");
  for (const Json& worker : workers) {
    writer.Add(LabelOf("worker", worker, "worker"), worker.at("busy_ms").get<double>() / 1000);
  }
  writer.BeginHistogram("uroce_worker_turn_seconds", "Lengths of the turns that found work");
  for (const Json& worker : workers) {
    writer.AddHistogram(LabelOf("worker", worker, "worker"), worker.at("histograms").at("turn_ns"),
                        1e-9);
  }
}

/// What all programs hold: frames, queue pairs, regions and so on.
void AddHeld(const Json& held, Writer& writer) {
  writer.Begin("uroce_objects", false, "Objects that exist, by kind");
  for (const auto& [kind, count] : held.items()) {
    writer.Add(absl::StrCat("kind=", Quoted(kind)), count.get<uint64_t>());
  }
}

struct ProgramFamily {
  const char* member;
  const char* name;
  const char* help;
};
constexpr ProgramFamily kProgramFamilies[] = {
    {"queue_pairs", "uroce_program_queue_pairs", "Queue pairs of the program"},
    {"sent_bytes", "uroce_program_sent_bytes", "Bytes sent by its queue pairs that exist"},
    {"received_bytes", "uroce_program_received_bytes",
     "Bytes received by its queue pairs that exist"},
};

void AddPrograms(const Json& programs, Writer& writer) {
  std::vector<const Json*> order;
  for (const Json& program : programs) order.push_back(&program);
  std::ranges::stable_sort(order, [](const Json* a, const Json* b) {
    return a->at("queue_pairs").get<uint64_t>() > b->at("queue_pairs").get<uint64_t>();
  });
  writer.Begin("uroce_programs", false, "Programs that are connected");
  writer.Add("", order.size());
  for (const ProgramFamily& family : kProgramFamilies) {
    writer.Begin(family.name, false, family.help);
    uint64_t rest = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const auto value = order[i]->at(family.member).get<uint64_t>();
      if (i >= kMaxProgramLabels) {
        rest += value;
        continue;
      }
      writer.Add(absl::StrCat(LabelOf("program", *order[i], "program"), ",",
                              LabelOf("pid", *order[i], "pid"), ",",
                              LabelOf("session", *order[i], "session")),
                 value);
    }
    if (order.size() > kMaxProgramLabels) {
      writer.Add("program=\"other\",pid=\"\",session=\"\"", rest);
    }
  }
}

}  // namespace

std::string OpenMetrics(const Json& statistics) {
  Writer writer;
  writer.Begin("uroce_build", false, "1, with the version of the daemon");
  writer.Add("version=\"" UROCE_VERSION "\"", 1);
  const Json& devices = statistics.at("devices");
  AddDevices(devices, writer);
  AddHistograms(devices, writer);
  AddFaults(devices, writer);
  AddWorkers(statistics.at("workers"), writer);
  AddHeld(statistics.at("held"), writer);
  AddPrograms(statistics.at("programs"), writer);
  return std::move(writer).End();
}

}  // namespace uroce::nic
