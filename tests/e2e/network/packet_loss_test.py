# SPDX-License-Identifier: Apache-2.0
"""Loss, duplication and reordering in both directions: right data, and completion."""
import os
import sys
import unittest

from labs.lab import LONG, UROCE, VethLab, WireLab
from labs.port_watch import PortWatch
from labs.process import Process, run, wait_until
from labs.programs import (check_with_faults, data_check, perftest, pingpong, pingpong_with_losses,
                           seed)

FAULTS = "drop=0.01,duplicate=0.01,reorder=0.02"
DATA_OPS = 20000 if LONG else 1500
ITERATIONS = 2000 if LONG else 200


class Faults:
    @classmethod
    def setUpClass(cls):
        cls.seed = seed()
        print(f"   faults with seed {cls.seed}", flush=True)
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)

    def test_data_byte_for_byte(self):
        data_check(self.lab, "--seed", self.seed, "--ops", DATA_OPS, timeout_s=400)

    def test_data_in_small_packets(self):
        data_check(self.lab, "--seed", self.seed + 1, "--ops", DATA_OPS // 3, "--mtu", 256,
                   "--max-bytes", 30000, timeout_s=400)

    def test_pingpong_with_validation(self):
        pingpong_with_losses(self.lab, "-c", "-n", ITERATIONS, timeout_s=120)
        pingpong_with_losses(self.lab, "-c", "-s", 262144, "-n", 50, timeout_s=120)

    def test_perftest_completes(self):
        for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_atomic_bw"):
            with self.subTest(tool):
                perftest(self.lab, tool, "-n", ITERATIONS, timeout_s=180)

    def test_unreliable_messages_are_whole_or_lost(self):
        for service in ("uc", "ud"):
            with self.subTest(service):
                check_with_faults(self.lab, self.lab.a, "--errors", "whole-or-lost", "--service",
                                  service, "--max-bytes", 20000, "--seed", self.seed)

    def test_keys_are_taken_back_by_sends(self):
        check_with_faults(self.lab, self.lab.a, "--errors", "window-invalidated-with-losses",
                          "--max-bytes", 4096, "--seed", self.seed, rounds=60)

    def test_faults_happened_and_were_repaired(self):
        pingpong_with_losses(self.lab, "-n", 1000, timeout_s=120)
        counters = self.lab.a.counters()
        resent = {name: value for name, value in counters.items()
                  if ("timeout" in name or "seq" in name or "duplicate" in name
                      or "retrans" in name) and value}
        self.assertTrue(resent, counters)


class WireFaultsTest(Faults, unittest.TestCase):
    @classmethod
    def make_lab(cls):
        return WireLab("--fault", f"uroce0:{FAULTS},seed={cls.seed}",
                       "--fault", f"uroce1:{FAULTS},seed={cls.seed + 1}")


class LinkTest(unittest.TestCase):
    """A NIC loses its link and gets it back: its programs are told, those of others are not."""

    def flap(self, lab):
        self.addCleanup(lab.tear_down)
        own, other = PortWatch(lab.a), PortWatch(lab.b)
        self.addCleanup(own.close)
        self.addCleanup(other.close)
        for flap in range(1, 3):
            run([UROCE, "--socket", lab.a.daemon.socket, "fault", "set", "uroce0", "link=down"])
            wait_until(lambda: own.state == "down", "no link")
            wait_until(lambda times=flap: own.events("port error") == times, "an event of each")
            self.assertIn("link=down", lab.a.daemon.process.output())
            run([UROCE, "--socket", lab.a.daemon.socket, "fault", "clear", "uroce0"])
            wait_until(lambda: own.state == "active", "a link")
        pingpong(lab)
        self.assertEqual(other.events("port"), 0)
        self.assertEqual(lab.a.counters()["counters.link_downed"], 2)
        lab.close()

    def test_on_a_wire(self):
        self.flap(WireLab())

    def test_beside_a_kernel_that_has_one(self):
        self.flap(VethLab(1500))


class BusyMachineTest(unittest.TestCase):
    """Loss while other programs have the CPUs: who is not scheduled for milliseconds has lost
    nothing, and costs no retry."""

    def test_data_byte_for_byte(self):
        burn = [sys.executable, "-c", "while True: pass"]
        for _ in range(os.cpu_count()):
            self.addCleanup(Process(burn).kill)
        number = seed()
        lab = WireLab("--fault", f"uroce0:drop=0.02,seed={number}",
                      "--fault", f"uroce1:drop=0.02,seed={number + 1}")
        self.addCleanup(lab.close)
        data_check(lab, "--seed", number, "--ops", DATA_OPS // 3, timeout_s=400)


class VethFaultsTest(Faults, unittest.TestCase):
    @classmethod
    def make_lab(cls):
        return VethLab(9000, "--fault", f"uroce0:{FAULTS},seed={cls.seed}")
