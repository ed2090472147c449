// SPDX-License-Identifier: Apache-2.0
#include "nic/capture/history_recorder.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "nic/capture/capture.h"
#include "nic/capture/history_file.h"

namespace uroce::nic {
namespace {

// Histories that wait for the file system; further ones are counted.
constexpr size_t kMaxWaiting = 64;
constexpr mode_t kOwnerOnly = 0600;  // The file has the first bytes of programs' messages.

/// Returns 0 or an errno.
int WriteFile(const std::string& path, const std::string& bytes) {
  const Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnly));
  if (!file) return errno;
  const ssize_t written = write(file.get(), bytes.data(), bytes.size());
  if (written == static_cast<ssize_t>(bytes.size())) return 0;
  const int error = written < 0 ? errno : ENOSPC;
  unlink(path.c_str());
  return error;
}

}  // namespace

HistoryRecorder::HistoryRecorder(EventLoop& loop, BackgroundTasks& background_tasks, Nic& nic)
    : loop_(loop), tasks_(background_tasks), nic_(nic) {
  watch_ = loop_.Watch(nic_.failures().fd(), EPOLLIN, [this] { OnFailures(); });
}

HistoryRecorder::~HistoryRecorder() {
  loop_.Forget(watch_);
  tasks_.Cancel(writing_);
}

std::string HistoryRecorder::FileOf(Qpn qpn) const {
  const auto found = std::find_if(files_.rbegin(), files_.rend(),
                                  [qpn](const File& file) { return file.qpn == qpn; });
  return found == files_.rend() ? "" : found->path;
}

void HistoryRecorder::OnFailures() {
  for (datapath::FailedQueuePair& failed : nic_.failures().TakeAll()) {
    if (waiting_.size() == kMaxWaiting) {
      ++counts_.missed;
    } else {
      waiting_.push_back(std::move(failed));
    }
  }
  if (!busy_) WriteNext();
}

void HistoryRecorder::WriteNext() {
  while (!waiting_.empty() && nic_.DeviceAt(waiting_.front().device_index) == nullptr) {
    ++counts_.missed;  // Its device was removed meanwhile.
    waiting_.pop_front();
  }
  if (waiting_.empty()) return;
  // Both halves of the background task share it; either may be the last to release it.
  auto failed = std::make_shared<datapath::FailedQueuePair>(std::move(waiting_.front()));
  waiting_.pop_front();
  busy_ = true;
  const NicDevice& device = *nic_.DeviceAt(failed->device_index);
  const std::string path = absl::StrCat(nic_.config().flight_recorder, "/",
                                        HistoryFileName(device.name(), failed->qpn, failed->time));
  const std::string comment = FailureComment(*failed);
  auto error = std::make_shared<int>(0);
  writing_ = tasks_.Start(
      [failed, error, path, comment, interface = CaptureInterface(device)] {
        *error = WriteFile(path, HistoryFile(failed->history->InOrder(), interface, comment));
      },
      [this, failed, error, path, comment] { OnWritten(path, comment, failed->qpn, *error); });
}

void HistoryRecorder::OnWritten(const std::string& path, const std::string& comment, Qpn qpn,
                                int error) {
  busy_ = false;
  if (error != 0) {
    ++counts_.missed;
    spdlog::warn("{}; its packets are lost: {}: {}", comment, path, std::strerror(error));
  } else {
    ++counts_.written;
    files_.push_back({path, qpn});
    spdlog::info("{}; its last packets are in {}", comment, path);
  }
  for (; files_.size() > nic_.config().flight_files; files_.pop_front()) {
    unlink(files_.front().path.c_str());
  }
  WriteNext();
}

}  // namespace uroce::nic
