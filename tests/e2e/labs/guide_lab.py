# SPDX-License-Identifier: Apache-2.0
"""The reader of a page: its own machine, or two that are joined by `eth0`, in whose shells
commands are typed one after the other."""
import contextlib
import glob
import os
import re
import shutil
import signal
import tempfile
import time

from labs.guide_text import comment_of, commands, prints
from labs.lab import BUILD, ROOT
from labs.netns import Namespace, remove_stale
from labs.process import PATIENCE, Failed, Process, wait_until

UID = 61004
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What `sudo` leaves of the environment.
SUDO = f"""#!/bin/sh
exec env -i PATH={PATH} HOME="$HOME" USER=root LOGNAME=root TERM=dumb LANG=C.UTF-8 "$@"
"""
# What a program that does not handle Ctrl-C ends with.
INTERRUPTED = {-signal.SIGINT, 128 + signal.SIGINT}
# Files of the machine that commands change: copies for this reader alone.
COPIES = ("/etc", *glob.glob("/usr/lib/*/wireshark"))


class Machine:
    """A namespace of network and mounts: with a /run, /var/tmp and /etc that are its own, and the
    build and the golden captures where the pages have them. Its programs are root's where the page
    says sudo, and otherwise of a user without privilege."""

    def __init__(self):
        self.namespace = Namespace()
        self.directory = tempfile.mkdtemp(prefix="uroce-e2e-")
        os.chmod(self.directory, 0o711)
        for name in ("work", "work/build", "work/tools", "work/tests/golden", "bin", "root",
                     "home"):
            os.makedirs(f"{self.directory}/{name}")
        with open(f"{self.directory}/bin/sudo", "w", encoding="ascii") as file:
            file.write(SUDO)
        os.chmod(f"{self.directory}/bin/sudo", 0o755)
        self.work = f"{self.directory}/work"
        for name in ("work", "home"):
            os.chown(f"{self.directory}/{name}", UID, UID)
        self.preludes = {True: [], False: []}
        self._holder = Process(self.namespace.command(
            ["unshare", "--mount", "sh", "-ec", self._mounts()]))
        try:
            wait_until(self._is_made, "the mounts of a machine")
        except Failed:
            self.remove()
            raise

    def _mounts(self):
        copies = "".join(
            f"cp -a {path} /run/copy{i}; mount --bind /run/copy{i} {path}\n"
            for i, path in enumerate(COPIES))
        return f"""
            mount -t tmpfs run /run
            mount -t tmpfs -o mode=1777 var_tmp /var/tmp
            {copies}
            mkdir -p /run/user/{UID}
            chown {UID} /run/user/{UID}
            echo 'reader:x:{UID}:{UID}::{self.directory}/home:/bin/sh' >>/etc/passwd
            echo 'reader:x:{UID}:' >>/etc/group
            mount --bind {BUILD} {self.work}/build
            mount -o remount,bind,ro {self.work}/build
            mount --bind {ROOT}/tools {self.work}/tools
            mount --bind {ROOT}/tests/golden {self.work}/tests/golden
            echo made
            exec sleep infinity"""

    def _is_made(self):
        if not self._holder.running():
            raise Failed(f"a machine could not be made: {self._holder.describe()}")
        return "made" in self._holder.output()

    def command(self, text, is_root):
        """A shell that runs `text`, in its own process group."""
        home = f"{self.directory}/{'root' if is_root else 'home'}"
        environment = [f"HOME={home}", "LANG=C.UTF-8", "TERM=dumb",
                       f"PATH={self.directory}/bin:{PATH}"]
        user = []
        if not is_root:
            environment += ["USER=reader", f"XDG_RUNTIME_DIR=/run/user/{UID}"]
            user = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
        return ["nsenter", f"--target={self._holder.pid}", "--mount", "--net",
                f"--wdns={self.work}",
                "setsid", *user, "env", "-i", *environment, "bash", "-c", text]

    def listeners(self):
        """On how many TCP ports processes listen."""
        count = 0
        for table in ("tcp", "tcp6"):
            with open(f"/proc/{self._holder.pid}/net/{table}", encoding="ascii") as lines:
                count += sum(line.split()[3] == "0A" for line in lines)
        return count

    def remove(self):
        self._holder.kill()
        self.namespace.remove()
        shutil.rmtree(self.directory, ignore_errors=True)


def join(first, second):
    """eth0 in both, up, with the addresses 192.0.2.1 and .2, 2001:db8::1 and ::2."""
    first.namespace.ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns",
                       second.namespace.name)
    for number, machine in ((1, first), (2, second)):
        machine.namespace.ip("addr", "add", f"192.0.2.{number}/24", "dev", "eth0")
        machine.namespace.ip("addr", "add", f"2001:db8::{number}/64", "dev", "eth0",
                             "nodad")
        machine.namespace.ip("link", "set", "eth0", "up")
    for machine in (first, second):  # The kernel says so up to a second later.
        wait_until(lambda its=machine: "state UP" in its.namespace.ip("link", "show", "eth0"),
                   "the cable")


class Background:
    """A command that ends in `&`."""

    def __init__(self, machine, text, process):
        self.machine = machine
        self.text = text
        self.process = process
        self.is_daemon = "nic/uroced" in text

    def wait_ready(self, listeners):
        """Until it can be talked to: a reader takes longer to type the next command."""
        if self.is_daemon:
            wait_until(self._says_ready, f"{self.text} to be ready")
            return
        deadline = time.monotonic() + 30 * PATIENCE
        still = 0  # For how many looks no thread of it has run.
        while time.monotonic() < deadline and self.process.running() and still < 100:
            if self.machine.listeners() > listeners or "capturing on" in self.process.output():
                return
            still = still + 1 if is_asleep(self.process.pid) else 0
            time.sleep(0.01)

    def _says_ready(self):
        if not self.process.running():
            raise Failed(f"it has ended: {self.text}\n{self.process.output()}")
        # As text, or as a message of JSON.
        return re.search(r'uroced: ready|"message":"ready', self.process.output()) is not None


class Reader:
    """Types what the sections of a page say. `close` ends what runs, by id, in the reverse order:
    each has to end well. A failure names the line of the page."""

    longest_wait_s = 60  # For a line to be printed.

    def __init__(self, page, has_interface):
        self._page = page
        # Who is started in the background by a shell hands it on that SIGINT is ignored.
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        remove_stale()
        self._machines = [Machine()]
        if has_interface:
            self._machines.append(Machine())
            join(*self._machines)
        self._background = []
        self._outputs = []
        self.commands = 0

    def type_block(self, block):
        places = self._machines[:1]
        for line, command in commands(block):
            comment = comment_of(command) if command.lstrip().startswith("#") else ""
            named = re.fullmatch(r"on (both machines|the (first|second))", comment)
            if named:
                places = self._machines[{"first": 0, "second": 1}.get(named[2], 0):
                                        {"first": 1}.get(named[2], 2)]
                continue
            if comment:
                continue
            for machine in places:
                self.commands += 1
                try:
                    self._type(machine, command)
                except Failed as error:
                    raise Failed(f"{self._page}:{line}: {command}\n{error}") from None

    def expect_output(self, block):
        """Each line of `block` has to be printed by what was typed before."""
        for number, line in enumerate(block.lines, block.line):
            if not line.strip():
                continue
            pattern = prints(line)
            deadline = time.monotonic() + self.longest_wait_s * PATIENCE
            while not pattern.search(self._printed()):
                if time.monotonic() > deadline:
                    raise Failed(f"{self._page}:{number}: nothing printed: {line}\n"
                                 f"-- all that was:\n{self._printed()}")
                time.sleep(0.05)

    def close(self):
        """Ends all. Raises Failed when something does not end, or not well."""
        try:
            while self._background:
                self._end(self._background.pop())
        finally:
            self.tear_down()

    def tear_down(self):
        for background in self._background:
            background.process.kill()
        for machine in self._machines:
            machine.remove()
        self._machines, self._background = [], []

    def _printed(self):
        return "\n".join(process.output() for process in self._outputs)

    def _start(self, machine, text, is_root):
        text = "\n".join([*machine.preludes[is_root], text])
        process = Process(machine.command(text, is_root))
        self._outputs.append(process)
        return process

    def _type(self, machine, command):
        comment = comment_of(command)
        bare = command.removesuffix(f"# {comment}").rstrip() if comment else command.rstrip()
        is_root = bool(re.search(r"(^|[\s|;(])sudo\s", bare))
        if re.fullmatch(r"(export )?\w+=.*|eval .*", bare, re.S):
            self._run(machine, command, False, comment)
            for prelude in machine.preludes.values():
                prelude.append(bare)
        elif bare.endswith("&"):
            listeners = machine.listeners()
            process = self._start(machine, bare.rstrip("& "), is_root)
            background = Background(machine, command, process)
            self._background.append(background)
            background.wait_ready(listeners)
        else:
            self._run(machine, command, is_root, comment)
            self._let_end()

    def _run(self, machine, command, is_root, comment):
        process = self._start(machine, command, is_root)
        wanted = re.search(r"exit status (\d+)", comment)
        allowed = {int(wanted[1]) if wanted else 0}
        try:
            if "Ctrl-C" in comment:
                self._interrupt(process)
                allowed |= INTERRUPTED
            status = process.wait(60)
        finally:
            kill_group(process)
        if status not in allowed:
            raise Failed(f"exit status {status}\n{process.output()}")

    def _interrupt(self, process):
        """As Ctrl-C does, a moment after it has said something, or when it waits in silence."""
        deadline = time.monotonic() + 30 * PATIENCE
        still = said = 0  # Looks at which all of it slept, and at which it had said something.
        while (time.monotonic() < deadline and process.running() and still < 200 and said < 20):
            still = still + 1 if is_asleep(process.pid) else 0
            said += bool(process.output())
            time.sleep(0.01)
        if not process.running():
            raise Failed(f"it has ended without Ctrl-C\n{process.output()}")
        os.killpg(process.pid, signal.SIGINT)

    def _let_end(self):
        """Programs of the background that have done their part end before the next command."""
        deadline = time.monotonic() + 0.5 * PATIENCE
        while time.monotonic() < deadline and any(
                b.process.running() and not b.is_daemon for b in self._background):
            time.sleep(0.01)

    def _end(self, background):
        process = background.process
        allowed = {0}
        try:
            if background.is_daemon:
                if not process.running():
                    raise Failed("it has ended by itself")
                process.signal(signal.SIGTERM)
            elif "Ctrl-C" in comment_of(background.text):
                self._interrupt(process)
                allowed |= INTERRUPTED
            status = process.wait(20)
            if status not in allowed:
                raise Failed(f"exit status {status}")
        except Failed as error:
            raise Failed(f"{self._page}: {background.text}\n{error}\n{process.output()}") from None
        finally:
            kill_group(process)


def is_asleep(group):
    """Whether all threads of a process group sleep. One that does not exist yet does not."""
    exists = False
    for process in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):  # It has ended.
            if os.getpgid(int(process.removeprefix("/proc/"))) != group:
                continue
            exists = True
            for path in glob.glob(f"{process}/task/*/stat"):
                with open(path, encoding="ascii", errors="replace") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] != "S":
                        return False
    return exists


def kill_group(process):
    """Ends a command and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.kill()
