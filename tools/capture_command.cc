// SPDX-License-Identifier: Apache-2.0
#include "tools/capture_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/capture_ring.h"
#include "tools/control_client.h"
#include "tools/packet_filter.h"
#include "tools/pcapng_writer.h"

namespace uroce::tools {
namespace {

constexpr uint32_t kWholeFrameBytes = 65536;
constexpr uint64_t kRingBytes = 64ull << 20;
constexpr size_t kWriteBytes = 256 << 10;  // Written out when more than this waits.
// The daemon wakes nobody for a capture, so the ring is looked at this often. 64 MiB hold 5 ms of
// 100 Gb/s.
constexpr int kPollIntervalMs = 5;

volatile sig_atomic_t g_interrupted = 0;

void OnSignal(int) { g_interrupted = 1; }

/// Without SA_RESTART, so that a signal also ends a write to a pipe that nobody reads.
void CatchSignals() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

/// A mapping of the capture's memory, unmapped when it goes.
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

enum class [[nodiscard]] WriteResult : uint8_t{kOk, kReaderGone, kInterrupted, kFailed};

WriteResult WriteAll(int fd, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR && g_interrupted == 0) continue;
    if (written < 0 && errno == EINTR) return WriteResult::kInterrupted;
    if (written < 0 && errno == EPIPE) return WriteResult::kReaderGone;
    if (written < 0) return WriteResult::kFailed;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return WriteResult::kOk;
}

uint64_t WallClockNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

/// One capture from the ring to the file.
class Capture {
 public:
  Capture(CaptureRing ring, PacketFilter filter, const CaptureOptions& options,
          const CaptureSession& session, int file)
      : ring_(ring),
        filter_(std::move(filter)),
        options_(options),
        session_(session),
        file_(file),
        received_(session.interfaces.size()) {}

  absl::Status Run();
  uint64_t written_frames() const { return written_; }
  uint64_t lost_frames() const { return ring_.lost_frames(); }

 private:
  void WriteHead();
  absl::Status DrainRing();
  absl::Status Flush();
  absl::Status Wait();
  void WriteTail();

  CaptureRing ring_;
  PacketFilter filter_;
  const CaptureOptions& options_;
  const CaptureSession& session_;
  int file_;
  PcapngWriter writer_;
  std::vector<uint64_t> received_;  // Frames written, by interface.
  uint64_t written_ = 0;
  bool finished_ = false;
};

absl::Status Capture::Run() {
  WriteHead();
  absl::Status status;
  while (status.ok() && !finished_) {
    if (g_interrupted != 0) finished_ = true;  // What is in the ring by now is still written.
    status = DrainRing();
    if (status.ok()) status = Flush();
    if (status.ok() && !finished_) status = Wait();
  }
  if (!status.ok() && status.code() != absl::StatusCode::kUnavailable) return status;
  WriteTail();
  const absl::Status flushed = Flush();
  return status.ok() ? flushed : status;
}

void Capture::WriteHead() {
  writer_.AddSection("uroce " UROCE_VERSION);
  for (const uroce_capture_interface& interface : session_.interfaces) {
    writer_.AddInterface(interface, options_.snap_length_bytes);
  }
}

absl::Status Capture::DrainRing() {
  CapturedFrame frame;
  while (options_.max_frames == 0 || written_ < options_.max_frames) {
    const CaptureTakeResult result = ring_.Take(frame);
    if (result == CaptureTakeResult::kEmpty) return absl::OkStatus();
    if (result == CaptureTakeResult::kCorrupt) {
      return absl::DataLossError("the daemon wrote a bad record");
    }
    if (!filter_.Matches(frame.bytes, frame.wire_length_bytes)) continue;
    writer_.AddFrame(frame);
    ++received_[frame.interface_index];
    ++written_;
    if (writer_.bytes().size() < kWriteBytes) continue;
    if (absl::Status status = Flush(); !status.ok() || finished_) return status;
  }
  finished_ = true;
  return absl::OkStatus();
}

absl::Status Capture::Flush() {
  const WriteResult result = WriteAll(file_, writer_.bytes());
  writer_.Clear();
  switch (result) {
    case WriteResult::kOk:
      return absl::OkStatus();
    case WriteResult::kReaderGone:
    case WriteResult::kInterrupted:
      finished_ = true;
      return absl::OkStatus();
    case WriteResult::kFailed:
      return absl::ErrnoToStatus(errno, absl::StrCat("write ", options_.file));
  }
  return absl::InternalError("unknown write result");
}

absl::Status Capture::Wait() {
  pollfd fds[2] = {{session_.socket.get(), POLLIN, 0}, {file_, 0, 0}};
  if (poll(fds, 2, kPollIntervalMs) <= 0) return absl::OkStatus();
  // A pipe whose reader has gone reports POLLERR, also while no frame comes.
  if (fds[1].revents & (POLLERR | POLLHUP)) finished_ = true;
  if (fds[0].revents) return absl::UnavailableError("the daemon ended");
  return absl::OkStatus();
}

/// Losses are counted for the capture as a whole; they are booked on its first interface.
void Capture::WriteTail() {
  for (uint32_t i = 0; i < received_.size(); ++i) {
    writer_.AddStatistics(i, WallClockNs(), received_[i], i == 0 ? lost_frames() : 0);
  }
}

absl::StatusOr<UniqueFd> OpenOutput(const std::string& path) {
  if (path == "-" && isatty(STDOUT_FILENO)) {
    return absl::InvalidArgumentError("-w -: stdout is a terminal, pipe it into a program");
  }
  UniqueFd fd(path == "-" ? dup(STDOUT_FILENO)
                          : open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    return absl::InvalidArgumentError(absl::StrCat("-w ", path, ": ", strerror(errno)));
  }
  return fd;
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
  request.ring_bytes = kRingBytes;
  return StartCapture(socket_path, request);
}

void Announce(const CaptureSession& session, const std::string& device) {
  std::string names = device;
  for (const uroce_capture_interface& interface : session.interfaces) {
    if (!device.empty()) break;
    absl::StrAppend(&names, names.empty() ? "" : ", ", interface.name);
  }
  fprintf(stderr, "uroce capture: capturing on %s, end with Ctrl-C\n", names.c_str());
}

}  // namespace

absl::Status RunCapture(const std::string& socket_path, const CaptureOptions& options) {
  absl::StatusOr<PacketFilter> filter = PacketFilter::Compile(options.filter);
  if (!filter.ok()) return filter.status();
  const absl::StatusOr<CaptureSession> session = Start(socket_path, options);
  if (!session.ok()) return session.status();
  // Opened last: a capture that cannot start leaves an older file alone.
  const absl::StatusOr<UniqueFd> file = OpenOutput(options.file);
  if (!file.ok()) return file.status();
  const Mapping mapping(session->memory.get(), session->reply.map_bytes);
  if (!mapping.valid()) return absl::ErrnoToStatus(errno, "cannot map the capture's memory");
  CatchSignals();
  Announce(*session, options.device);
  Capture capture(
      CaptureRing(reinterpret_cast<uroce_capture_page*>(mapping.data()),
                  mapping.data() + session->reply.ring_offset, session->reply.ring_bytes,
                  static_cast<uint32_t>(session->interfaces.size())),
      *std::move(filter), options, *session, file->get());
  absl::Status status = capture.Run();
  fprintf(stderr, "uroce capture: %llu packets captured, %llu lost\n",
          static_cast<unsigned long long>(capture.written_frames()),
          static_cast<unsigned long long>(capture.lost_frames()));
  return status;
}

}  // namespace uroce::tools
