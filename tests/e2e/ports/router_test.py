# SPDX-License-Identifier: Apache-2.0
"""Queue pairs whose packets pass a router."""
import unittest

from labs.lab import Daemon, find_list
from labs.process import Failed, wait_until
from labs.programs import DataCheck, data_check, pingpong, seed
from labs.router_lab import RouterLab

EHOSTUNREACH = "No route to host"


class RouterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = RouterLab(9000)
        cls.addClassCleanup(cls.lab.close)

    def test_pingpong_with_the_largest_packets(self):
        for version in (4, 6):
            with self.subTest(version):
                pingpong(self.lab, "-c", "-s", 65536, "-m", 4096, version=version)

    def test_data_byte_for_byte(self):
        for version in (4, 6):
            with self.subTest(version):
                data_check(self.lab, "--seed", seed(), "--ops", 500, version=version)

    def test_packets_of_1024_bytes(self):
        data_check(self.lab, "--seed", seed(), "--ops", 500, "--mtu", 1024)

    def test_a_daemon_on_the_router_leaves_it_what_it_forwards(self):
        daemon = Daemon(self.lab.router, f"{self.lab.directory}/router",
                        ["--port", "name=uroce1,iface=eth1", "--port", "name=uroce2,iface=eth2"])
        self.addCleanup(daemon.stop)
        for version in (4, 6):
            with self.subTest(version):
                data_check(self.lab, "--seed", seed(), "--ops", 200, version=version)

    def test_path_leads_to_the_router(self):
        check = DataCheck(self.lab, "--seed", seed(), ongoing=True)
        try:
            path = wait_until(lambda: next((qp for qp in find_list(self.lab.a.dump("qp"))
                                            if qp["remote"] == "10.2.0.2"), None), "a path")
            self.assertEqual(path["remote_mac"], self.mac_of_router("eth1"))
            check.finish()
        finally:
            check.kill()

    def test_transfer_follows_a_router_with_another_mac(self):
        check = DataCheck(self.lab, "--seed", seed(), "--timeout", 18, ongoing=True)
        try:
            wait_until(lambda: any(qp["received_packets"] > 1000
                                   for qp in find_list(self.lab.a.dump("qp"))), "packets")
            self.lab.router.ip("link", "set", "eth1", "address", "02:00:00:00:66:01")
            # It asks for its neighbours again, so that they learn where it is. The transfer alone
            # may not make it: one side may have nothing to send.
            self.lab.router.run(["ping", "-c", 1, "-w", 10, self.lab.a.address])
            wait_until(lambda: any(qp["remote_mac"] == "02:00:00:00:66:01"
                                   for qp in find_list(self.lab.a.dump("qp"))), "the new path")
            check.finish()
        finally:
            check.kill()

    def test_transfer_follows_a_route_to_another_router(self):
        router, host = self.lab.router, self.lab.a.namespace
        router.ip("link", "add", "second", "link", "eth1", "type", "macvlan", "mode", "bridge")
        router.ip("addr", "add", "10.1.0.3/24", "dev", "second")
        router.ip("link", "set", "second", "up")
        check = DataCheck(self.lab, "--seed", seed(), "--timeout", 18, ongoing=True)
        try:
            wait_until(lambda: any(qp["received_packets"] > 1000
                                   for qp in find_list(self.lab.a.dump("qp"))), "packets")
            host.ip("route", "replace", "default", "via", "10.1.0.3")
            wait_until(lambda: any(qp["remote_mac"] == self.mac_of_router("second")
                                   for qp in find_list(self.lab.a.dump("qp"))), "the new path")
            host.ip("route", "replace", "default", "via", "10.1.0.1")
            check.finish()
        finally:
            check.kill()
            router.ip("link", "del", "second")

    def test_link_local_addresses_do_not_pass_the_router(self):
        check = DataCheck(self.lab, "--gid-a", 0, "--deadline", 5, version=6)
        with self.assertRaises(Failed) as raised:
            check.finish()
        self.assertIn(f"to RTR: {EHOSTUNREACH}", str(raised.exception))

    def mac_of_router(self, interface):
        return self.lab.router.ip("link", "show", interface).split("link/ether ")[1].split()[0]
