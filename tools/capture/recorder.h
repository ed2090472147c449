// SPDX-License-Identifier: Apache-2.0
// Records one capture from the shared rings, through a libpcap filter, into its files.
#pragma once

#include <csignal>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/capture/pcapng_writer.h"
#include "tools/capture/command.h"
#include "tools/capture/output.h"
#include "tools/capture/rings.h"
#include "tools/client/control_client.h"

struct bpf_program;

namespace uroce::tools {

/// A compiled filter. An empty expression lets every frame pass.
class PacketFilter {
 public:
  /// Errors: kInvalidArgument with libpcap's reason.
  static absl::StatusOr<PacketFilter> Compile(const std::string& expression);

  bool Matches(std::span<const uint8_t> frame, uint32_t wire_length_bytes) const;

 private:
  struct Free {
    void operator()(bpf_program* program) const;
  };
  std::unique_ptr<bpf_program, Free> program_;
};

// ---- Blocks that wait to be written together ----

/// Large frames are not copied but written from their place, so that memory must hold them until
/// the batch is cleared.
class CaptureBatch {
 public:
  /// Takes blocks other than frames.
  capture::PcapngWriter& writer() { return writer_; }
  void AddFrame(const capture::CapturedFrame& frame);
  uint64_t bytes() const { return writer_.bytes().size() + borrowed_bytes_; }
  /// All bytes in order. Valid until the batch changes.
  std::vector<std::span<const uint8_t>> Parts() const;
  void Clear();

 private:
  /// Bytes of a frame that follow the first `position` bytes of the writer.
  struct Borrowed {
    size_t position;
    std::span<const uint8_t> bytes;
  };

  capture::PcapngWriter writer_;
  std::vector<Borrowed> borrowed_;
  uint64_t borrowed_bytes_ = 0;
};

// ---- The recorder ----

/// Runs on the tool's one thread. Every file begins with its interfaces and ends with their
/// statistics, so that each can be read alone.
class CaptureRecorder {
 public:
  /// `options` and `session` outlive the recorder.
  CaptureRecorder(CaptureRings rings, PacketFilter filter, CaptureOutput output,
                  const CaptureOptions& options, const CaptureSession& session);

  /// Returns when `stopping` is set, a limit is reached or a pipe's reader has closed it. Errors:
  /// kDataLoss when the daemon ends or a file cannot be written.
  absl::Status Run(const volatile sig_atomic_t& stopping);

  /// Packets that are in the files.
  uint64_t written_packets() const { return total_.packets; }
  /// Packets that the daemon dropped, because the rings had no room.
  uint64_t lost_packets() const;
  /// Counts of one interface, by direction. A packet that a filter of this tool rejects counts only
  /// as `seen`.
  struct Amounts {
    uint64_t sent = 0;
    uint64_t received = 0;
    uint64_t sum() const { return sent + received; }
  };
  struct InterfaceTotals {
    Amounts seen;
    Amounts captured;
    Amounts lost;
  };
  InterfaceTotals TotalsOf(uint32_t interface_index) const;
  const CaptureOutput& output() const { return output_; }

 private:
  absl::Status Turn();
  absl::Status DrainRings();
  absl::Status Record(const capture::CapturedFrame& frame);
  bool IsWanted(const capture::CapturedFrame& frame) const;
  /// A full file ends when a packet comes that exceeds it. So a ring has no empty files: while no
  /// packets come, the files with the last packets are not removed.
  bool FileIsFull() const;
  bool IsLastFile() const;
  /// Whether a limit of the whole capture is reached.
  bool IsEnough() const;
  CaptureAmount FileAmount() const;
  CaptureAmount TotalAmount() const;
  void BeginFile();
  absl::Status EndFile();
  absl::Status NextFile();
  absl::Status Flush();
  /// Makes the daemon end the capture: the rings and the counts of losses do not change after that.
  void EndCapture();
  absl::Status EndWithout(const absl::Status& daemon);
  absl::Status Wait();
  void ShowProgress();
  void ClearProgress();

  CaptureRings rings_;
  PacketFilter filter_;
  CaptureOutput output_;
  const CaptureOptions& options_;
  const CaptureSession& session_;
  const volatile sig_atomic_t* stopping_ = nullptr;
  CaptureBatch batch_;
  std::vector<InterfaceTotals> totals_;   // Of the capture, without those lost.
  std::vector<InterfaceTotals> at_file_;  // What TotalsOf said when this file began.
  CaptureAmount file_;                    // Written to this file; duration_ns: its start.
  CaptureAmount total_;                   // The same for the whole capture.
  uint64_t waiting_packets_ = 0;          // In `batch_`, not yet in the file.
  uint64_t now_ns_ = 0;
  uint64_t next_progress_ns_ = 0;
  const bool is_bounded_;  // By more than the number of files.
  const bool has_bounded_files_;
  bool shows_progress_;
  bool finished_ = false;
};

/// "sent 1200 captured, 3 lost; received 600 captured, 0 lost".
std::string CaptureSummary(const CaptureRecorder::InterfaceTotals& totals);

}  // namespace uroce::tools
