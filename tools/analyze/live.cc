// SPDX-License-Identifier: Apache-2.0
#include "tools/analyze/live.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"

namespace uroce::tools::analyze {
namespace {

volatile sig_atomic_t g_child = 0;

void PassOn(int) {
  if (g_child != 0) kill(g_child, SIGINT);
}

/// A read of the pipe goes on behind a signal: the child ends what there is to read.
void CatchSignals() {
  struct sigaction action {};
  action.sa_handler = PassOn;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

/// Runs in the child, whose standard output is the pipe.
[[noreturn]] void Capture(const std::string& socket_path, const CaptureOptions& options,
                          int errors) {
  setpgid(0, 0);  // Ctrl-C is for the parent, which passes it on.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const absl::Status status = RunCapture(socket_path, options);
  const std::string text(status.message());
  const ssize_t written = write(errors, text.data(), text.size());
  _exit(status.ok() && written >= 0 ? 0 : 1);
}

}  // namespace

LiveCapture::LiveCapture(pid_t child, Fd frames, Fd errors)
    : child_(child), frames_(std::move(frames)), errors_(std::move(errors)) {}

absl::StatusOr<std::unique_ptr<LiveCapture>> LiveCapture::Start(const std::string& socket_path,
                                                                CaptureOptions options) {
  std::array<int, 2> frames{};
  std::array<int, 2> errors{};
  if (pipe2(frames.data(), O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "a pipe");
  Fd frames_out(frames[0]);
  Fd frames_in(frames[1]);
  if (pipe2(errors.data(), O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "a pipe");
  Fd errors_out(errors[0]);
  Fd errors_in(errors[1]);
  options.file = "-";
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "a process that captures");
  if (child == 0) {
    dup2(frames_in.get(), STDOUT_FILENO);
    frames_in = Fd();
    frames_out = Fd();
    Capture(socket_path, options, errors_in.get());
  }
  g_child = child;
  CatchSignals();
  return std::unique_ptr<LiveCapture>(
      new LiveCapture(child, std::move(frames_out), std::move(errors_out)));
}

LiveCapture::~LiveCapture() {
  if (child_ == 0) return;
  kill(child_, SIGINT);
  frames_ = Fd();
  Wait().IgnoreError();
}

std::string LiveCapture::path() const { return absl::StrCat("/dev/fd/", frames_.get()); }

absl::Status LiveCapture::Wait() {
  std::string text;
  std::array<char, 256> part;
  for (;;) {
    const ssize_t got = read(errors_.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(part.data(), static_cast<size_t>(got));
  }
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  g_child = 0;
  child_ = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::UnavailableError(text.empty() ? "the capture ended" : text);
}

}  // namespace uroce::tools::analyze
