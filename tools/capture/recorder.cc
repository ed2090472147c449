// SPDX-License-Identifier: Apache-2.0
#include "tools/capture/recorder.h"

#include <pcap/pcap.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"

namespace uroce::tools {

// ---- The filter ----

namespace {

constexpr int kAnySnapLength = 262144;  // libpcap's own maximum.

struct ClosePcap {
  void operator()(pcap_t* pcap) const { pcap_close(pcap); }
};

}  // namespace

void PacketFilter::Free::operator()(bpf_program* program) const {
  pcap_freecode(program);
  delete program;
}

absl::StatusOr<PacketFilter> PacketFilter::Compile(const std::string& expression) {
  PacketFilter filter;
  if (expression.empty()) return filter;
  const std::unique_ptr<pcap_t, ClosePcap> pcap(pcap_open_dead(DLT_EN10MB, kAnySnapLength));
  auto program = std::make_unique<bpf_program>();
  if (pcap_compile(pcap.get(), program.get(), expression.c_str(), 1, PCAP_NETMASK_UNKNOWN) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("filter '", expression, "': ", pcap_geterr(pcap.get())));
  }
  filter.program_.reset(program.release());
  return filter;
}

bool PacketFilter::Matches(std::span<const uint8_t> frame, uint32_t wire_length_bytes) const {
  if (!program_) return true;
  pcap_pkthdr header{};
  header.caplen = static_cast<bpf_u_int32>(frame.size());
  header.len = wire_length_bytes;
  return pcap_offline_filter(program_.get(), &header, frame.data()) != 0;
}

// ---- Blocks that wait to be written together ----

namespace {

// From this size on, a copy costs more than one more part in writev.
constexpr size_t kLargeFrameBytes = 1024;

}  // namespace

void CaptureBatch::AddFrame(const capture::CapturedFrame& frame) {
  if (frame.bytes.size() < kLargeFrameBytes) return writer_.AddFrame(frame);
  writer_.AddFrameHead(frame);
  borrowed_.push_back({writer_.bytes().size(), frame.bytes});
  borrowed_bytes_ += frame.bytes.size();
  writer_.AddFrameTail(frame);
}

std::vector<std::span<const uint8_t>> CaptureBatch::Parts() const {
  std::vector<std::span<const uint8_t>> parts;
  parts.reserve(2 * borrowed_.size() + 1);
  const std::span<const uint8_t> own = writer_.bytes();
  size_t position = 0;
  for (const Borrowed& borrowed : borrowed_) {
    parts.push_back(own.subspan(position, borrowed.position - position));
    parts.push_back(borrowed.bytes);
    position = borrowed.position;
  }
  parts.push_back(own.subspan(position));
  return parts;
}

void CaptureBatch::Clear() {
  writer_.Clear();
  borrowed_.clear();
  borrowed_bytes_ = 0;
}

// ---- The recorder ----

namespace {

// A batch is written when it exceeds this: until then it stays in the cache, and a program that
// polls on this processor waits no longer than the batch takes to fill.
constexpr size_t kWriteBytes = 64 << 10;
constexpr uint64_t kHeldBytes = 1 << 20;                 // Of the ring: at most so much is kept.
constexpr std::chrono::milliseconds kEndPatience{2000};  // A healthy daemon answers at once.
// The daemon does not wake the tool for a capture, so the tool looks at the rings at this interval.
// 64 MiB hold 5 ms at 100 Gb/s.
constexpr int kPollIntervalMs = 5;
constexpr uint64_t kProgressIntervalNs = 1'000'000'000;

uint64_t ClockNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

using Amounts = CaptureRecorder::Amounts;
using InterfaceTotals = CaptureRecorder::InterfaceTotals;

Amounts Difference(const Amounts& now, const Amounts& before) {
  return {.sent = now.sent - before.sent, .received = now.received - before.received};
}

InterfaceTotals Difference(const InterfaceTotals& now, const InterfaceTotals& before) {
  return {.seen = Difference(now.seen, before.seen),
          .captured = Difference(now.captured, before.captured),
          .lost = Difference(now.lost, before.lost)};
}

void Count(const capture::CapturedFrame& frame, Amounts& amounts) {
  ++(frame.direction == UROCE_CAPTURE_INBOUND ? amounts.received : amounts.sent);
}

}  // namespace

std::string CaptureSummary(const CaptureRecorder::InterfaceTotals& totals) {
  return absl::StrCat("sent ", totals.captured.sent, " captured, ", totals.lost.sent,
                      " lost; received ", totals.captured.received, " captured, ",
                      totals.lost.received, " lost");
}

CaptureRecorder::CaptureRecorder(CaptureRings rings, PacketFilter filter, CaptureOutput output,
                                 const CaptureOptions& options, const CaptureSession& session)
    : rings_(std::move(rings)),
      filter_(std::move(filter)),
      output_(std::move(output)),
      options_(options),
      session_(session),
      totals_(session.interfaces.size()),
      at_file_(session.interfaces.size()),
      // The program that reads a pipe often prints to the same terminal.
      is_bounded_(BoundsOneFile(options.limits)),
      has_bounded_files_(BoundsOneFile(options.file_limits)),
      shows_progress_(!options.quiet && options.file != "-" && isatty(STDERR_FILENO) != 0) {}

absl::Status CaptureRecorder::Run(const volatile sig_atomic_t& stopping) {
  stopping_ = &stopping;
  now_ns_ = ClockNs(CLOCK_MONOTONIC);
  total_.duration_ns = now_ns_;
  next_progress_ns_ = now_ns_ + kProgressIntervalNs;
  BeginFile();
  absl::Status status;
  while (status.ok() && !finished_) {
    const bool is_last = stopping != 0;
    if (is_last) {
      EndCapture();
      rings_.LookAtRest();  // The frames in the rings are still written.
    } else {
      rings_.LookAgain(ClockNs(CLOCK_REALTIME));
    }
    status = Turn();
    finished_ |= is_last;
    if (status.ok() && !finished_) status = Wait();
  }
  ClearProgress();
  if (absl::IsUnavailable(status)) return EndWithout(status);
  return status.ok() ? EndFile() : status;  // After a failed write the file cannot be completed.
}

/// The daemon is gone: writes the frames that it left, and completes the file.
absl::Status CaptureRecorder::EndWithout(const absl::Status& daemon) {
  rings_.LookAtRest();
  absl::Status status = Turn();
  if (status.ok()) status = EndFile();
  return status.ok() ? absl::DataLossError(daemon.message()) : status;
}

absl::Status CaptureRecorder::Turn() {
  now_ns_ = ClockNs(CLOCK_MONOTONIC);
  absl::Status status = DrainRings();
  if (status.ok()) status = Flush();
  if (IsEnough()) finished_ = true;
  if (IsLastFile() && FileIsFull()) finished_ = true;
  if (shows_progress_ && now_ns_ >= next_progress_ns_) ShowProgress();
  return status;
}

/// Takes at most as much as the memory of the capture, so that a flood delays neither signals nor
/// time limits.
absl::Status CaptureRecorder::DrainRings() {
  capture::CapturedFrame frame;
  for (uint64_t taken_bytes = 0; taken_bytes < session_.reply.map_bytes;
       taken_bytes += sizeof(uroce_capture_record) + frame.bytes.size()) {
    const CaptureTakeResult result = rings_.Take(frame);
    if (result == CaptureTakeResult::kEmpty) return absl::OkStatus();
    if (result == CaptureTakeResult::kCorrupt) {
      return absl::DataLossError("the daemon wrote a bad record");
    }
    absl::Status status;
    if (IsWanted(frame)) {
      status = Record(frame);
    } else {
      Count(frame, totals_[frame.interface_index].seen);
    }
    if (!status.ok() || finished_) return status;
    if (batch_.bytes() >= kWriteBytes || rings_.held_bytes() >= kHeldBytes) status = Flush();
    if (!status.ok() || finished_) return status;
  }
  return absl::OkStatus();
}

bool CaptureRecorder::IsWanted(const capture::CapturedFrame& frame) const {
  return (frame.direction & options_.directions) != 0 &&
         filter_.Matches(frame.bytes, frame.wire_length_bytes);
}

absl::Status CaptureRecorder::Record(const capture::CapturedFrame& frame) {
  if (FileIsFull()) {
    finished_ = IsLastFile();
    if (finished_) return absl::OkStatus();
    if (absl::Status status = NextFile(); !status.ok() || finished_) return status;
  }
  batch_.AddFrame(frame);
  Count(frame, totals_[frame.interface_index].seen);
  Count(frame, totals_[frame.interface_index].captured);
  ++waiting_packets_;
  if (IsEnough()) finished_ = true;
  return absl::OkStatus();
}

bool CaptureRecorder::IsEnough() const {
  return is_bounded_ && IsReached(options_.limits, TotalAmount());
}

bool CaptureRecorder::FileIsFull() const {
  if (!has_bounded_files_) return false;
  const CaptureAmount amount = FileAmount();
  return amount.packets != 0 && IsReached(options_.file_limits, amount);
}

bool CaptureRecorder::IsLastFile() const {
  return options_.limits.files != 0 && output_.file_count() >= options_.limits.files;
}

CaptureAmount CaptureRecorder::FileAmount() const {
  return {.bytes = file_.bytes + batch_.bytes(),
          .packets = file_.packets + waiting_packets_,
          .duration_ns = now_ns_ - file_.duration_ns};
}

CaptureAmount CaptureRecorder::TotalAmount() const {
  return {.bytes = total_.bytes + batch_.bytes(),
          .packets = total_.packets + waiting_packets_,
          .duration_ns = now_ns_ - total_.duration_ns};
}

void CaptureRecorder::BeginFile() {
  file_ = {.duration_ns = now_ns_};
  for (uint32_t i = 0; i < totals_.size(); ++i) at_file_[i] = TotalsOf(i);
  batch_.writer().AddSection("uroce " UROCE_VERSION);
  for (const uroce_capture_interface& interface : session_.interfaces) {
    batch_.writer().AddInterface(interface, options_.snap_length_bytes);
  }
}

absl::Status CaptureRecorder::EndFile() {
  for (uint32_t i = 0; i < totals_.size(); ++i) {
    const InterfaceTotals in_file = Difference(TotalsOf(i), at_file_[i]);
    batch_.writer().AddStatistics(i, ClockNs(CLOCK_REALTIME),
                                  {.received_frames = in_file.seen.sum() + in_file.lost.sum(),
                                   .matching_frames = in_file.captured.sum(),
                                   .lost_frames = in_file.lost.sum(),
                                   .comment = CaptureSummary(in_file)});
  }
  return Flush();
}

absl::Status CaptureRecorder::NextFile() {
  absl::Status status = EndFile();
  if (!status.ok() || finished_) return status;
  status = output_.Next();
  if (!status.ok()) return absl::DataLossError(status.message());
  ClearProgress();
  fprintf(stderr, "uroce capture: writing %s\n", output_.name().c_str());
  BeginFile();
  return absl::OkStatus();
}

absl::Status CaptureRecorder::Flush() {
  std::vector<std::span<const uint8_t>> parts = batch_.Parts();
  const WriteResult result = output_.Write(parts, *stopping_);
  const int reason = errno;
  const uint64_t bytes = batch_.bytes();
  const uint64_t packets = std::exchange(waiting_packets_, 0);
  batch_.Clear();
  rings_.Release();
  // A program that polls on this processor runs first: it also yields when it finds nothing.
  sched_yield();
  if (result == WriteResult::kFailed) {
    return absl::DataLossError(absl::StrCat("write ", output_.name(), ": ", strerror(reason), "; ",
                                            packets, " packets more were taken and not written"));
  }
  if (result != WriteResult::kOk) {
    finished_ = true;
    return absl::OkStatus();
  }
  for (CaptureAmount* amount : {&file_, &total_}) {
    amount->bytes += bytes;
    amount->packets += packets;
  }
  return absl::OkStatus();
}

void CaptureRecorder::EndCapture() {
  shutdown(session_.socket.get(), SHUT_WR);
  Await(session_.socket.get(), POLLIN, kEndPatience);
}

CaptureRecorder::InterfaceTotals CaptureRecorder::TotalsOf(uint32_t interface_index) const {
  InterfaceTotals totals = totals_[interface_index];
  const uroce_capture_lost lost = rings_.lost_frames(interface_index);
  totals.lost = {.sent = lost.outbound, .received = lost.inbound};
  return totals;
}

uint64_t CaptureRecorder::lost_packets() const {
  uint64_t lost = 0;
  for (uint32_t i = 0; i < totals_.size(); ++i) lost += TotalsOf(i).lost.sum();
  return lost;
}

absl::Status CaptureRecorder::Wait() {
  pollfd fds[2] = {{session_.socket.get(), POLLIN, 0}, {output_.fd(), 0, 0}};
  if (poll(fds, 2, kPollIntervalMs) <= 0) return absl::OkStatus();
  // A pipe whose reader has closed it reports POLLERR, even while no frame comes.
  if (fds[1].revents & (POLLERR | POLLHUP)) finished_ = true;
  if (fds[0].revents) return absl::UnavailableError("the daemon has ended");
  return absl::OkStatus();
}

void CaptureRecorder::ShowProgress() {
  next_progress_ns_ = now_ns_ + kProgressIntervalNs;
  fprintf(stderr, "\r%llu packets, %llu lost ", static_cast<unsigned long long>(total_.packets),
          static_cast<unsigned long long>(lost_packets()));
}

void CaptureRecorder::ClearProgress() {
  if (shows_progress_) fputs("\r\033[K", stderr);
}

}  // namespace uroce::tools
