# SPDX-License-Identifier: Apache-2.0
"""The kernel's interface, addresses and neighbours change while programs run."""
import contextlib
import tempfile
import unittest

from labs.lab import VethLab, find_list
from labs.netns import has_usable_addresses, make_veth_pair
from labs.port_watch import PortWatch
from labs.process import wait_until
from labs.programs import DataCheck, pingpong, seed

GID_CHANGE = "GID table change"
# Retransmissions go on for some 8 s: longer than any change takes here, on a loaded machine too.
PATIENT = ("--timeout", 18, "--retries", 7)


class FollowTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = VethLab(9000)
        cls.addClassCleanup(cls.lab.close)

    def setUp(self):
        self.a = self.lab.a
        self.watch = PortWatch(self.a)
        self.addCleanup(self.watch.close)

    def ip(self, *arguments):
        return self.a.namespace.ip(*arguments)

    def device(self):
        return find_list(self.a.dump("devices"))[0]

    @contextlib.contextmanager
    def transfer(self):
        """Data is under way when the body begins; after it all must arrive, and be right."""
        before = self.a.counters()["counters.port_xmit_packets"]
        check = DataCheck(self.lab, "--seed", seed(), *PATIENT, ongoing=True)
        try:
            wait_until(lambda: self.a.counters()["counters.port_xmit_packets"] > before + 1000,
                       "packets")
            yield
            check.finish()
        finally:
            check.kill()

    def test_addresses_come_and_go_and_other_indices_stay(self):
        before = self.watch.gids
        self.ip("addr", "add", "10.0.0.77/24", "dev", "eth0")
        first = self.watch.wait_for("10.0.0.77")
        self.assertEqual(self.watch.events(GID_CHANGE), 1)
        self.ip("addr", "add", "fd00::77/64", "dev", "eth0")
        second = self.watch.wait_for("fd00::77")
        self.assertNotEqual(first, second)
        self.assertEqual({index: self.watch.gids[index] for index in before}, before)
        self.assertEqual(self.watch.gids[second], ("fd00::77", before[0][1]))
        self.ip("addr", "del", "10.0.0.77/24", "dev", "eth0")
        self.watch.wait_without("10.0.0.77")
        self.assertEqual(self.watch.index_of("fd00::77"), second)
        self.ip("addr", "add", "10.0.0.78/24", "dev", "eth0")
        self.assertEqual(self.watch.wait_for("10.0.0.78"), first, "a freed index is taken again")
        self.ip("addr", "del", "10.0.0.78/24", "dev", "eth0")
        self.ip("addr", "del", "fd00::77/64", "dev", "eth0")
        wait_until(lambda: self.watch.gids == before, "the GIDs of the start")

    def test_queue_pairs_outlive_the_address_of_their_index(self):
        with self.transfer():
            self.ip("addr", "del", "10.0.0.1/24", "dev", "eth0")
            self.watch.wait_without("10.0.0.1")
            self.ip("addr", "add", "10.0.0.1/24", "dev", "eth0")
            self.watch.wait_for("10.0.0.1")
        self.lab.forget_gids()

    def test_storm_of_addresses_is_looked_at_a_few_times(self):
        with tempfile.NamedTemporaryFile("w", suffix=".batch") as batch:
            for number in range(1000):
                batch.write(f"addr add 10.7.{number // 250}.{number % 250 + 1}/16 dev eth0\n")
            batch.flush()
            self.ip("-batch", batch.name)
        wait_until(lambda: len(self.watch.gids) == 32, "a full table")
        self.assertEqual(len(self.device()["gids"]), 32)
        self.ip("addr", "flush", "to", "10.7.0.0/16", "dev", "eth0")
        wait_until(lambda: len(self.watch.gids) == 3, "the GIDs of the start")
        self.assertLess(self.watch.events(GID_CHANGE), 500)

    def test_mtu_is_followed(self):
        for mtu, active in ((1500, 1024), (4200, 4096), (2200, 2048), (9000, 4096)):
            self.ip("link", "set", "eth0", "mtu", mtu)
            wait_until(lambda active=active: self.device()["active_mtu"] == active,
                       f"an active MTU of {active}")

    def test_transfer_goes_on_when_both_ends_get_other_macs(self):
        index = self.watch.gids[0][1]
        with self.transfer():
            self.ip("link", "set", "eth0", "address", "02:00:00:00:77:01")
            wait_until(lambda: self.watch.gids[0] == ("fe80::ff:fe00:7701", index), "GID 0")
            self.assertGreaterEqual(self.watch.events(GID_CHANGE), 1)
            self.lab.b.namespace.ip("link", "set", "eth0", "address", "02:00:00:00:77:02")
            wait_until(lambda: {qp["remote_mac"] for qp in find_list(self.a.dump("qp"))} ==
                       {"02:00:00:00:77:02"}, "paths to the new MAC")
        pingpong(self.lab, "-c")

    def test_transfer_outlives_the_interface_and_goes_on_over_the_next_of_that_name(self):
        before = self.watch.gids
        with self.transfer():
            self.ip("link", "del", "eth0")  # With its other end.
            wait_until(lambda: self.watch.state == "down", "a port without an interface")
            wait_until(lambda: len(self.watch.gids) == 1, "GID 0 alone")
            make_veth_pair(self.a.namespace, self.lab.b.namespace, 9000)
            wait_until(lambda: self.watch.state == "active", "a port with an interface")
            self.watch.wait_for("10.0.0.1")
        self.assertNotEqual(self.watch.gids[1][1], before[1][1], "another ifindex")
        self.lab.forget_gids()
        pingpong(self.lab, "-c", version=6)

    def test_transfer_waits_while_the_link_is_down(self):
        with self.transfer():
            self.ip("link", "set", "eth0", "down")
            wait_until(lambda: self.watch.state == "down", "a port that is down")
            self.assertEqual(self.watch.events("port error"), 1)
            self.ip("link", "set", "eth0", "up")
            wait_until(lambda: self.watch.state == "active", "a port that is up")
            self.assertEqual(self.watch.events("port active"), 1)
        # Going down, the kernel forgot the IPv6 addresses.
        self.ip("addr", "add", "fd00::1/64", "dev", "eth0")
        self.watch.wait_for("fd00::1")
        wait_until(lambda: has_usable_addresses(self.a.namespace), "a link-local address")
        self.lab.forget_gids()
