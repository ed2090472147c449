# SPDX-License-Identifier: Apache-2.0
"""UCX over verbs: it finds its transports on the devices, and its benchmarks run on them."""
import os
import re
import unittest
from unittest import mock

from labs.lab import LONG, WireLab
from labs.memif_lab import MemifLab
from labs.programs import ucx_perftest

ITERATIONS = 1000 if LONG else 100
TESTS = ("tag_bw", "tag_lat", "ucp_put_bw", "ucp_put_lat", "ucp_get", "ucp_add", "ucp_fadd",
         "ucp_swap", "ucp_cswap")
SIZES = (8, 4096, 1 << 20)


class Ucx:
    """What works on every lab."""

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)

    def check(self, transport, tests, sizes=(8,)):
        for test in tests:
            for size in sizes if test.startswith("tag") else (8,):
                with self.subTest(transport, test=test, size=size):
                    ucx_perftest(self.lab, transport, test, "-n", ITERATIONS, "-w", 1, "-s", size)

    if LONG:
        def test_everything_with_mapped_and_copied_memory(self):
            for mode in ("", "copied"):
                with mock.patch.dict(os.environ, UROCE_MR=mode):
                    for transport in ("rc_v", "ud_v"):
                        self.check(transport, TESTS, SIZES)


class WireUcxTest(Ucx, unittest.TestCase):
    @staticmethod
    def make_lab():
        return WireLab()

    def test_its_transports_are_there_on_every_device(self):
        found = re.findall(r"Transport: (\w+)\n.*Device: (\S+)", self.lab.a.run("ucx_info", "-d"))
        for device in ("uroce0:1", "uroce1:1"):
            for transport in ("rc_verbs", "ud_verbs"):
                self.assertIn((transport, device), found)

    def test_messages_and_memory_over_connections(self):
        self.check("rc_v", ("tag_bw", "ucp_put_bw", "ucp_get", "ucp_fadd", "ucp_cswap"), (1 << 16,))

    def test_messages_over_datagrams(self):
        self.check("ud_v", ("tag_bw", "tag_lat"))


class MemifUcxTest(Ucx, unittest.TestCase):
    @staticmethod
    def make_lab():
        return MemifLab()

    def test_messages(self):
        self.check("rc_v", ("tag_lat",))


if __name__ == "__main__":
    unittest.main()
