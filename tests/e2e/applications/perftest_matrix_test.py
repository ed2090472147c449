# SPDX-License-Identifier: Apache-2.0
"""Every perftest program with every service and the flags that change its way through the verbs.
At full length only: some fifteen minutes."""
import os
import unittest
from unittest import mock

from labs.lab import LONG, WireLab
from labs.memif_lab import MemifLab
from labs.programs import perftest

BANDWIDTH = ((), ("-e",), ("-q", 4), ("-a",), ("-b",), ("-b", "-e"))
LATENCY = ((), ("-e",), ("-a",))
INLINE = (("-s", 64, "-I", 64),)
SHARED = (("--use-srq",), ("--use-srq", "-q", 4), ("--use-srq", "-e"))

# What each program can do: services, and flags. Writes know no events (-e), atomics one size. In
# both directions ib_send_bw polls once for each event, for no more completions than one queue pair
# has receives: with several it leaves some, and no event comes for them. With events ib_send_lat
# takes the next one for that of the queue it waits for: of XRC, whose two queues may be two
# workers', that need not be so. Datagrams of four queue pairs are more than perftest's one shared
# queue takes.
PROGRAMS = {
    "ib_send_bw": (("RC", "UC", "UD", "XRC"), BANDWIDTH + INLINE),
    "ib_send_lat": (("RC", "UC", "UD"), LATENCY + INLINE),
    "ib_write_bw": (("RC", "UC", "XRC"), ((), ("-q", 4), ("-a",), ("-b",)) + INLINE),
    "ib_write_lat": (("RC", "UC", "XRC"), ((), ("-a",)) + INLINE),
    "ib_read_bw": (("RC", "XRC"), BANDWIDTH + (("-q", 4, "-b", "-e"),)),
    "ib_read_lat": (("RC", "XRC"), LATENCY),
    "ib_atomic_bw": (("RC", "XRC"), ((), ("-e",), ("-q", 4), ("-b",), ("-A", "CMP_AND_SWAP"))),
    "ib_atomic_lat": (("RC", "XRC"), ((), ("-e",))),
}
SHARED_SERVICES = {"ib_send_bw": ("RC", "UD"), "ib_send_lat": ("RC", "UD")}


def combinations():
    yield from (("ib_send_lat", "XRC", flags) for flags in ((), ("-a",)) + INLINE)
    for tool, (services, flag_sets) in PROGRAMS.items():
        for service in services:
            for flags in flag_sets:
                yield tool, service, flags
        for service in SHARED_SERVICES.get(tool, ()):
            for flags in SHARED:
                if "-q" not in flags or (service != "UD" and "_lat" not in tool):
                    yield tool, service, flags


class Matrix:
    """All of it, on one lab."""

    services = ("RC", "UC", "UD", "XRC")

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)

    def test_every_program(self):
        for tool, service, flags in combinations():
            if service not in self.services:
                continue
            with self.subTest(tool, service=service, flags=flags):
                perftest(self.lab, tool, "-c", service, "-n", 20, *flags)


if LONG:
    class PerftestMatrixTest(Matrix, unittest.TestCase):
        @staticmethod
        def make_lab():
            return WireLab("--workers", "2")

        def test_durations_and_units(self):
            for tool in PROGRAMS:
                with self.subTest(tool):
                    flags = () if "_lat" in tool else ("--report_gbits",)
                    perftest(self.lab, tool, "-D", 1, *flags)

    class CopiedPerftestMatrixTest(Matrix, unittest.TestCase):
        """With memory that the daemon copies. Without backpressure, perftest's senders overrun the
        frames that may wait for a copy, and perftest waits for each lost message without limit."""

        services = ("RC", "XRC")

        @staticmethod
        def make_lab():
            return WireLab()

        def setUp(self):
            copied = mock.patch.dict(os.environ, UROCE_MR="copied")
            copied.start()
            self.addCleanup(copied.stop)

    class MemifPerftestMatrixTest(Matrix, unittest.TestCase):
        @staticmethod
        def make_lab():
            return MemifLab()
