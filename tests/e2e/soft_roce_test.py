# SPDX-License-Identifier: Apache-2.0
"""The shortest part of tests/interop, where a Soft-RoCE guest can be built."""
import sys
import unittest

from lab import ROOT
from programs import data_check, pingpong, seed

sys.path.append(str(ROOT / "tests" / "interop"))
from rxe_lab import BridgeLab, UdpLab


class SoftRoce:
    @classmethod
    def setUpClass(cls):
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
