# SPDX-License-Identifier: Apache-2.0
"""Unmodified librdmacm with its own programs: connections, datagrams, rsockets, on every kind of
port."""
import unittest

from labs.cm_programs import ids, mckey, rping, run_pair, two_sided
from labs.lab import LONG, VethLab, WireLab, next_port
from labs.memif_lab import MemifLab
from labs.process import wait_until

CONNECTIONS = 1000 if LONG else 50
UDADDY_PORT = 7174  # Its own: it has no flag for another.


class ConnectionManager:
    """What works on every lab."""

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)

    def tearDown(self):
        # The programs are gone, and with them all that they had.
        wait_until(lambda: not ids(self.lab.a) and not ids(self.lab.b), "the end of all ids")

    def test_rping(self):
        for version, flags in ((4, ("-q",)), (6, ()), (4, ("-S", 4000))):
            with self.subTest(version=version, flags=flags):
                rping(self.lab, *flags, version=version)

    def test_connections_migrate_and_carry_a_type_of_service(self):
        for version, flags in ((6, ("-m", "-c", CONNECTIONS // 5)), (4, ("-t", 0x68))):
            with self.subTest(version=version, flags=flags):
                two_sided(self.lab, "ucmatose", *flags, version=version)

    def test_datagrams(self):
        for version in (4, 6):
            with self.subTest(version=version):
                two_sided(self.lab, "udaddy", "-c", 3, version=version, port=UDADDY_PORT)

    def test_many_connections(self):
        two_sided(self.lab, "cmtime", "-c", CONNECTIONS, server_ends=False, timeout_s=120)

    def test_streams_over_rsockets(self):
        for version in (4, 6):
            with self.subTest(version=version):
                two_sided(self.lab, "rstream", "-S", 4096, "-C", 100, "-I", 1, "-T", "v",
                          version=version)

    def test_synchronous_ids(self):
        for server, client, *flags in (("rdma_server", "rdma_client"),
                                       ("rdma_xserver", "rdma_xclient", "-c", "r"),
                                       ("rdma_xserver", "rdma_xclient", "-c", "x")):
            with self.subTest(server, flags=flags):
                port = next_port()
                run_pair(self.lab, [server, "-p", port, *flags],
                         [client, "-s", self.lab.a.address, "-p", port, *flags], port)

    def test_groups(self):
        a, b = self.lab.a, self.lab.b
        mckey(self.lab, [(b.address, a.address, "239.1.2.3"), (b.address6, a.address6, "ff15::77")])


class WireTest(ConnectionManager, unittest.TestCase):
    @staticmethod
    def make_lab():
        return WireLab()

    def test_a_server_that_stays(self):
        rping(self.lab, persistent=True)

    def test_an_address_of_ones_own(self):
        # Its client is bound to the server's own address, and so to the same device.
        port = next_port()
        common = ["-a", self.lab.a.address, "-p", port, "-C", 10, "-V"]
        run_pair(self.lab, ["rping", "-s", *common],
                 ["rping", "-c", "-I", self.lab.a.address, *common], port)


class MemifTest(ConnectionManager, unittest.TestCase):
    """Ports that are their own hosts."""

    @staticmethod
    def make_lab():
        return MemifLab()


class VethTest(ConnectionManager, unittest.TestCase):
    """Beside the kernel."""

    @staticmethod
    def make_lab():
        return VethLab(4200)


if __name__ == "__main__":
    unittest.main()
