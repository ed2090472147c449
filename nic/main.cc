// SPDX-License-Identifier: Apache-2.0
// uroced: starts and stops the daemon.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "nic/base/log.h"
#include "nic/daemon.h"
#include "nic/settings/config_file.h"
#include "nic/settings/flags.h"
#include "pipeline/os/fd.h"
#include "pipeline/os/side_thread.h"

namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr std::chrono::milliseconds kLongestEnd{500};

absl::StatusOr<std::vector<uroce::nic::Setting>> ReadConfigFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  // Of an empty file nothing is inserted, which is a failure to a stream.
  const bool is_empty = file.peek() == EOF && file.eof();
  if (!is_empty && !(file && text << file.rdbuf())) {
    return absl::InvalidArgumentError(
        absl::StrCat("--config: ", path, " cannot be read: ", std::strerror(errno)));
  }
  return uroce::nic::ParseConfigFile(text.str(), path);
}

absl::StatusOr<uroce::nic::Config> ReadConfig(const uroce::nic::CommandLine& line) {
  std::vector<uroce::nic::Setting> settings;
  if (!line.config_file.empty()) {
    auto from_file = ReadConfigFile(line.config_file);
    if (!from_file.ok()) return from_file.status();
    settings = *std::move(from_file);
  }
  settings.insert(settings.end(), line.settings.begin(), line.settings.end());
  for (const uroce::nic::Setting& setting : settings) {
    if (!setting.has_former_name) continue;
    std::fprintf(stderr, "uroced: %s has the name %s now\n", setting.origin.c_str(),
                 setting.key.c_str());
  }
  return uroce::nic::MakeConfig(settings, uroce::nic::DefaultSocketPath());
}

// Files that the daemon opens take free numbers, so this is asked before it opens any.
absl::Status CheckReadyFd(int ready_fd) {
  if (ready_fd < 0) return absl::OkStatus();
  const int flags = fcntl(ready_fd, F_GETFL);
  if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--ready-fd: \"", ready_fd, "\" is no file that is open for writing"));
}

int Fail(const absl::Status& status, int exit_status) {
  std::fprintf(stderr, "uroced: %s\n", std::string(status.message()).c_str());
  return exit_status;
}

int Print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  return Fail(absl::DataLossError(absl::StrCat("standard output: ", std::strerror(errno))),
              kExitFailure);
}

// Threads inherit the mask: only the control thread's signalfd gets these signals.
void PrepareProcess() {
  signal(SIGPIPE, SIG_IGN);
  const sigset_t signals = uroce::nic::Daemon::Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;  // Each program takes some ten fds.
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

void TellReady(const uroce::nic::Daemon& daemon, const uroce::nic::Config& config) {
  const int ready_fd = config.ready_fd;
  if (config.json_log) {
    uroce::nic::LogInfo("{}", daemon.ReadyLine());
  } else {
    std::fprintf(stderr, "uroced: %s\n", daemon.ReadyLine().c_str());
  }
  if (ready_fd < 0) return;
  [[maybe_unused]] const ssize_t written = write(ready_fd, "\n", 1);
  close(ready_fd);
}

/// As ReadConfig, but from a file alone: what a pipe held has been read, and the daemon must not
/// wait for more.
absl::StatusOr<uroce::nic::Config> ReadConfigAgain(const uroce::nic::CommandLine& line) {
  struct stat status {};
  const std::string& path = line.config_file;
  if (!path.empty() && stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--config: ", path, " is no file that can be read again"));
  }
  return ReadConfig(line);
}

int Serve(const uroce::nic::CommandLine& line, const uroce::nic::Config& config) {
  const auto daemon = uroce::nic::Daemon::Start(config, [line] { return ReadConfigAgain(line); });
  if (!daemon.ok()) {
    const bool usage =
        absl::IsInvalidArgument(daemon.status()) || absl::IsNotFound(daemon.status());
    return Fail(daemon.status(), usage ? kExitUsage : kExitFailure);
  }
  TellReady(**daemon, config);
  (*daemon)->Run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  uroce::TakeClosedStandardFds();
  const auto line = uroce::nic::ParseCommandLine({argv + 1, argv + argc});
  if (!line.ok()) return Fail(line.status(), kExitUsage);
  if (line->help) return Print(uroce::nic::HelpText(*line->help));
  if (line->version) return Print("uroced " UROCE_VERSION "\n");
  const auto config = ReadConfig(*line);
  if (!config.ok()) return Fail(config.status(), kExitUsage);
  if (absl::Status status = CheckReadyFd(config->ready_fd); !status.ok()) {
    return Fail(status, kExitUsage);
  }
  uroce::nic::StartLog(config->json_log, config->log_level);
  PrepareProcess();
  const int status = Serve(*line, *config);
  // A thread that hangs in what a program lent must not run while the objects are destroyed.
  if (uroce::SideThread::AwaitAll(kLongestEnd)) return status;
  uroce::nic::LogWarning("threads that hang in what programs lent are left to the kernel");
  _exit(status);
}
