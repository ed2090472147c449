# SPDX-License-Identifier: Apache-2.0
"""Programs over each kind of DPDK port, and what becomes of a port whose other side dies."""
import os
import struct
import tempfile
import unittest

from labs.lab import LONG, ROOT, Daemon, Host, VethLab
from labs.netns import Namespace
from labs.port_lab import PortLab, port_of
from labs.process import cpu_seconds, run, wait_until
from labs.programs import data_check, perftest, pingpong, seed
from labs.roce import read_capture

DATA_OPS = 20000 if LONG else 500
RESTARTS = 20 if LONG else 1
VHOST = ("net_vhost0;iface=DIR/vhost", "net_virtio_user0;path=DIR/vhost")


def make_veth_3000(namespace):
    namespace.ip("link", "add", "v0", "mtu", 3000, "type", "veth", "peer", "name", "v1",
                 "mtu", 3000)
    for interface in ("v0", "v1"):
        namespace.ip("link", "set", interface, "up")


def make_bridge(namespace):
    namespace.ip("link", "add", "name", "bridge0", "type", "bridge")
    namespace.ip("link", "set", "bridge0", "up")


def plug_taps(namespace):
    for tap in ("tap0", "tap1"):
        namespace.ip("link", "set", tap, "master", "bridge0")


class Transfers:
    """What every port carries. `path_mtu` is the largest that its MTU allows."""

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)

    def test_the_port_is_what_it_should_be(self):
        port = port_of(self.lab.a)
        self.assertEqual(port["link"], "up")
        self.assertEqual(port["active_mtu"], self.path_mtu)

    def test_pingpong_over_ipv4_and_ipv6(self):
        pingpong(self.lab, "-c", "-n", 200)
        pingpong(self.lab, "-c", "-n", 200, "-e", version=6)

    def test_bandwidth(self):
        perftest(self.lab, "ib_write_bw", "-n", 100)

    def test_data_byte_for_byte(self):
        data_check(self.lab, "--seed", seed(), "--ops", DATA_OPS)


class VhostTest(Transfers, unittest.TestCase):
    path_mtu = 4096

    @staticmethod
    def make_lab():
        return PortLab(VHOST, mtu=9000)

    def test_an_idle_daemon_sleeps_until_frames_come(self):
        pid = self.lab.a.daemon.process.pid
        pingpong(self.lab, "-c", "-n", 10)

        def rests():
            before = cpu_seconds(pid)
            try:
                wait_until(lambda: False, "nothing", timeout_s=0.5)
            except AssertionError:
                return cpu_seconds(pid) - before < 0.05

        wait_until(rests, "a daemon that rests")
        pingpong(self.lab, "-c", "-n", 10)


class VhostRestartTest(unittest.TestCase):
    def setUp(self):
        self.lab = PortLab(VHOST, mtu=4200)
        self.addCleanup(self.lab.close)

    def interrupt(self, victim, survivor):
        mac = port_of(survivor)["mac"]
        self.lab.kill(victim)
        self.lab.wait_link("down", survivor)
        self.lab.restart(victim)
        self.lab.wait_ready()
        pingpong(self.lab, "-c", "-n", 100)
        self.assertEqual(port_of(survivor)["mac"], mac)

    def test_either_side_killed_and_started_again(self):
        for _ in range(RESTARTS):
            self.interrupt(self.lab.b, self.lab.a)
            self.interrupt(self.lab.a, self.lab.b)


class AfXdpTest(Transfers, unittest.TestCase):
    path_mtu = 2048

    @staticmethod
    def make_lab():
        return PortLab(("net_af_xdp0;iface=v0", "net_af_xdp0;iface=v1"), mtu=3000,
                       prepare=make_veth_3000)


class TapTest(Transfers, unittest.TestCase):
    path_mtu = 1024

    @staticmethod
    def make_lab():
        return PortLab(("net_tap0;iface=tap0", "net_tap0;iface=tap1"), prepare=make_bridge,
                       connect=plug_taps)

    def test_the_kernel_is_a_neighbour_on_the_tap(self):
        """Frame by frame, with nothing behind it that would wake a worker which missed it."""
        self.lab.namespace.ip("addr", "add", "10.0.0.9/24", "dev", "bridge0")
        for _ in range(10):
            self.lab.namespace.ip("neigh", "flush", "dev", "bridge0")
            for address in ("10.0.0.1", "10.0.0.2"):
                run(self.lab.namespace.command(["ping", "-c", 1, "-W", 10, address]))


class PacketRingTest(Transfers, unittest.TestCase):
    path_mtu = 4096

    @staticmethod
    def make_lab():
        return VethLab(9000, device="net_af_packet0;iface=eth0")


class PcapInterfaceTest(Transfers, unittest.TestCase):
    path_mtu = 4096

    @staticmethod
    def make_lab():
        return VethLab(9000, device="net_pcap0;iface=eth0")


class PcapFileTest(unittest.TestCase):
    def test_a_file_in_is_received_and_what_is_sent_becomes_a_file(self):
        capture = ROOT / "tests" / "golden" / "linux-rxe-1.pcap"
        frames = len(list(read_capture(capture)))
        namespace = Namespace()
        self.addCleanup(namespace.remove)
        with tempfile.TemporaryDirectory(prefix="uroce-e2e-") as directory:
            out = f"{directory}/out.pcap"
            daemon = Daemon(namespace, directory, [
                "--port", f"name=uroce0,dev=net_pcap0;rx_pcap={capture};tx_pcap={out}"])
            self.addCleanup(daemon.process.kill)
            host = Host(namespace, daemon, "uroce0", None, None)
            wait_until(lambda: host.counters()["counters.port_rcv_packets"] == frames,
                       f"{frames} packets")
            daemon.stop()
            self.assertTrue(os.path.exists(out))
            with open(out, "rb") as file:
                self.assertIn(struct.unpack("<I", file.read(4))[0], (0xA1B2C3D4, 0xA1B23C4D))
