# SPDX-License-Identifier: Apache-2.0
"""The kernel's traffic through the TAP of a port, beside RoCE."""
import unittest

from labs.lab import Host, Lab, find_list, next_port
from labs.process import Process, is_listening, run, wait_until
from labs.programs import data_check, pingpong, seed


class TapLab(Lab):
    """Two daemons joined by memif, each with the kernel of its namespace on a TAP."""

    def __init__(self, *arguments):
        self.arguments = arguments
        super().__init__()

    def _build(self):
        self.a, self.b = (self._add_host(number) for number in (1, 2))
        self.server_address = "10.0.0.1"
        for host in (self.a, self.b):
            wait_until(lambda host=host: self._is_ready(host), "a link and addresses")

    def _add_host(self, number):
        namespace = self._add_namespace()
        role = "server" if number == 1 else "client"
        daemon = self._add_daemon(
            namespace, "--port", f"name=uroce0,dev=net_memif0;role={role};"
            f"socket={self.directory}/memif.sock,exception=tap0", *self.arguments)
        wait_until(lambda: "tap0" in namespace.ip("link"), "the TAP")
        for address in (f"10.0.0.{number}/24", f"fd00::{number}/64"):
            namespace.ip("addr", "add", address, "dev", "tap0")
        return Host(namespace, daemon, "uroce0", f"10.0.0.{number}", f"fd00::{number}")

    @staticmethod
    def _is_ready(host):
        device = find_list(host.dump("devices"))[0]
        return device["link"] == "up" and f"{host.address6}/64" in device["addresses"]


class ExceptionTest(unittest.TestCase):
    arguments = ()

    @classmethod
    def setUpClass(cls):
        cls.lab = TapLab(*cls.arguments)
        cls.addClassCleanup(cls.lab.close)

    def test_kernels_ping_each_other(self):
        for address in (self.lab.b.address, self.lab.b.address6):
            run(self.lab.a.namespace.command(
                ["ping", "-c", 3, "-i", 0.2, "-w", 20, "-s", 8000, address]))

    def test_programs_meet_by_tcp_through_the_tap(self):
        for version in (4, 6):
            with self.subTest(version):
                pingpong(self.lab, "-c", version=version)

    def test_bulk_tcp_beside_checked_data(self):
        port = next_port()
        server = Process(self.lab.a.namespace.command(["iperf3", "-s", "-1", "-p", port]))
        client = None
        try:
            wait_until(lambda: is_listening(server.pid, port), "iperf3")
            client = Process(self.lab.b.namespace.command(
                ["iperf3", "-c", self.lab.a.address, "-p", port, "-n", "200M"]))
            data_check(self.lab, "--seed", seed(), "--ops", 1000)
            client.expect_success(300)
        finally:
            server.kill()
            if client:
                client.kill()
        self.assertGreater(self.lab.a.counters()["counters.host_rcv_packets"], 1000)


class TapCarrierTest(unittest.TestCase):
    def test_the_kernel_sees_the_link_of_the_port(self):
        lab = TapLab()
        self.addCleanup(lab.close)

        def flags():
            return lab.a.namespace.ip("link", "show", "tap0").split(">")[0]

        self.assertNotIn("NO-CARRIER", flags())
        lab.b.daemon.process.kill()
        lab.daemons.remove(lab.b.daemon)
        wait_until(lambda: "NO-CARRIER" in flags(), "a TAP without a carrier")
