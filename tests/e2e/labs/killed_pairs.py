# SPDX-License-Identifier: Apache-2.0
"""Pairs of programs that transfer, with every byte checked, until one of them dies; and what a
daemon holds, to be compared before and after."""
import math
import os
import shutil
import signal
import struct
import tempfile

from labs.lab import BUILD, Daemon, WireLab, find_list
from labs.netns import BareNamespace
from labs.process import PATIENCE, Failed, resident_kilobytes, wait_until

ENDURE = BUILD / "tests" / "e2e" / "until_killed"
# As ibv_modify_qp takes it: a power of two.
ACK_TIMEOUT = 14 + max(0, math.ceil(math.log2(PATIENCE)))
# Exit statuses of until_killed (until_killed.h).
TOLD, PEER_GONE, DEVICE_GONE = 0, 3, 4
# One of each way to wait, to reach memory and to load the daemon with commands.
KINDS = [
    ([], {}),
    (["--sleep"], {}),
    (["--churn"], {}),
    (["--churn", "--sleep"], {"UROCE_MR": "copied"}),
    (["--max-bytes", 1 << 20], {"UROCE_MR": "copied"}),
]


class Pair:
    """Both ends of a pair, one on each host. End with `kill`. `by` starts a program as another
    user."""

    def __init__(self, lab, *flags, settings=None, seed=1, by=()):
        self._lab = lab
        self.exchange = tempfile.mkdtemp(prefix="uroce-e2e-")
        if by:
            os.chmod(self.exchange, 0o777)
        variables = [f"{key}={value}" for key, value in (settings or {}).items()]

        def program(role):
            return [*by, "env", *variables, ENDURE, "--role", role, "--exchange", self.exchange,
                    "--device-a", lab.a.device, "--device-b", lab.b.device,
                    "--gid-a", lab.a.gid_index(), "--gid-b", lab.b.gid_index(),
                    "--seed", seed, "--deadline", int(60 * PATIENCE), "--timeout", ACK_TIMEOUT,
                    *flags]

        self.ends = [lab.a.start(*program(0)), lab.b.start(*program(1))]

    def rounds(self, role):
        """How many rounds an end has done; 0 also before it has begun."""
        try:
            with open(f"{self.exchange}/rounds.{role}", "rb") as file:
                return struct.unpack("<Q", file.read(8))[0]
        except (OSError, struct.error):
            return 0

    def is_right(self):
        """Whether both ends run; fails when one has ended."""
        for end in self.ends:
            if not end.running():
                raise Failed(f"an end has ended with {end.wait(1)}: {end.describe()}")
        return True

    def wait_for_progress(self):
        """Both ends do another round; what was under way before proves nothing."""
        goals = [self.rounds(role) + 2 for role in (0, 1)]
        wait_until(lambda: self.is_right() and
                   all(self.rounds(role) >= goals[role] for role in (0, 1)),
                   f"progress: {goals}", 60)

    def expect_ends(self, wanted, roles=(0, 1)):
        for role in roles:
            status = self.ends[role].wait(60)
            if status != wanted:
                raise Failed(f"end {role} has ended with {status}, not {wanted}: "
                             f"{self.ends[role].describe()}")

    def stop(self):
        """Tells one end to end; the other must notice."""
        self.ends[0].signal(signal.SIGTERM)
        self.expect_ends(TOLD, roles=[0])
        self.expect_ends(PEER_GONE, roles=[1])

    def kill(self):
        for end in self.ends:
            end.kill()
        shutil.rmtree(self.exchange, ignore_errors=True)


class MortalLab(WireLab):
    """A daemon that can be killed and started again on its socket, and programs by the thousand."""

    make_namespace = BareNamespace

    def kill_daemon(self, number=signal.SIGKILL):
        self.daemons[0].process.signal(number)
        self.daemons[0].process.wait(30)
        self.daemons.clear()

    def start_daemon_again(self):
        daemon = Daemon(self.namespace, f"{self.directory}/0", [
            "--wire", "uroce0=10.0.0.1/24+fd00::1/64,uroce1=10.0.0.2/24+fd00::2/64",
            *self.arguments])
        self.daemons.append(daemon)
        self.a.daemon = self.b.daemon = daemon

    def _build(self):
        super()._build()
        self.namespace = self.namespaces[0]


def holdings(pid):
    """What a process holds that must not grow: fds, shared mappings and threads."""
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as lines:
        shared = sum(1 for line in lines if "memfd:uroce" in line)
    return {"fds": len(os.listdir(f"/proc/{pid}/fd")), "shared maps": shared,
            "threads": len(os.listdir(f"/proc/{pid}/task"))}


def holdings_at_rest(lab):
    """`holdings` of the daemon when it has no program: what one leaves goes after its end, over
    several turns and threads."""
    pid = lab.daemons[0].process.pid
    looks = [holdings(pid)]

    def rests():
        looks.append(holdings(pid))
        return looks[-1]["shared maps"] == 0 and looks[-20:].count(looks[-1]) == 20

    wait_until(rests, "the daemon to rest", 60)
    return looks[-1]


def all_maps(pid):
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as lines:
        return sum(1 for _ in lines)


def weight(pid):
    """`holdings` and what allocators may keep, for a report."""
    return {**holdings(pid), "maps": all_maps(pid), "rss KB": resident_kilobytes(pid)}


def wait_until_back(lab, before, patience_s=60):
    """Waits until the daemon has no queue pairs and regions, and holds no more than before."""
    pid = lab.daemons[0].process.pid
    for what in ("qp", "mr"):
        wait_until(lambda what=what: not find_list(lab.a.dump(what)), f"no {what} to be left",
                   patience_s)
    try:
        wait_until(lambda: all(count <= before[what] for what, count in holdings(pid).items()),
                   "all to be given back", patience_s)
    except Failed as error:
        raise Failed(f"{error}: {before} has become {holdings(pid)}") from None
