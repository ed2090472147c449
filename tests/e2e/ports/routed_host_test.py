# SPDX-License-Identifier: Apache-2.0
"""A port that is its own host, as the kernels of a router and of a host behind it see it."""
import unittest

from labs.lab import find_list
from labs.process import Failed, run, run_status, wait_until
from labs.programs import DataCheck, data_check, seed
from labs.router_lab import RouterLab

TAKEN = "10.1.0.77"


class OwnHostLab(RouterLab):
    """The port of `a` has addresses that its kernel knows nothing of; one is the router's."""

    def _build(self):
        super()._build()
        # A link that comes up after the daemon has its addresses probed for only then.
        usable = {f"{self.a.address}/24", f"{self.a.address6}/64"}
        wait_until(lambda: usable <= set(find_list(self.a.dump("devices"))[0]["addresses"]),
                   "addresses that no other host has")

    def _port(self, number):
        if number != 1:
            return super()._port(number)
        return ("name=uroce0,iface=eth0,host=uroce,"
                f"ip=10.1.0.2/24+{TAKEN}/24+fd00:1::2/64,gateway=10.1.0.1+fd00:1::1")

    def _add_network(self, number):
        namespace = super()._add_network(number)
        if number == 1:
            namespace.ip("addr", "flush", "dev", "eth0")
            self.router.ip("addr", "add", f"{TAKEN}/24", "dev", "eth1")
        return namespace


class HostTest(unittest.TestCase):
    arguments = ()

    @classmethod
    def setUpClass(cls):
        cls.lab = OwnHostLab(9000, *cls.arguments)
        cls.addClassCleanup(cls.lab.close)

    def test_kernels_ping_it_from_its_network_and_from_behind_the_router(self):
        for space in (self.lab.router, self.lab.b.namespace):
            for address in (self.lab.a.address, self.lab.a.address6):
                with self.subTest(f"{space.name} {address}"):
                    run(space.command(["ping", "-c", 3, "-i", 0.2, "-w", 20, address]))

    def test_an_address_of_another_host_is_not_used(self):
        addresses = find_list(self.lab.a.dump("devices"))[0]["addresses"]
        self.assertEqual(addresses, ["10.1.0.2/24", "fd00:1::2/64"])
        self.assertIn(f"has the address {TAKEN}", self.lab.a.daemon.process.output())

    def test_others_find_its_addresses_taken(self):
        router = self.lab.router
        status, _ = run_status(router.command(
            ["arping", "-D", "-c", 3, "-w", 10, "-I", "eth1", self.lab.a.address]))
        self.assertEqual(status, 1, "1 says that there was an answer")
        router.run(["sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/eth1/dad_transmits"])
        address = f"{self.lab.a.address6}/64"
        router.ip("addr", "add", address, "dev", "eth1")
        try:
            wait_until(lambda: "dadfailed" in router.ip("addr", "show", "dev", "eth1"),
                       "a duplicate address")
        finally:
            router.ip("addr", "del", address, "dev", "eth1")

    def test_data_by_the_gateway(self):
        for version in (4, 6):
            with self.subTest(version):
                data_check(self.lab, "--seed", seed(), "--ops", 500, version=version)

    def test_a_transfer_follows_the_gateway_to_another_mac(self):
        router = self.lab.router
        router.run(["sh", "-c", "echo 1 >/proc/sys/net/ipv4/conf/eth1/arp_notify"])
        check = DataCheck(self.lab, "--seed", seed(), "--timeout", 18, ongoing=True)
        try:
            wait_until(lambda: any(qp["received_packets"] > 1000
                                   for qp in find_list(self.lab.a.dump("qp"))), "packets")
            router.ip("link", "set", "eth1", "address", "02:00:00:00:66:02")
            wait_until(lambda: {qp["remote_mac"] for qp in find_list(self.lab.a.dump("qp"))} ==
                       {"02:00:00:00:66:02"}, "the new path")
            check.finish()
        finally:
            check.kill()

    def test_link_local_addresses_do_not_pass_the_gateway(self):
        check = DataCheck(self.lab, "--gid-a", 0, "--deadline", 5, version=6)
        with self.assertRaises(Failed) as raised:
            check.finish()
        self.assertIn("to RTR: No route to host", str(raised.exception))
