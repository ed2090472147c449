# SPDX-License-Identifier: Apache-2.0
"""Daemons and programs that end at the wrong moment."""
import signal
import time
import unittest

from labs.lab import VethLab, WireLab, find_list
from labs.process import cpu_seconds, wait_until
from labs.programs import endless_writes, pingpong


class LifetimeTest(unittest.TestCase):
    def setUp(self):
        self.lab = WireLab()

    def tearDown(self):
        self.lab.tear_down()

    def test_killed_program_leaves_no_queue_pair_and_no_memory(self):
        server, client = endless_writes(self, self.lab)
        client.signal(signal.SIGKILL)
        server.signal(signal.SIGKILL)
        wait_until(lambda: not find_list(self.lab.a.dump("qp")), "the queue pairs to go")
        wait_until(lambda: not find_list(self.lab.a.dump("mr")), "the memory regions to go")
        pingpong(self.lab, "-c")
        self.lab.close()

    def test_program_whose_peer_was_killed_gets_an_error_and_ends(self):
        server, client = endless_writes(self, self.lab)
        server.signal(signal.SIGKILL)
        status = client.wait(30)
        self.assertNotEqual(status, 0, client.output())
        self.lab.close()

    def test_killed_daemon_ends_programs_with_an_error(self):
        server, client = endless_writes(self, self.lab)
        self.lab.daemons[0].process.signal(signal.SIGKILL)
        for program in (server, client):
            self.assertNotEqual(program.wait(30), 0, program.output())

    def test_daemon_that_is_told_to_end_does_so_under_load(self):
        server, client = endless_writes(self, self.lab)
        self.lab.daemons[0].stop()
        for program in (server, client):
            self.assertNotEqual(program.wait(30), 0, program.output())

    def test_two_daemons_run_beside_each_other(self):
        other = WireLab()
        try:
            pingpong(other, "-c")
            pingpong(self.lab, "-c")
        finally:
            other.close()
        self.lab.close()

    def test_idle_daemon_sleeps_on_every_port(self):
        # A worker that polls takes all of the time; tests/bench/run-e2e gives the exact share.
        for lab in (self.lab, VethLab(9000)):
            try:
                pingpong(lab)
                pids = [daemon.process.pid for daemon in lab.daemons]
                time.sleep(1)
                before = sum(map(cpu_seconds, pids))
                time.sleep(4)
                used = sum(map(cpu_seconds, pids)) - before
            finally:
                lab.close()
            self.assertLess(used, 1, "processor seconds of idle daemons in 4 s")
