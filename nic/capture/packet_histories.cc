// SPDX-License-Identifier: Apache-2.0
#include "nic/capture/packet_histories.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nic/base/log.h"
#include "nic/capture/capture.h"
#include "nic/devices/nic_device.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "nic/objects/worker_inboxes.h"
#include "nic/settings/config.h"
#include "pipeline/capture/note.h"
#include "pipeline/capture/pcapng_writer.h"

namespace uroce::nic {
namespace {

using datapath::FailureCause;
using Side = transport::Failure::Side;

constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr size_t kPieceBytes = 32 << 10;

std::string FailureText(const transport::Failure& failure) {
  const bool refused = failure.side == Side::kResponder;
  std::string text =
      absl::StrCat(refused ? " refused psn " : " failed at psn ", failure.psn.value());
  if (failure.status != transport::WcStatus::kSuccess) {
    absl::StrAppend(&text, ": ", capture::StatusName(static_cast<uint8_t>(failure.status)));
  }
  if (failure.syndrome != 0) {
    absl::StrAppend(
        &text, refused ? ", NAK sent: " : ", NAK received: ", capture::NakName(failure.syndrome));
  }
  return text;
}

std::string SectionComment(const std::string& comment) {
  return absl::StrCat(comment, comment.empty() ? "" : "; ", "of each packet the first ",
                      datapath::kHistorySnapBytes, " bytes were kept, zeros stand for the others");
}

}  // namespace

std::string FailureComment(const datapath::FailedQueuePair& failed) {
  const std::string qp = absl::StrFormat("qp 0x%06x", failed.qpn.value());
  switch (failed.cause) {
    case FailureCause::kTransport:
      return qp + FailureText(failed.failure);
    case FailureCause::kCompletionQueue:
      return qp + " failed: its completion queue overflowed";
    case FailureCause::kSendQueue:
      return qp + " failed: its send queue holds nonsense";
    case FailureCause::kReceiveQueue:
      return qp + " failed: its receive queue holds nonsense";
  }
  return qp;
}

HistoryFile::HistoryFile(std::vector<datapath::HistoryPacket> packets,
                         uroce_capture_interface interface, std::string comment)
    : packets_(std::move(packets)), comment_(std::move(comment)) {
  writer_.AddSection("uroced " UROCE_VERSION, SectionComment(comment_));
  writer_.AddInterface(interface, 0);
}

bool HistoryFile::Append(std::string& text) {
  while (next_ < packets_.size() && writer_.bytes().size() < kPieceBytes) {
    const datapath::HistoryPacket& packet = packets_[next_++];
    std::vector<uint8_t> bytes(packet.bytes.begin(), packet.bytes.begin() + packet.captured_bytes);
    bytes.resize(packet.wire_length_bytes);
    const capture::CapturedFrame frame{.time_ns = packet.time_ns,
                                       .direction = packet.direction,
                                       .wire_length_bytes = packet.wire_length_bytes,
                                       .note = packet.note,
                                       .bytes = bytes};
    writer_.AddFrame(frame, next_ == packets_.size() ? comment_ : std::string());
  }
  text.append(writer_.bytes().begin(), writer_.bytes().end());
  writer_.Clear();
  return next_ < packets_.size();
}

std::string HistoryFileName(const std::string& device, Qpn qpn, Nanos time) {
  const time_t seconds = time.count() / kNanosPerSecond;
  tm utc{};
  gmtime_r(&seconds, &utc);
  return absl::StrFormat("%s-qp0x%06x-%04d%02d%02dT%02d%02d%02d.%09dZ.pcapng", device, qpn.value(),
                         utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                         utc.tm_sec, time.count() % kNanosPerSecond);
}

namespace {

// Histories that wait for the file system; further ones are counted.
constexpr size_t kMaxWaiting = 64;
constexpr mode_t kOwnerOnly = 0600;  // The file has the first bytes of programs' messages.

/// Returns 0 or an errno.
int WriteFile(const std::string& path, HistoryFile& history) {
  const Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly));
  if (!file) return errno;
  for (bool goes_on = true; goes_on;) {
    std::string piece;
    goes_on = history.Append(piece);
    const ssize_t written = write(file.get(), piece.data(), piece.size());
    if (written == static_cast<ssize_t>(piece.size())) continue;
    const int error = written < 0 ? errno : ENOSPC;
    unlink(path.c_str());
    return error;
  }
  return 0;
}

}  // namespace

HistoryRecorder::HistoryRecorder(EventLoop& loop, BackgroundTasks& background_tasks, Nic& nic,
                                 LogBudget& log_budget)
    : loop_(loop), tasks_(background_tasks), nic_(nic), log_budget_(log_budget) {
  watch_ = loop_.Watch(nic_.failures().fd(), EPOLLIN, [this] { OnFailures(); });
}

HistoryRecorder::~HistoryRecorder() {
  loop_.Forget(watch_);
  tasks_.Cancel(writing_);
}

std::string HistoryRecorder::FileOf(Qpn qpn) const {
  const auto& files = files_.entries();
  const auto found = std::find_if(files.rbegin(), files.rend(),
                                  [qpn](const auto& entry) { return entry.item.qpn == qpn; });
  return found == files.rend() ? "" : found->item.path;
}

uid_t HistoryRecorder::UserOf(Qpn qpn) const {
  for (const auto& [id, program] : nic_.programs()) {
    if (program->queue_pairs().Has(qpn)) return program->core().uid();
  }
  return UINT32_MAX;
}

void HistoryRecorder::OnFailures() {
  for (datapath::FailedQueuePair& failed : nic_.failures().TakeAll()) {
    const uid_t uid = UserOf(failed.qpn);
    waiting_.Add(uid, std::move(failed));
    if (waiting_.TakeExcess(kMaxWaiting)) ++counts_.missed;
  }
  if (!busy_) WriteNext();
}

void HistoryRecorder::WriteNext() {
  while (!waiting_.empty() && nic_.DeviceAt(waiting_.front().item.device_index) == nullptr) {
    ++counts_.missed;  // Its device was removed meanwhile.
    waiting_.RemoveFront();
  }
  if (waiting_.empty()) return;
  // Both halves of the background task share it; either may be the last to release it.
  const uid_t uid = waiting_.front().uid;
  auto failed = std::make_shared<datapath::FailedQueuePair>(std::move(waiting_.front().item));
  waiting_.RemoveFront();
  busy_ = true;
  const NicDevice& device = *nic_.DeviceAt(failed->device_index);
  const std::string path = absl::StrCat(nic_.config().history_dir, "/",
                                        HistoryFileName(device.name(), failed->qpn, failed->time));
  const std::string comment = FailureComment(*failed);
  auto error = std::make_shared<int>(0);
  writing_ = tasks_.Start(
      [failed, error, path, comment, interface = CaptureInterface(device)] {
        HistoryFile file(failed->history->InOrder(), interface, comment);
        *error = WriteFile(path, file);
      },
      [this, failed, error, path, comment, uid] {
        OnWritten(uid, path, comment, failed->qpn, *error);
      });
}

void HistoryRecorder::OnWritten(uid_t uid, const std::string& path, const std::string& comment,
                                Qpn qpn, int error) {
  if (error != 0) {
    ++counts_.missed;
    if (log_budget_.Take(uid, Nic::Now())) {
      LogWarning("{}; its packets are lost: {}: {}", comment, path, std::strerror(error));
    }
    return GoOn();
  }
  files_.Add(uid, {path, qpn});
  auto old = std::make_shared<std::vector<std::string>>();
  while (std::optional<File> file = files_.TakeExcess(nic_.config().history_files)) {
    old->push_back(std::move(file->path));
  }
  const auto end = [this, uid, path, comment] {
    ++counts_.written;
    if (log_budget_.Take(uid, Nic::Now())) LogInfo("{}; its last packets are in {}", comment, path);
    GoOn();
  };
  if (old->empty()) return end();
  writing_ = tasks_.Start(
      [old] {
        for (const std::string& file : *old) unlink(file.c_str());
      },
      end);
}

void HistoryRecorder::GoOn() {
  busy_ = false;
  WriteNext();
}

}  // namespace uroce::nic
