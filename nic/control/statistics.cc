// SPDX-License-Identifier: Apache-2.0
// The counters of all devices for readers that ask often, and the files that show them while a
// program has them open.
#include "nic/control/statistics.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/base/cpus.h"
#include "nic/base/log.h"
#include "nic/control/device_tree.h"
#include "nic/devices/device_files.h"
#include "nic/devices/nic_device.h"
#include "nic/dumps/stat_dump.h"
#include "nic/objects/nic.h"

namespace uroce::nic {

Statistics::Statistics(const DumpContext& context)
    : context_(context), self_(0, Peer{getpid(), geteuid(), getegid()}) {}

Statistics::~Statistics() { context_.loop.Cancel(next_); }

void Statistics::Ask(Answer answer) {
  if (walk_ == nullptr && Nic::Now() < fresh_until_) return answer(newest_);
  waiting_.push_back(std::move(answer));
  if (walk_ != nullptr) return;
  walk_ = std::make_unique<StatWalk>(context_, self_);
  spent_ = Nanos(0);
  next_ = context_.loop.After(Nanos(0), [this] { Continue(); });
}

void Statistics::Forget() {
  fresh_until_ = Nanos(0);
  if (walk_ != nullptr) walk_ = std::make_unique<StatWalk>(context_, self_);
}

// A piece is some ten microseconds of each worker; other clients are served in between.
void Statistics::Continue() {
  next_ = 0;
  const Nanos begin = ThreadTime();
  const bool goes_on = walk_->Continue();
  if (!goes_on) newest_ = std::make_shared<const Snapshot>(walk_->Take());
  spent_ = spent_ + (ThreadTime() - begin);
  if (!goes_on) return Finish();
  next_ = context_.loop.After(Nanos(0), [this] { Continue(); });
}

void Statistics::Finish() {
  walk_.reset();
  fresh_until_ = Nic::Now() + std::max(kLifespan, spent_ * kRestPerWork);
  for (const Answer& answer : std::exchange(waiting_, {})) answer(newest_);
}

namespace {

constexpr char kPort[] = "ports/1/";
constexpr Nanos kLongestWithoutLease{1'000'000'000};

// Of the files that the daemon may have open; programs need the others.
constexpr rlim_t kShareOfFiles = 2;

sigset_t SignalOfLeases() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGIO);
  return signals;
}

Fd MakeSignalFd() {
  const sigset_t signals = SignalOfLeases();
  return Fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

/// This thread gets the signals of its leases by the fd alone.
void BlockSignal() {
  const sigset_t signals = SignalOfLeases();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

bool HasRoomFor(size_t files) {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && files <= limit.rlim_cur / kShareOfFiles;
}

/// False: a process has the file open, or there are no leases here.
bool TakeLease(int fd) {
  f_owner_ex owner{.type = F_OWNER_TID, .pid = gettid()};
  return fcntl(fd, F_SETOWN_EX, &owner) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
}

std::map<std::string, uint64_t> FilesOf(const std::vector<NamedCount>& counters) {
  CounterValues values;
  for (const NamedCount& counter : counters) values[counter.name] = counter.value;
  return CounterFiles(values);
}

/// Numbers do not become shorter while the daemon lives.
void WriteText(const std::string& text, int fd) {
  if (pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    LogDebug("a file of counters cannot be written");
  }
}

}  // namespace

LiveCounters::LiveCounters(EventLoop& loop, const Nic& nic, Statistics& statistics, OwnTree& tree)
    : loop_(loop), nic_(nic), statistics_(statistics), tree_(tree), signals_(MakeSignalFd()) {
  if (signals_) watch_ = loop_.Watch(signals_.get(), EPOLLIN, [this] { OnOpened(); });
  for (const auto& device : nic_.devices()) MakeFiles(*device);
  Refresh();
}

LiveCounters::~LiveCounters() {
  loop_.Forget(watch_);
  loop_.Cancel(next_);
}

void LiveCounters::OnOpened() {
  signalfd_siginfo signal{};
  while (read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) continue;
  Refresh();
}

void LiveCounters::Refresh() {
  if (std::exchange(is_refreshing_, true)) return;
  loop_.Cancel(std::exchange(next_, 0));
  statistics_.Ask([this](const std::shared_ptr<const Snapshot>& snapshot) {
    is_refreshing_ = false;
    Write(*snapshot);
  });
}

void LiveCounters::OnAdded(const NicDevice& device) {
  MakeFiles(device);
  Refresh();
}

void LiveCounters::OnRemoved(const std::string& name) { files_.erase(name); }

void LiveCounters::Write(const Snapshot& snapshot) {
  const Nanos begin = ThreadTime();
  for (const DeviceSnapshot& device : snapshot.devices) {
    const auto its = files_.find(device.name);
    if (its == files_.end()) continue;
    const std::map<std::string, uint64_t> values = FilesOf(device.counters);
    for (File& file : its->second) {
      const auto value = values.find(file.name);
      if (value == values.end()) continue;
      std::string text = absl::StrCat(value->second, "\n");
      if (text != file.text) WriteText(text, file.fd.get());
      file.text = std::move(text);
      fcntl(file.fd.get(), F_SETLEASE, F_UNLCK);
    }
  }
  const Nanos rest = (ThreadTime() - begin) * Statistics::kRestPerWork;
  next_ = loop_.After(std::max(Statistics::kLifespan, rest), [this] { TakeLeases(); });
}

// The files are made before the daemon says that it is ready, or that the device is there: a
// program that was told so finds them.
void LiveCounters::MakeFiles(const NicDevice& device) {
  if (has_given_up_) return;
  const absl::Status status = TryToMakeFiles(device);
  if (!status.ok()) GiveUp(status);
}

absl::Status LiveCounters::TryToMakeFiles(const NicDevice& device) {
  const std::map<std::string, uint64_t> values =
      FilesOf(DeviceCounts(device, device.ended_counters(), /*queue_pairs=*/0));
  size_t count = values.size();
  for (const auto& [name, files] : files_) count += files.size();
  if (!HasRoomFor(count)) {
    return absl::ResourceExhaustedError("too few files may be open (ulimit -n)");
  }
  const std::string directory = absl::StrCat(DeviceTree::DirectoryOf(device), kPort);
  const auto lifespan_ms = Statistics::kLifespan.count() / 1'000'000;
  absl::Status status =
      tree_.WriteFile(directory + "hw_counters/lifespan", absl::StrCat(lifespan_ms, "\n"));
  std::vector<File>& files = files_[device.name()];
  for (const auto& [path, value] : values) {
    std::string text = absl::StrCat(value, "\n");
    if (status.ok()) status = tree_.WriteFile(directory + path, text);
    if (!status.ok()) return status;
    absl::StatusOr<Fd> fd = tree_.Open(directory + path);
    if (!fd.ok()) return fd.status();
    files.push_back({path, *std::move(fd), std::move(text)});
  }
  return status;
}

void LiveCounters::GiveUp(const absl::Status& status) {
  has_given_up_ = true;
  LogWarning("{}: there are no files of counters", std::string(status.message()));
  files_.clear();
  for (const auto& device : nic_.devices()) {
    for (const char* const name : {"counters", "hw_counters"}) {
      tree_.Remove(absl::StrCat(DeviceTree::DirectoryOf(*device), kPort, name));
    }
  }
}

void LiveCounters::TakeLeases() {
  next_ = 0;
  BlockSignal();
  bool has_all = signals_.get() >= 0;
  for (const auto& [device, files] : files_) {
    for (const File& file : files) has_all &= TakeLease(file.fd.get());
  }
  without_lease_ =
      has_all ? Nanos(0)
              : std::clamp(without_lease_ * 2, Statistics::kLifespan, kLongestWithoutLease);
  if (!has_all) next_ = loop_.After(without_lease_, [this] { Refresh(); });
}

}  // namespace uroce::nic
