// SPDX-License-Identifier: Apache-2.0
#include "tools/client/private_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pipeline/os/fd.h"
#include "tools/client/launch.h"

// Three processes work together. This one starts the program and waits for it and its children. The
// keeper, a child in its own session, owns the daemon and the directory: it ends the daemon and
// removes the directory when the pipe from this process closes, whatever has ended this process.
// The kernel ends the daemon if the keeper is killed.

namespace uroce::tools {
namespace {

constexpr int kExitBySignal = 128;
constexpr int kEndOfDaemonMs = 10'000;  ///< For the daemon to end by itself.
constexpr int kTellOfWaitMs = 2'000;
constexpr char kSocketName[] = "/uroced.sock";
constexpr char kLogName[] = "/uroced.log";

struct Pipe {
  Fd read;
  Fd write;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "run: no pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

/// A new directory for this user alone, whose path leaves room for a socket in it.
absl::StatusOr<std::string> MakeDirectory() {
  absl::Status refused = absl::UnavailableError("run: no directory for a socket");
  for (const char* parent : std::initializer_list<const char*>{
           getenv("TMPDIR"), getenv("XDG_RUNTIME_DIR"), "/tmp", "/dev/shm"}) {
    if (parent == nullptr || *parent != '/') continue;
    std::string path = absl::StrCat(parent, "/uroce-XXXXXX");
    if (path.size() + sizeof(kSocketName) > sizeof(sockaddr_un{}.sun_path)) continue;
    if (mkdtemp(path.data()) != nullptr) return path;
    refused = absl::ErrnoToStatus(errno, absl::StrCat("run: no directory in ", parent));
  }
  return refused;
}

/// The signals that this process takes in its loop: ends of children, and those that it passes on
/// to the program.
sigset_t HandledSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2}) {
    sigaddset(&set, number);
  }
  return set;
}

bool EndsPrograms(int number) { return number != SIGUSR1 && number != SIGUSR2; }

std::string Ended(int status) {
  return WIFSIGNALED(status) ? absl::StrCat("was killed by signal ", WTERMSIG(status))
                             : absl::StrCat("ended with status ", WEXITSTATUS(status));
}

std::string ReadLog(const std::string& directory) {
  std::ifstream file(directory + kLogName);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What uroced said last, for an error.
std::string LastLines(const std::string& log) {
  constexpr size_t kLines = 10;
  std::vector<std::string> lines = absl::StrSplit(log, '\n', absl::SkipEmpty());
  if (lines.size() > kLines) lines.erase(lines.begin(), lines.end() - kLines);
  std::string text;
  for (const std::string& line : lines) absl::StrAppend(&text, "\n  ", line);
  return text;
}

// ---- The keeper ----

/// What the keeper needs. The keeper has its own copy.
struct Keeping {
  std::string directory;
  std::string daemon;
  std::vector<std::string> options;
  Pipe life;   ///< Open for as long as this process lives.
  Pipe ready;  ///< The daemon writes a byte when it serves programs.
  sigset_t former_mask;
};

/// Becomes uroced.
[[noreturn]] void ExecDaemon(Keeping& keeping, pid_t keeper) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != keeper) _exit(kExitNotRunnable);
  sigprocmask(SIG_SETMASK, &keeping.former_mask, nullptr);
  const int log =
      open((keeping.directory + kLogName).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  fcntl(keeping.ready.write.get(), F_SETFD, 0);
  std::vector<std::string> words = {keeping.daemon, "--socket", keeping.directory + kSocketName,
                                    "--ready-fd", absl::StrCat(keeping.ready.write.get())};
  words.insert(words.end(), keeping.options.begin(), keeping.options.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(keeping.daemon.c_str(), arguments.data());
  fprintf(stderr, "cannot run %s: %s\n", keeping.daemon.c_str(),
          std::generic_category().message(errno).c_str());
  _exit(kExitNotRunnable);
}

/// Waits until the other end of `life` has closed. The first byte there says that the program runs:
/// from then on the keeper reports the end of the daemon. Returns whether the daemon has ended.
bool AwaitEnd(const Keeping& keeping, pid_t daemon, int signals) {
  bool has_started = false;
  bool has_ended = false;
  for (;;) {
    std::array<pollfd, 2> polled{{{keeping.life.read.get(), POLLIN, 0}, {signals, POLLIN, 0}}};
    poll(polled.data(), polled.size(), -1);
    char byte;
    if (polled[0].revents != 0) {
      if (read(keeping.life.read.get(), &byte, 1) <= 0) return has_ended;
      has_started = true;
    }
    signalfd_siginfo signal;
    if (polled[1].revents == 0 || read(signals, &signal, sizeof(signal)) <= 0) continue;
    int status = 0;
    if (has_ended || waitpid(daemon, &status, WNOHANG) != daemon) continue;
    has_ended = true;
    if (!has_started) continue;
    fprintf(stderr, "uroce: run: the private uroced %s%s\n", Ended(status).c_str(),
            LastLines(ReadLog(keeping.directory)).c_str());
  }
}

void EndDaemon(pid_t daemon, int signals) {
  kill(daemon, SIGTERM);
  for (int left = kEndOfDaemonMs / 100; waitpid(daemon, nullptr, WNOHANG) == 0; --left) {
    if (left == 0) kill(daemon, SIGKILL);
    pollfd polled{signals, POLLIN, 0};
    signalfd_siginfo signal;
    if (poll(&polled, 1, 100) == 1) (void)!read(signals, &signal, sizeof(signal));
  }
}

[[noreturn]] void Keep(Keeping& keeping) {
  setsid();  // Signals of the terminal are for the program.
  keeping.life.write.Reset();
  keeping.ready.read.Reset();
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  const int signals = signalfd(-1, &children, SFD_CLOEXEC);
  const pid_t self = getpid();
  const pid_t daemon = fork();
  if (daemon == 0) ExecDaemon(keeping, self);
  keeping.ready.write.Reset();
  // Without a process for the daemon its end of `ready` is closed: the run ends with an error.
  if (daemon > 0 && !AwaitEnd(keeping, daemon, signals)) EndDaemon(daemon, signals);
  std::error_code error;
  std::filesystem::remove_all(keeping.directory, error);
  _exit(0);
}

/// Starts the keeper. Its end sends no SIGCHLD, and waits for all children pass over it: those wait
/// for the program and its children.
pid_t StartKeeper(Keeping& keeping) {
  const auto keeper = static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr));
  if (keeper == 0) Keep(keeping);
  return keeper;
}

// ---- The program ----

/// Waits until the daemon serves programs. Returns 0, or the signal that has come before; -1: the
/// daemon has ended.
int AwaitReady(int ready, int signals) {
  for (;;) {
    std::array<pollfd, 2> polled{{{ready, POLLIN, 0}, {signals, POLLIN, 0}}};
    poll(polled.data(), polled.size(), -1);
    char byte;
    if (polled[0].revents != 0) return read(ready, &byte, 1) == 1 ? 0 : -1;
    signalfd_siginfo signal;
    if (polled[1].revents == 0 || read(signals, &signal, sizeof(signal)) <= 0) continue;
    const auto number = static_cast<int>(signal.ssi_signo);
    if (number != SIGCHLD && EndsPrograms(number)) return number;
  }
}

/// Becomes the program.
[[noreturn]] void ExecProgram(const LaunchEnvironment& environment,
                              const std::vector<std::string>& program, const sigset_t& mask,
                              pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kExitNotRunnable);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  const absl::Status status = Exec(environment, program);
  fprintf(stderr, "uroce: %s\n", std::string(status.message()).c_str());
  _exit(ExitStatusOfExec(status));
}

/// The children that this process has, the keeper excepted.
std::vector<pid_t> Children(pid_t keeper) {
  const std::string self = absl::StrCat(getpid());
  std::ifstream file(absl::StrCat("/proc/", self, "/task/", self, "/children"));
  std::vector<pid_t> children;
  for (pid_t child; file >> child;) {
    if (child != keeper) children.push_back(child);
  }
  return children;
}

/// Waits for the program and then for its children.
class Waiting {
 public:
  Waiting(pid_t program, pid_t keeper, int signals)
      : program_(program), keeper_(keeper), signals_(signals) {}

  /// Returns the program's exit status.
  int Await() {
    while (Reap()) {
      pollfd polled{signals_, POLLIN, 0};
      const bool tells = has_ended_ && !has_told_;
      if (poll(&polled, 1, tells ? kTellOfWaitMs : -1) == 0) Tell();
      signalfd_siginfo signal;
      if (polled.revents != 0 && read(signals_, &signal, sizeof(signal)) > 0) OnSignal(signal);
    }
    return status_;
  }

 private:
  /// False: no child is left.
  bool Reap() {
    int status = 0;
    pid_t child;
    while ((child = waitpid(-1, &status, WNOHANG)) > 0) {
      if (child != program_) continue;
      has_ended_ = true;
      status_ = WIFSIGNALED(status) ? kExitBySignal + WTERMSIG(status) : WEXITSTATUS(status);
    }
    return child == 0;
  }

  void OnSignal(const signalfd_siginfo& signal) {
    const auto number = static_cast<int>(signal.ssi_signo);
    if (number == SIGCHLD) return;
    // The terminal sends its signals to the program, too.
    if (!has_ended_ && signal.ssi_code <= 0) kill(program_, number);
    if (!has_ended_ || !EndsPrograms(number)) return;
    // Programs that a shell has put into the background ignore SIGINT.
    for (const pid_t child : Children(keeper_)) kill(child, has_asked_ ? SIGKILL : SIGTERM);
    has_asked_ = true;
  }

  void Tell() {
    has_told_ = true;
    fprintf(stderr, "uroce: run: the program has ended; its children still run:");
    for (const pid_t child : Children(keeper_)) fprintf(stderr, " %d", child);
    fprintf(stderr, "\n");
  }

  const pid_t program_;
  const pid_t keeper_;
  const int signals_;
  int status_ = 0;
  bool has_ended_ = false;  ///< The program.
  bool has_told_ = false;
  bool has_asked_ = false;  ///< Its children have got SIGTERM.
};

}  // namespace

absl::StatusOr<std::string> FindDaemon() {
  const std::string places[] = {FromOwnFolder("../nic/uroced"),
                                FromOwnFolder(UROCE_DAEMON_DIR "/uroced")};
  for (const std::string& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  return absl::NotFoundError(
      absl::StrCat("run: uroced is neither at ", places[0], " nor at ", places[1]));
}

absl::StatusOr<int> RunWithPrivateDaemon(const std::vector<std::string>& options,
                                         const std::vector<std::string>& program) {
  absl::StatusOr<std::string> daemon = FindDaemon();
  if (!daemon.ok()) return daemon.status();
  absl::StatusOr<std::string> directory = MakeDirectory();
  if (!directory.ok()) return directory.status();
  const absl::StatusOr<LaunchEnvironment> environment =
      MakeLaunchEnvironment(*directory + kSocketName);
  absl::StatusOr<Pipe> life = MakePipe();
  absl::StatusOr<Pipe> ready = MakePipe();
  const sigset_t handled = HandledSignals();
  sigset_t former_mask;
  sigprocmask(SIG_BLOCK, &handled, &former_mask);
  const Fd signals(signalfd(-1, &handled, SFD_CLOEXEC));
  pid_t keeper = -1;
  Keeping keeping{.directory = *directory,
                  .daemon = *daemon,
                  .options = options,
                  .life = {},
                  .ready = {},
                  .former_mask = former_mask};
  if (environment.ok() && life.ok() && ready.ok() && signals) {
    keeping.life = *std::move(life);
    keeping.ready = *std::move(ready);
    keeper = StartKeeper(keeping);
  }
  if (keeper < 0) {
    rmdir(directory->c_str());
    return environment.ok() ? absl::UnavailableError("run: no process for a daemon")
                            : environment.status();
  }
  keeping.life.read.Reset();
  keeping.ready.write.Reset();
  const auto end_daemon = [&] {
    keeping.life.write.Reset();
    waitpid(keeper, nullptr, __WALL);
    sigprocmask(SIG_SETMASK, &former_mask, nullptr);
  };

  const int outcome = AwaitReady(keeping.ready.read.get(), signals.get());
  if (outcome != 0) {
    const std::string log = ReadLog(*directory);
    end_daemon();
    if (outcome > 0) return kExitBySignal + outcome;
    return absl::UnavailableError(absl::StrCat("run: uroced could not start:", LastLines(log)));
  }
  (void)!write(keeping.life.write.get(), "", 1);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child == 0) ExecProgram(*environment, program, former_mask, self);
  const int status = child < 0 ? kExitNotRunnable : Waiting(child, keeper, signals.get()).Await();
  end_daemon();
  if (child < 0) return absl::UnavailableError("run: no process for the program");
  return status;
}

}  // namespace uroce::tools
