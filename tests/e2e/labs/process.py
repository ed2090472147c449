# SPDX-License-Identifier: Apache-2.0
"""Programs under test: started, watched and always ended, by their process id."""
import glob
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
import weakref

# Deadlines are for a loaded machine; one that is slower by nature, as an emulated one, says by how
# much.
PATIENCE = float(os.environ.get("UROCE_E2E_PATIENCE", "1"))
# Programs end with this process. With a function between fork and exec, Python would copy its own
# address space for each. A test may give a program another PATH.
_TIED = (shutil.which("setpriv") or "setpriv", "--pdeathsig", "KILL", "--")
_IN_MEMORY = "/dev/shm"
_LEAST_FREE_BYTES = 1 << 30


def _is_fit_for_labs(place):
    """Programs run from there, and captures lie there."""
    try:
        system = os.statvfs(place)
    except OSError:
        return False
    return (not system.f_flag & os.ST_NOEXEC
            and system.f_bavail * system.f_frsize >= _LEAST_FREE_BYTES)


# A daemon makes some 350 files, which takes some file systems of disks a fifth of a second.
if _is_fit_for_labs(_IN_MEMORY):
    tempfile.tempdir = _IN_MEMORY


class Failed(AssertionError):
    """A program did not do what it should; the text holds what it said."""


class Patience:
    """Time to wait for something. A machine that stands still, as a virtual one does at times, lets
    nothing go on: between two looks a second passes at most."""

    def __init__(self, seconds):
        self._left = seconds * PATIENCE
        self._last = time.monotonic()

    def is_over(self):
        now = time.monotonic()
        self._left -= min(now - self._last, 1)
        self._last = now
        return self._left < 0


class Process:
    """A program whose output goes to a file, so that it never blocks on a full pipe."""

    started = weakref.WeakSet()

    def __init__(self, command, env=None, stdout=None):
        self.command = [str(word) for word in command]
        self._output = tempfile.TemporaryFile()
        self._popen = subprocess.Popen(
            [*_TIED, *self.command], stdin=subprocess.DEVNULL, stdout=stdout or self._output,
            stderr=self._output, env=env)
        self.pid = self._popen.pid
        self.at_hang = lambda: ""  # What else to tell of a program that takes too long.
        Process.started.add(self)

    def output(self):
        """What it has said so far. Reading moves no offset: the program writes at the same one."""
        file = self._output.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def running(self):
        return self._popen.poll() is None

    def wait(self, timeout_s):
        """The exit status; a program that takes longer is killed and has failed."""
        if not self.running():
            return self._popen.returncode
        patience, end = Patience(timeout_s), select.poll()
        pidfd = os.pidfd_open(self.pid)
        try:
            end.register(pidfd, select.POLLIN)
            while self.running():
                if patience.is_over():
                    threads = where_threads_wait(self.pid) + self.at_hang()
                    self.kill()
                    raise Failed(f"still running after {timeout_s} s: {self.describe()}\n{threads}")
                end.poll(500)
        finally:
            os.close(pidfd)
        return self._popen.returncode

    def expect_success(self, timeout_s):
        status = self.wait(timeout_s)
        if status:
            raise Failed(f"exit status {status}: {self.describe()}")
        return self.output()

    def signal(self, number):
        self._popen.send_signal(number)

    def kill(self):
        if self.running():
            self._popen.kill()
        self._popen.wait()

    def stop(self, timeout_s=30):
        """Asks politely; returns the exit status."""
        if self.running():
            self._popen.terminate()
        return self.wait(timeout_s)

    def describe(self):
        return " ".join(self.command) + "\n" + tail(self.output())


def describe_running():
    """All programs that run now: what they said last and where they wait."""
    return "\n".join(f"-- {process.describe()}\n{where_threads_wait(process.pid)}"
                     for process in list(Process.started) if process.running())


def tail(text, lines=40):
    return "\n".join(text.rstrip().splitlines()[-lines:])


def run(command, timeout_s=60, env=None):
    """Runs a program that must succeed; returns its output."""
    process = Process(command, env)
    return process.expect_success(timeout_s)


def json_of(command, timeout_s=60):
    """Runs a program that must succeed and prints JSON. What it says on stderr is no part of that:
    `uroce` may say that the daemon is stopped and that it waits."""
    with tempfile.TemporaryFile() as printed:
        Process(command, stdout=printed).expect_success(timeout_s)
        printed.seek(0)
        return json.load(printed)


def run_status(command, timeout_s=60, env=None):
    """Runs a program; returns (exit status, output)."""
    process = Process(command, env)
    return process.wait(timeout_s), process.output()


def wait_until(condition, what, timeout_s=60.0):
    """Polls until `condition` holds, for a third of the time at most: a look may take programs. The
    limit is for what hangs: machines stand for seconds."""
    patience = Patience(timeout_s)
    while True:
        begin = time.monotonic()
        if result := condition():
            return result
        took = time.monotonic() - begin
        if patience.is_over():
            raise Failed(f"waited {timeout_s} s in vain for {what}\n{describe_running()}")
        time.sleep(min(max(0.01, 2 * took), 0.1))


def is_listening(pid, port):
    """Whether a process in the network namespace of `pid` listens on a TCP port."""
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{table}", encoding="ascii") as lines:
                for line in list(lines)[1:]:
                    fields = line.split()
                    if fields[3] == "0A" and int(fields[1].split(":")[1], 16) == port:
                        return True
        except OSError:
            pass
    return False


def where_threads_wait(pid):
    """State and kernel stack of each thread: what a program that does not end waits for."""
    text = []
    for task in sorted(glob.glob(f"/proc/{pid}/task/*")):
        parts = []
        for name in ("stat", "stack"):
            try:
                with open(f"{task}/{name}", encoding="ascii", errors="replace") as file:
                    parts.append(file.read().rstrip())
            except OSError as error:
                parts.append(str(error))
        state = parts[0].rsplit(")", 1)[-1].split()[:1]
        text.append(f"thread {os.path.basename(task)} {' '.join(state)}\n{parts[1]}")
    return "\n".join(text)


def resident_kilobytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def cpu_seconds(pid):
    """User and system time that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
