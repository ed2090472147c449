// SPDX-License-Identifier: Apache-2.0
// Assembles the daemon: ports, NICs, workers, control socket; tells the service manager how the
// daemon is (sd_notify(3)).
#include "nic/daemon.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nic/base/cpu_limit.h"
#include "nic/base/log.h"
#include "nic/base/memory_limit.h"
#include "nic/control/reconfiguration.h"
#include "nic/control/server.h"
#include "nic/devices/nic_device.h"
#include "nic/metrics/metrics_server.h"
#include "nic/objects/nic.h"
#include "nic/ports.h"
#include "nic/privileges.h"
#include "nic/settings/config.h"
#include "nic/settings/setting.h"
#include "pipeline/os/fd.h"

namespace uroce::nic {
namespace {

constexpr int kKeepEnvironment = 0;
constexpr int64_t kNanosPerMicrosecond = 1000;

}  // namespace

ServiceManager::ServiceManager(EventLoop& loop) : loop_(loop) {
  uint64_t watchdog_us = 0;
  if (sd_watchdog_enabled(kKeepEnvironment, &watchdog_us) <= 0) return;
  interval_ = Nanos{static_cast<int64_t>(watchdog_us) * kNanosPerMicrosecond / 2};
  TellAlive();
}

ServiceManager::~ServiceManager() {
  if (timer_ != 0) loop_.Cancel(timer_);
}

void ServiceManager::TellReady(const std::string& status) {
  sd_notify(kKeepEnvironment, absl::StrCat("READY=1\nSTATUS=", status).c_str());
}

void ServiceManager::TellReloading() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_us =
      int64_t{now.tv_sec} * 1'000'000 + int64_t{now.tv_nsec} / kNanosPerMicrosecond;
  sd_notify(kKeepEnvironment, absl::StrCat("RELOADING=1\nMONOTONIC_USEC=", now_us).c_str());
}

void ServiceManager::TellStopping() { sd_notify(kKeepEnvironment, "STOPPING=1"); }

void ServiceManager::TellAlive() {
  sd_notify(kKeepEnvironment, "WATCHDOG=1");
  timer_ = loop_.After(interval_, [this] { TellAlive(); });
}

namespace {

constexpr Nanos kMostTimeToSettle{1'000'000'000};
constexpr int kSettleTurnMs = 50;

/// Regions, memory that programs lend and queues are all laid out in pages of this size.
absl::Status CheckPages() {
  const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes == kPageBytes) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the kernel's pages have ", bytes / 1024,
                   " KB: uroced works with those of 4 KB alone (uroce doctor says more)"));
}

/// Drops privileges that only the start needs, then checks that the daemon can work without them.
absl::Status Unprivileged(const Config& config) {
  if (!config.keep_privileges) {
    const bool is_elsewhere = IsInAnothersDirectory(config.socket_path);
    absl::Status status = LimitPrivileges(CapabilitiesInUse(config, is_elsewhere));
    if (!status.ok()) return status;
  }
  const std::string& histories = config.history_dir;
  if (!histories.empty() && access((histories + "/.").c_str(), W_OK | X_OK) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--history-dir: ", histories, " is no directory to write to: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

/// The queues of all ports beyond the first of each.
uint32_t FurtherQueues(const Nic& nic) {
  uint32_t queues = 0;
  for (const auto& device : nic.devices()) queues += FurtherQueues(device->config());
  return queues;
}

/// Whether SIGTERM or SIGINT waits to be taken.
bool IsToldToEnd() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

/// Null without --metrics. The port or the path may need a privilege that is given up later.
absl::StatusOr<std::unique_ptr<MetricsServer>> ListenForMetrics(const Config& config) {
  if (config.metrics.empty()) return nullptr;
  const absl::StatusOr<ListenAddress> address = ParseListenAddress(config.metrics);
  if (!address.ok()) return address.status();
  return MetricsServer::Listen(*address);
}

}  // namespace

std::string DefaultSocketPath() {
  const char* run = std::getenv("XDG_RUNTIME_DIR");
  if (geteuid() == 0 || run == nullptr || *run == '\0') return UROCE_DEFAULT_SOCKET;
  return absl::StrCat(run, "/uroce/uroced.sock");
}

namespace {

/// Chooses the number of workers where the settings leave it to the daemon.
Config WithWorkers(Config config) {
  if (!config.has_auto_workers) return config;
  config.usable_cpus = UsableCpus();
  config.usable_memory_bytes = MemoryLimit();
  config.workers = AutoWorkers(config.usable_cpus, config.usable_memory_bytes);
  return config;
}

}  // namespace

// The socket comes first: a second daemon on the same path must not disturb the ports of the first.
absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Config& given, ConfigReader reader) {
  const Config config = WithWorkers(given);
  if (absl::Status status = CheckPages(); !status.ok()) return status;
  absl::StatusOr<ControlSocket> socket = ControlSocket::Listen(config.socket_path);
  if (!socket.ok()) return socket.status();
  absl::StatusOr<Ports> ports = OpenPorts(config);
  if (!ports.ok()) return ports.status();
  absl::StatusOr<std::unique_ptr<MetricsServer>> metrics = ListenForMetrics(config);
  if (!metrics.ok()) return metrics.status();
  if (absl::Status status = Unprivileged(config); !status.ok()) return status;
  const PortResources resources = *ports;  // Without the devices.
  std::unique_ptr<Daemon> daemon(new Daemon(config, *std::move(ports), *std::move(socket)));
  daemon->server_->port_changes().SetOpener(
      [resources, &nic = *daemon->nic_](const std::vector<DeviceConfig>& added,
                                        const std::vector<uint32_t>& indices) {
        return OpenAdded(added, indices, resources, FurtherQueues(nic));
      });
  daemon->server_->reconfiguration().SetReader(std::move(reader));
  daemon->Settle();
  daemon->Serve(*std::move(metrics));
  return daemon;
}

void Daemon::Serve(std::unique_ptr<MetricsServer> metrics) {
  if (metrics == nullptr) return;
  metrics_ = std::move(metrics);
  metrics_->Start(loop_, [this](std::function<void(MetricsServer::SharedSnapshot)> answer) {
    server_->statistics().Ask(std::move(answer));
  });
}

// Programs that wait for the daemon to be ready want to use its addresses.
void Daemon::Settle() {
  const Nanos deadline = Nic::Now() + kMostTimeToSettle;
  while (server_->is_settling() && Nic::Now() < deadline) loop_.RunOnce(kSettleTurnMs);
}

Daemon::Daemon(const Config& config, Ports ports, ControlSocket socket)
    : lock_(socket.TakeLock()),
      nic_(std::make_unique<Nic>(config, std::move(ports.devices), ports.seats,
                                 std::move(ports.network))),
      server_(std::make_unique<Server>(loop_, *nic_, std::move(socket))) {}

Daemon::~Daemon() = default;

sigset_t Daemon::Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

// A daemon that waits for the socket sees that this one ends (IsServed), from the signal on:
// either it is pending, or the socket is gone.
void Daemon::OnSignal(int signal_fd, ServiceManager& manager) {
  if (IsToldToEnd()) server_->Retire();
  signalfd_siginfo signal{};
  if (read(signal_fd, &signal, sizeof(signal)) != sizeof(signal)) return;
  if (signal.ssi_signo != SIGHUP) return loop_.Stop();
  manager.TellReloading();
  static_cast<void>(server_->reconfiguration().Reload());  // The log says what came of it.
  manager.TellReady(ReadyLine());
}

void Daemon::Run() {
  const sigset_t signals = Signals();
  const Fd signal_fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  ServiceManager manager(loop_);
  const EventLoop::Id watch = loop_.Watch(signal_fd.get(), EPOLLIN, [this, &signal_fd, &manager] {
    OnSignal(signal_fd.get(), manager);
  });
  manager.TellReady(ReadyLine());
  const Config& config = nic_->config();
  if (config.has_auto_workers) LogInfo("{}", WorkersChosen(config));
  loop_.Run();
  manager.TellStopping();
  loop_.Forget(watch);
  LogInfo("stopping with {} programs connected", server_->connection_count());
}

std::string Daemon::ReadyLine() const {
  std::string line = absl::StrCat("ready, socket ", nic_->config().socket_path, ", devices");
  for (const auto& device : nic_->devices()) {
    absl::StrAppend(&line, &device == &nic_->devices().front() ? " " : ", ", device->name());
    for (const InterfaceAddress& address : device->gids().addresses()) {
      absl::StrAppend(&line, " ", FormatInterfaceAddress(address));
    }
  }
  return line;
}

}  // namespace uroce::nic
