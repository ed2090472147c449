// SPDX-License-Identifier: Apache-2.0
#include "tools/capture/command.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tools/capture/output.h"
#include "tools/capture/recorder.h"
#include "tools/capture/rings.h"
#include "tools/client/command_line.h"
#include "tools/client/control_client.h"

namespace uroce::tools {

// ---- Limits ----

namespace {

constexpr uint64_t kKilobyteBytes = 1000;
constexpr double kNanosPerSecond = 1e9;
constexpr uint64_t kMaxValue = 1'000'000'000'000;  // No unit overflows.
constexpr double kMaxSeconds = 1e9;

absl::Status BadLimit(absl::string_view option, absl::string_view text, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(option, " ", text, ": ", reason));
}

bool ParseSeconds(absl::string_view text, uint64_t& duration_ns) {
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) || !(seconds > 0) || seconds > kMaxSeconds) return false;
  duration_ns = static_cast<uint64_t>(std::ceil(seconds * kNanosPerSecond));
  return true;
}

bool ParseCount(absl::string_view text, uint64_t unit, uint64_t& value) {
  uint64_t count = 0;
  if (!absl::SimpleAtoi(text, &count) || count == 0 || count > kMaxValue) return false;
  value = count * unit;
  return true;
}

bool Exceeds(uint64_t amount, uint64_t limit) { return limit != 0 && amount >= limit; }

}  // namespace

absl::Status AddLimit(absl::string_view option, absl::string_view text, CaptureLimits& limits) {
  const size_t colon = text.find(':');
  const absl::string_view word = text.substr(0, colon);
  const absl::string_view value = colon == text.npos ? "" : text.substr(colon + 1);
  bool good = false;
  if (word == "filesize") {
    good = ParseCount(value, kKilobyteBytes, limits.bytes);
  } else if (word == "packets") {
    good = ParseCount(value, 1, limits.packets);
  } else if (word == "files") {
    good = ParseCount(value, 1, limits.files);
  } else if (word == "duration") {
    good = ParseSeconds(value, limits.duration_ns);
  } else {
    return BadLimit(option, text, "is none of filesize:KB, duration:SECONDS, packets:N, files:N");
  }
  if (!good) return BadLimit(option, text, "wants a number above 0 behind the colon");
  return absl::OkStatus();
}

bool BoundsOneFile(const CaptureLimits& limits) {
  return limits.bytes != 0 || limits.packets != 0 || limits.duration_ns != 0;
}

bool IsReached(const CaptureLimits& limits, const CaptureAmount& amount) {
  return Exceeds(amount.bytes, limits.bytes) || Exceeds(amount.packets, limits.packets) ||
         Exceeds(amount.duration_ns, limits.duration_ns);
}

// ---- Flags ----

namespace {

/// Has the flag take words instead of the numbers that they stand for.
void TakeOneOf(Flag flag, const std::map<std::string, uint32_t>& words, const std::string& named) {
  const auto to_number = [words, named](std::string& word) {
    const auto found = words.find(word);
    if (found == words.end()) return word + " is none of " + named;
    word = std::to_string(found->second);
    return std::string();
  };
  flag.Transform(to_number, absl::StrCat("{", absl::StrReplaceAll(named, {{", ", ","}}), "}"));
}

}  // namespace

void AddCaptureFlags(const Command& app, CaptureOptions& options) {
  app.AddValue("-s,--snap-length", options.snap_length_bytes,
               "Bytes kept of each frame (default 0: all)")
      .Check(0, 65536);
  TakeOneOf(app.AddValue("-Q,--direction", options.directions, "in, out or inout (default)"),
            {{"in", UROCE_CAPTURE_INBOUND},
             {"out", UROCE_CAPTURE_OUTBOUND},
             {"inout", UROCE_CAPTURE_INBOUND | UROCE_CAPTURE_OUTBOUND}},
            "in, out, inout");
  const auto add_kinds = [&options](const std::vector<uint32_t>& kinds) {
    for (const uint32_t kind : kinds) options.only |= kind;
  };
  Flag only = app.AddNumbers(
      "--only", add_kinds,
      "Only frames that were dropped, retransmitted or marked (several: joined by ',')");
  only.Delimiter(',').TakeOneWord();  // The filter comes next.
  TakeOneOf(only,
            {{"dropped", UROCE_CAPTURE_DROPPED},
             {"retransmitted", UROCE_CAPTURE_RETRANSMITTED},
             {"marked", UROCE_CAPTURE_MARKED}},
            "dropped, retransmitted, marked");
  app.AddValue("--ring-bytes", options.ring_bytes,
               "Memory in which packets wait for this program (default: 64 MiB)")
      .Check(uint64_t{1} << 16, uint64_t{1} << 32);
}

// ---- A run ----

namespace {

constexpr uint32_t kWholeFrameBytes = 65536;

volatile sig_atomic_t g_interrupted = 0;

// A signal that comes after the last look at `g_interrupted` and before a write ends none that
// blocks: a SIGALRM each second does.
void OnSignal(int) {
  g_interrupted = 1;
  alarm(1);
}

/// Installs handlers without SA_RESTART, so that a signal also ends a blocked write to a pipe.
void CatchSignals() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGALRM}) sigaction(signal, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

/// A mapping of the capture's memory, unmapped by the destructor.
class Mapping {
 public:
  Mapping(int fd, uint64_t length_bytes)
      : length_bytes_(length_bytes),
        data_(mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (valid()) munmap(data_, length_bytes_);
  }
  bool valid() const { return data_ != MAP_FAILED; }
  uint8_t* data() const { return static_cast<uint8_t*>(data_); }

 private:
  uint64_t length_bytes_;
  void* data_;
};

bool IsRing(const CaptureOptions& options) { return BoundsOneFile(options.file_limits); }

absl::Status CheckOptions(const CaptureOptions& options) {
  if (IsRing(options) && options.file == "-") {
    return absl::InvalidArgumentError("-b: a ring wants files, not -w -");
  }
  if (IsRing(options)) return absl::OkStatus();
  if (options.file_limits.files != 0) {
    return absl::InvalidArgumentError("-b files: wants filesize, packets or duration beside it");
  }
  if (options.limits.files != 0) {
    return absl::InvalidArgumentError("-a files: wants a ring of files (-b)");
  }
  return absl::OkStatus();
}

absl::StatusOr<CaptureSession> Start(const std::string& socket_path,
                                     const CaptureOptions& options) {
  uroce_capture request{};
  if (options.device.size() >= sizeof(request.device)) {
    return absl::InvalidArgumentError(absl::StrCat("-d ", options.device, ": no such device"));
  }
  memcpy(request.device, options.device.data(), options.device.size());
  request.snap_length =
      options.snap_length_bytes == 0 ? kWholeFrameBytes : options.snap_length_bytes;
  request.ring_bytes = options.ring_bytes;
  request.only = options.only;
  return StartCapture(socket_path, request);
}

CaptureRings RingsOf(uint8_t* memory, const CaptureSession& session) {
  const uroce_capture_reply& reply = session.reply;
  std::vector<CaptureRing> rings;
  for (uint32_t i = 0; i < reply.ring_count; ++i) {
    uint8_t* const part = memory + reply.map_bytes / reply.ring_count * i;
    rings.emplace_back(reinterpret_cast<uroce_capture_page*>(part), part + reply.ring_offset,
                       reply.ring_bytes, static_cast<uint32_t>(session.interfaces.size()));
  }
  return CaptureRings(rings);
}

void Announce(const CaptureSession& session, const std::string& device) {
  std::string names = device;
  for (const uroce_capture_interface& interface : session.interfaces) {
    if (!device.empty()) break;
    absl::StrAppend(&names, names.empty() ? "" : ", ", interface.name);
  }
  fprintf(stderr, "uroce capture: capturing on %s, end with Ctrl-C\n", names.c_str());
}

void Summarize(const CaptureRecorder& recorder, const CaptureSession& session) {
  for (uint32_t i = 0; i < session.interfaces.size(); ++i) {
    const CaptureRecorder::InterfaceTotals totals = recorder.TotalsOf(i);
    if (totals.seen.sum() + totals.lost.sum() == 0) continue;
    fprintf(stderr, "uroce capture: %s: %s\n", session.interfaces[i].name,
            CaptureSummary(totals).c_str());
  }
  const uint64_t files = recorder.output().file_count();
  const std::string in_files = files > 1 ? absl::StrCat(" in ", files, " files") : "";
  fprintf(stderr, "uroce capture: %llu packets captured%s, %llu lost\n",
          static_cast<unsigned long long>(recorder.written_packets()), in_files.c_str(),
          static_cast<unsigned long long>(recorder.lost_packets()));
}

}  // namespace

absl::Status RunCapture(const std::string& socket_path, const CaptureOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  absl::StatusOr<PacketFilter> filter = PacketFilter::Compile(options.filter);
  if (!filter.ok()) return filter.status();
  const absl::StatusOr<CaptureSession> session = Start(socket_path, options);
  if (!session.ok()) return session.status();
  // Opened last: a capture that cannot start does not overwrite an older file.
  absl::StatusOr<CaptureOutput> output =
      CaptureOutput::Open(options.file, IsRing(options), options.file_limits.files);
  if (!output.ok()) return output.status();
  const Mapping mapping(session->memory.get(), session->reply.map_bytes);
  if (!mapping.valid()) return absl::ErrnoToStatus(errno, "cannot map the capture's memory");
  CatchSignals();
  if (!options.quiet) Announce(*session, options.device);
  CaptureRecorder recorder(RingsOf(mapping.data(), *session), *std::move(filter),
                           *std::move(output), options, *session);
  const absl::Status status = recorder.Run(g_interrupted);
  if (!options.quiet || recorder.lost_packets() != 0) Summarize(recorder, *session);
  return status;
}

}  // namespace uroce::tools
