# SPDX-License-Identifier: Apache-2.0
"""The shortest part of tests/interop, where there is a Soft-RoCE guest. --long builds one."""
import sys
import unittest

from labs.lab import LONG, ROOT
from labs.programs import data_check, pingpong, seed

sys.path.append(str(ROOT / "tests" / "interop"))
from guest import is_built
from rxe_lab import BridgeLab, UdpLab


class SoftRoce:
    @classmethod
    def setUpClass(cls):
        if not LONG and not is_built():
            raise unittest.SkipTest("no Soft-RoCE guest: tests/nightly builds it, in some minutes")
        cls.lab = cls.lab_class(9000)
        cls.addClassCleanup(cls.lab.close)

    def test_pingpong_with_either_side_as_server(self):
        for server in self.lab.both_ways():
            with self.subTest(server=server):
                pingpong(self.lab, "-c", "-n", 200)

    def test_data_byte_for_byte(self):
        data_check(self.lab, "--seed", seed(), "--ops", 500, "--unfenced")


class SoftRoceTest(SoftRoce, unittest.TestCase):
    lab_class = BridgeLab


class SoftRoceByUdpTest(SoftRoce, unittest.TestCase):
    lab_class = UdpLab
