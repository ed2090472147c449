// SPDX-License-Identifier: Apache-2.0
// `uroce capture` and `uroce history`: packets as pcapng files.
#include "tools/commands/commands.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/capture/command.h"
#include "tools/capture/output.h"
#include "tools/client/command_line.h"
#include "tools/client/control_client.h"
#include "tools/commands/listings.h"

namespace uroce::tools {
namespace {

constexpr char kFileHelp[] = "File to write; - is stdout";

struct CaptureFlags {
  CaptureOptions options;
  uint64_t packets = 0;
  std::vector<std::string> ring_limits;
  std::vector<std::string> stop_limits;
  std::vector<std::string> filter_words;
};

int Capture(const std::string& socket_path, CaptureFlags& flags) {
  CaptureOptions& options = flags.options;
  for (const std::string& word : flags.filter_words) options.filter += word + " ";
  if (!options.filter.empty()) options.filter.pop_back();
  options.limits.packets = flags.packets;
  for (const std::string& text : flags.ring_limits) {
    if (absl::Status status = AddLimit("-b", text, options.file_limits); !status.ok()) {
      return Report(status);
    }
  }
  for (const std::string& text : flags.stop_limits) {
    if (absl::Status status = AddLimit("-a", text, options.limits); !status.ok()) {
      return Report(status);
    }
  }
  const absl::Status found = CheckDevice(socket_path, options.device, UROCE_DUMP_DEVICES);
  return Report(found.ok() ? RunCapture(socket_path, options) : found);
}

void AddCapture(const Command& app, Invocation& invocation) {
  const auto flags = std::make_shared<CaptureFlags>();
  const Command command =
      app.AddCommand("capture", "Write frames, both directions, to pcapng files, live");
  AddSocketFlag(command, invocation);
  command.AddValue("-w,--write", flags->options.file, kFileHelp).Require();
  command.AddValue("-d,--device", flags->options.device, "Only this device");
  AddCaptureFlags(command, flags->options);
  command.AddValue("-c,--count", flags->packets, "End after so many frames").Check(1);
  command
      .AddValue("-a,--autostop", flags->stop_limits,
                "End after duration:SECONDS, packets:N, filesize:KB or files:N")
      .TakeOneWord();
  command
      .AddValue("-b,--ring-buffer", flags->ring_limits,
                "Go on to a new file after filesize:KB, duration:SECONDS or packets:N; keep "
                "the newest files:N (may be given several times)")
      .TakeOneWord();
  command.AddValue("FILTER", flags->filter_words,
                   "libpcap expression (pcap-filter(7)), e.g. udp port 4791 and host 10.0.0.1");
  command.OnChosen(
      [flags, &invocation] { invocation.exit_status = Capture(invocation.SocketPath(), *flags); });
}

struct HistoryFlags {
  uint32_t qpn = 0;
  std::string file;
};

int WriteHistory(const std::string& socket_path, const HistoryFlags& flags) {
  const absl::StatusOr<std::string> bytes = FetchHistory(socket_path, flags.qpn);
  if (!bytes.ok()) return Report(bytes.status());
  absl::StatusOr<CaptureOutput> output = CaptureOutput::Open(flags.file, false, 0);
  if (!output.ok()) return Report(output.status());
  const volatile sig_atomic_t stopping = 0;
  std::span<const uint8_t> part{reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()};
  if (output->Write({&part, 1}, stopping) != WriteResult::kFailed) return 0;
  return Report(absl::DataLossError("write " + output->name() + ": " + strerror(errno)));
}

constexpr char kFormerName[] = "flight";

void AddHistory(const Command& app, Invocation& invocation, const std::string& name) {
  const auto flags = std::make_shared<HistoryFlags>();
  const Command command =
      app.AddCommand(name, "Write the packet history of a queue pair (uroced --history-dir)");
  const bool is_former = name == kFormerName;
  if (is_former) command.Hide();
  AddSocketFlag(command, invocation);
  command.AddValue("QPN", flags->qpn, "Its number, as `uroce qp` shows it")
      .Require()
      .Check(1, 0xffffff);
  command.AddValue("-w,--write", flags->file, kFileHelp).Require();
  command.OnChosen([flags, &invocation, is_former] {
    if (is_former) fputs("uroce: flight has the name history now\n", stderr);
    invocation.exit_status = WriteHistory(invocation.SocketPath(), *flags);
  });
}

}  // namespace

void AddCaptures(const Command& app, Invocation& invocation) {
  AddCapture(app, invocation);
  AddHistory(app, invocation, "history");
  AddHistory(app, invocation, kFormerName);
}

}  // namespace uroce::tools
