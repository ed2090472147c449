# SPDX-License-Identifier: Apache-2.0
"""A Linux guest with Soft-RoCE, booted by the scripts of rxe-lab, as a host of a lab."""
import functools
import itertools
import json
import os
import shlex
import shutil
from pathlib import Path

from labs.lab import ROOT, VERBS_CHECK, Host
from labs.process import Failed, Process, run, run_status

SCRIPTS = Path(os.environ.get("UROCE_RXE_LAB", ROOT.parent / "shared" / "rxe-lab"))
CACHE = Path(os.environ.get("UROCE_RXE_CACHE", "/var/cache/rxe-lab"))
BUILD_LIMIT_S = 900
BOOT_LIMIT_S = 60
# What a test that was killed leaves behind ends itself then.
LIFE_LIMIT_S = 1800
# User Mode Linux misses an interrupt that comes while it is about to sleep, and then sleeps until
# its next timer, seconds later: by then all retries are spent. A program that wakes up this often
# makes the pause shorter than an ACK timeout.
PULSE_S = 0.02


def is_built():
    """Whether there is a guest already."""
    return (CACHE / "uml" / "linux").exists() and (CACHE / "rootfs" / ".done").exists()


@functools.cache
def missing():
    """What there is not, to boot a guest; empty when all is there. It builds a guest that does not
    exist yet: some minutes, once on a machine."""
    if os.geteuid() != 0:
        return "needs root: network namespaces, taps and packet sockets"
    if not (SCRIPTS / "build-guest.sh").exists():
        return f"no rxe-lab in {SCRIPTS}: say where by --lab DIRECTORY or UROCE_RXE_LAB"
    if not VERBS_CHECK.exists():
        return f"no {VERBS_CHECK}: build first (ninja -C build)"
    if not is_built():
        print(f"   builds a Soft-RoCE guest in {CACHE}: some minutes", flush=True)
        try:
            run([SCRIPTS / "build-guest.sh", "--kind", "uml", CACHE], BUILD_LIMIT_S)
        except Failed as error:
            return f"no guest in {CACHE}, and none could be built: {error}"
    return ""


class GuestProcess(Process):
    """A program in the guest. Its output is there when it has ended."""

    _numbers = itertools.count()

    def __init__(self, guest, program):
        self._guest = guest
        self._pid_file = f"/tmp/program-{next(self._numbers)}"
        super().__init__(guest.shell(
            f"echo $$ >{self._pid_file}; exec {shlex.join(map(str, program))}"))

    def kill(self):
        """Ends the program, and only then the one here that waits for it."""
        if self.running():
            run_status(self._guest.shell(f"kill -KILL $(cat {self._pid_file})"))
            try:
                super().wait(5)
            except Failed:
                pass
        super().kill()


class Guest(Host):
    """The guest as a host: rxe0 is its device, programs run in it, /share is a directory here."""

    def __init__(self, directory, address, address6, *arguments):
        """Boots it. `arguments` of run-guest.sh say how it is attached."""
        super().__init__(None, None, "rxe0", address, address6)
        self.directory = f"{directory}/rxe"
        self.share = f"{directory}/rxe/share"
        os.makedirs(self.share)
        shutil.copy(VERBS_CHECK, self.share)
        run([SCRIPTS / "run-guest.sh", "--cache", CACHE, "--dir", self.directory,
             "--ip", f"{address}/24", "--ip6", f"{address6}/64", "--timeout", LIFE_LIMIT_S,
             *arguments], BOOT_LIMIT_S)
        run([SCRIPTS / "guest-exec.sh", "-b", self.directory,
             f"mkfifo /tmp/pulse; while :; do read -t {PULSE_S} <>/tmp/pulse; done"])

    def shell(self, text):
        """A shell command in the guest, as a command here."""
        return [SCRIPTS / "guest-exec.sh", "--timeout", LIFE_LIMIT_S, self.directory, text]

    def verbs(self, *program):
        return self.shell(shlex.join(map(str, program)))

    def start(self, *program, preload=None):
        """`preload` is for this machine alone."""
        return GuestProcess(self, program)

    def is_listening(self, program, port):
        status, _ = run_status(self.shell(
            f"grep -qi ':{port:04x} [0:]* 0A' /proc/net/tcp /proc/net/tcp6"))
        return status == 0

    def dump(self, what):
        """Of `cm` alone, as Host has it: the ids that librdmacm programs have in the guest."""
        if what != "cm":
            raise NotImplementedError(what)
        listed = json.loads(self.run("rdma", "-j", "resource", "show", "cm_id") or "[]")
        return [{"state": entry.get("state", ""), "local": entry.get("src-addr", "")}
                for entry in listed]

    def seen(self, path):
        if path == VERBS_CHECK:
            return f"/share/{VERBS_CHECK.name}"
        return "/share/" + os.path.relpath(path, self.share)

    def stop(self):
        run([SCRIPTS / "run-guest.sh", "--stop", "--dir", self.directory])
