# SPDX-License-Identifier: Apache-2.0
"""Every perftest program with every service and the flags that change its way through the verbs.
At full length only: some five minutes."""
import unittest

from lab import LONG, WireLab
from programs import perftest

BANDWIDTH = ((), ("-e",), ("-q", 4), ("-a",), ("-b",), ("-q", 4, "-b", "-e"))
LATENCY = ((), ("-e",), ("-a",))
INLINE = (("-s", 64, "-I", 64),)
SHARED = (("--use-srq",), ("--use-srq", "-q", 4), ("--use-srq", "-e"))

# What each program can do: services, and flags. Writes know no events (-e), atomics one size.
PROGRAMS = {
    "ib_send_bw": (("RC", "UC", "UD", "XRC"), BANDWIDTH + INLINE),
    "ib_send_lat": (("RC", "UC", "UD", "XRC"), LATENCY + INLINE),
    "ib_write_bw": (("RC", "UC", "XRC"), ((), ("-q", 4), ("-a",), ("-b",)) + INLINE),
    "ib_write_lat": (("RC", "UC", "XRC"), ((), ("-a",)) + INLINE),
    "ib_read_bw": (("RC", "XRC"), BANDWIDTH),
    "ib_read_lat": (("RC", "XRC"), LATENCY),
    "ib_atomic_bw": (("RC", "XRC"), ((), ("-e",), ("-q", 4), ("-b",), ("-A", "CMP_AND_SWAP"))),
    "ib_atomic_lat": (("RC", "XRC"), ((), ("-e",))),
}
SHARED_SERVICES = {"ib_send_bw": ("RC", "UD"), "ib_send_lat": ("RC", "UD")}


def combinations():
    for tool, (services, flag_sets) in PROGRAMS.items():
        for service in services:
            for flags in flag_sets:
                yield tool, service, flags
        for service in SHARED_SERVICES.get(tool, ()):
            for flags in SHARED:
                if "_lat" not in tool or "-q" not in flags:
                    yield tool, service, flags


@unittest.skipUnless(LONG, "at full length only")
class PerftestMatrixTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab("--workers", "2")
        cls.addClassCleanup(cls.lab.close)

    def test_every_program(self):
        for tool, service, flags in combinations():
            with self.subTest(tool, service=service, flags=flags):
                perftest(self.lab, tool, "-c", service, "-n", 20, *flags)
