# SPDX-License-Identifier: Apache-2.0
"""Loss, duplication and reordering in both directions: right data, and completion."""
import unittest

from lab import LONG, VethLab, WireLab
from programs import data_check, perftest, pingpong_with_losses, seed

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


class VethFaultsTest(Faults, unittest.TestCase):
    @classmethod
    def make_lab(cls):
        return VethLab(9000, "--fault", f"uroce0:{FAULTS},seed={cls.seed}")
