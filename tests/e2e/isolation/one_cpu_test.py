# SPDX-License-Identifier: Apache-2.0
"""Daemon, programs and a busy process on one CPU: each that waits gives the CPU away, and nothing
is lost or stands still."""
import os
import unittest
from pathlib import Path

from labs.lab import WireLab
from labs.process import Process, wait_until
from labs.programs import DataCheck, endless_writes, perftest, pingpong


def switches(pid):
    """How often a process has given its CPU away to sleep; a yield does not count."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines
                if line.startswith("voluntary_ctxt_switches"))


def child_named(pid, name):
    """The process that `pid` has become or started, once it has this name; None before."""
    for child in [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]:
        if Path(f"/proc/{child}/comm").read_text().strip() == name:
            return child
    return None


class SharedCoreTest(unittest.TestCase):
    def setUp(self):
        allowed = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, allowed)
        os.sched_setaffinity(0, {min(allowed)})
        self.lab = WireLab()
        self.addCleanup(self.lab.close)
        busy = Process(["python3", "-c", "while True: pass"])
        self.addCleanup(busy.kill)

    def test_transfers_of_every_kind_have_the_right_data(self):
        DataCheck(self.lab).finish(timeout_s=300)

    def test_programs_that_answer_each_other_go_on(self):
        pingpong(self.lab, "-n", 500)
        perftest(self.lab, "ib_send_lat", "-n", 500)
        perftest(self.lab, "ib_send_bw", "-b", "-n", 2000)  # A queue for either direction.

    def test_a_program_that_polls_sleeps(self):
        _, client = endless_writes(self, self.lab, "-s", 64)
        wait_until(lambda: child_named(client.pid, "ib_write_bw"), "the client")
        pid = child_named(client.pid, "ib_write_bw")
        before = switches(pid)
        wait_until(lambda: switches(pid) > before + 500, "sleeps of the client", 60)


if __name__ == "__main__":
    unittest.main()
