// SPDX-License-Identifier: Apache-2.0
#include "nic/control/live_counters.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/control/device_tree.h"
#include "nic/control/statistics.h"
#include "nic/devices/counter_files.h"
#include "nic/objects/nic.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;

constexpr Nanos kWithoutLease{1'000'000'000};

/// The control thread alone may get the signal of its leases.
Fd SignalsOfLeases() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGIO);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return Fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

/// False: somebody has the file open, or there are no leases here.
bool TakeLease(int fd) {
  f_owner_ex owner{.type = F_OWNER_TID, .pid = gettid()};
  return fcntl(fd, F_SETOWN_EX, &owner) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
}

std::map<std::string, uint64_t> FilesOf(const Json& device) {
  CounterValues values;
  for (const auto& [name, value] : device.at("counters").items()) {
    if (value.is_number_unsigned()) values[name] = value.get<uint64_t>();
  }
  return CounterFiles(values);
}

/// Numbers do not become shorter while the daemon lives.
void WriteText(const std::string& text, int fd) {
  if (pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    spdlog::debug("a file of counters cannot be written");
  }
}

}  // namespace

LiveCounters::LiveCounters(EventLoop& loop, const Nic& nic, Statistics& statistics, OwnTree& tree)
    : loop_(loop), nic_(nic), statistics_(statistics), tree_(tree), signals_(SignalsOfLeases()) {
  if (signals_) watch_ = loop_.Watch(signals_.get(), EPOLLIN, [this] { OnOpened(); });
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
  statistics_.Ask([this](const std::shared_ptr<const Json>& statistics) {
    is_refreshing_ = false;
    Write(*statistics);
  });
}

void LiveCounters::Write(const Json& statistics) {
  if (!std::exchange(has_files_, true)) MakeFiles(statistics);
  const Nanos begin = Nic::Now();
  auto file = files_.begin();
  for (const Json& device : statistics.at("devices")) {
    const std::map<std::string, uint64_t> values = FilesOf(device);
    for (; file != files_.end() && file->device == device.at("name"); ++file) {
      const auto value = values.find(file->name);
      if (value == values.end()) continue;
      std::string text = absl::StrCat(value->second, "\n");
      if (text != file->text) WriteText(text, file->fd.get());
      file->text = std::move(text);
      fcntl(file->fd.get(), F_SETLEASE, F_UNLCK);
    }
  }
  const Nanos rest = (Nic::Now() - begin) * Statistics::kRestPerWork;
  next_ = loop_.After(std::max(Statistics::kLifespan, rest), [this] { TakeLeases(); });
}

void LiveCounters::MakeFiles(const Json& statistics) {
  for (const Json& device : statistics.at("devices")) {
    const std::string name = device.at("name");
    const auto its = std::ranges::find_if(
        nic_.devices(), [&name](const auto& each) { return each->name() == name; });
    if (its == nic_.devices().end()) continue;
    const std::string directory = absl::StrCat(DeviceTree::DirectoryOf(**its), "ports/1/");
    const auto lifespan_ms = Statistics::kLifespan.count() / 1'000'000;
    static_cast<void>(
        tree_.WriteFile(directory + "hw_counters/lifespan", absl::StrCat(lifespan_ms, "\n")));
    for (const auto& [path, value] : FilesOf(device)) {
      const absl::Status status = tree_.WriteFile(directory + path, absl::StrCat(value, "\n"));
      absl::StatusOr<Fd> fd = tree_.Open(directory + path);
      if (!status.ok() || !fd.ok()) {
        const absl::Status& what = status.ok() ? fd.status() : status;
        spdlog::warn("{}: there are no files of counters", std::string(what.message()));
        return;
      }
      files_.push_back({name, path, *std::move(fd), absl::StrCat(value, "\n")});
    }
  }
}

void LiveCounters::TakeLeases() {
  next_ = 0;
  bool has_all = signals_.get() >= 0;
  for (const File& file : files_) has_all &= TakeLease(file.fd.get());
  if (!has_all) next_ = loop_.After(kWithoutLease, [this] { Refresh(); });
}

}  // namespace uroce::nic
