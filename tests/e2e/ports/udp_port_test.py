# SPDX-License-Identifier: Apache-2.0
"""A port by UDP sockets (udp=), of a daemon of the user nobody without any capability: programs,
data by bytes, the packets on the cable, and peers that read whole frames."""
import os
import unittest

from labs.lab import UNPRIVILEGED, UROCED, MixedLab, UdpLab
from labs.process import Process, run, run_status, wait_until
from labs.programs import data_check, perftest, pingpong, seed
from labs.roce import Packet, read_capture

OPS = 300


def counter(host, name):
    return host.counters()[f"counters.{name}"]


class UdpPort:
    """What works on every lab with such a port."""

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)

    def setUp(self):
        self.addCleanup(self.check_icrcs)

    def check_icrcs(self):
        for host in (self.lab.a, self.lab.b):
            self.assertEqual(counter(host, "rx_icrc_encapsulated"), 0)

    def test_data(self):
        for version in (4, 6):
            for service in (("--service", "rc"), ("--service", "ud"),
                            ("--service", "uc", "--max-bytes", 20000)):
                with self.subTest(version=version, service=service[1]):
                    data_check(self.lab, "--seed", seed(), "--ops", OPS, *service, version=version)

    def test_programs(self):
        for version in (4, 6):
            for service in ("rc", "ud"):
                with self.subTest(version=version, service=service):
                    pingpong(self.lab, "-n", 500, "-s", 1000, service=service, version=version)

    def test_bandwidth_of_each_kind(self):
        for tool, *flags in (("ib_write_bw", "-s", 65536), ("ib_read_bw", "-s", 65536),
                             ("ib_send_bw", "-s", 1000)):
            for version in (4, 6):
                with self.subTest(tool, version=version):
                    perftest(self.lab, tool, *flags, "-n", 1000, version=version)


class JumboTest(UdpPort, unittest.TestCase):
    @staticmethod
    def make_lab():
        return UdpLab(9000)

    def test_the_daemons_have_no_capability(self):
        for daemon in self.lab.daemons:
            with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as file:
                status = dict(line.split(":", 1) for line in file)
            for capabilities in ("CapEff", "CapPrm", "CapBnd"):
                self.assertEqual(int(status[capabilities], 16), 0)
            self.assertEqual(status["Uid"].split(), ["65534"] * 4)

    def test_own_packets_have_expected_identifications(self):
        perftest(self.lab, "ib_write_bw", "-s", 65536, "-n", 1000)
        self.assertEqual(counter(self.lab.a, "port_rcv_fitted"), 0)

    def test_datagrams_that_are_no_packets_are_counted_at_once(self):
        before = counter(self.lab.a, "port_rcv_missed")
        script = ("import socket\n"
                  "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
                  f"[s.sendto(b'',('{self.lab.server_address}',4791)) for _ in range(3)]\n")
        run(self.lab.b.namespace.command(["python3", "-c", script]), 60)
        wait_until(lambda: counter(self.lab.a, "port_rcv_missed") == before + 3, "the drops")


class LinkTest(unittest.TestCase):
    def test_a_link_that_goes_down_and_comes_back(self):
        self.lab = UdpLab(9000)
        self.addCleanup(self.lab.close)
        self.lab.a.namespace.ip("link", "set", "eth0", "down")
        wait_until(lambda: "PORT_DOWN" in self.lab.a.run("ibv_devinfo", "-d", "uroce0"), "down")
        self.lab.a.namespace.ip("link", "set", "eth0", "up")
        wait_until(lambda: "PORT_ACTIVE" in self.lab.a.run("ibv_devinfo", "-d", "uroce0"), "up")
        data_check(self.lab, "--seed", seed(), "--ops", 100)


class StandardMtuTest(UdpPort, unittest.TestCase):
    @staticmethod
    def make_lab():
        return UdpLab(1500, place="10.0.0.{}+fd00::{}")


class WithAPacketSocketTest(UdpPort, unittest.TestCase):
    """The peer checks whole frames as they are, and its identifications follow another rule."""

    @staticmethod
    def make_lab():
        return MixedLab(9000)


class SegmentedTest(UdpPort, unittest.TestCase):
    """The kernel cuts superframes before the veth pair, as for an adapter without offloads, and the
    receiver gets packets one by one."""

    @staticmethod
    def make_lab():
        lab = UdpLab(1500)
        for namespace in lab.namespaces:
            namespace.run(["ethtool", "-K", "eth0", "tx-udp-segmentation", "off", "gso", "off",
                           "gro", "off"])
        return lab

    def test_packets_on_the_cable_have_right_icrcs(self):
        for version in (4, 6):
            with self.subTest(version=version):
                self.check_cable(version)

    def check_cable(self, version):
        path = f"{self.lab.directory}/cable{version}.pcap"
        tcpdump = Process(self.lab.a.namespace.command(
            ["tcpdump", "-i", "eth0", "-s", 0, "-B", 262144, "-Z", "root", "-c", 3000, "-w", path,
             "udp", "port", "4791"]))
        self.addCleanup(tcpdump.kill)
        wait_until(lambda: "listening on" in tcpdump.output(), "tcpdump")
        perftest(self.lab, "ib_write_bw", "-s", 65536, "-n", 200, version=version)
        tcpdump.expect_success(30)
        packets = [Packet.parse(frame) for frame in read_capture(path)]
        self.assertGreater(len(packets), 2000)
        self.assertTrue(all(packet and packet.icrc_is_right() for packet in packets))
        if version == 4:
            identifications = {packet.frame[packet.ip + 4:packet.ip + 6] for packet in packets}
            self.assertIn(b"\0\0", identifications)
            self.assertGreater(len(identifications), 8, "superframes were cut")


class RefusalsTest(unittest.TestCase):
    def set_up(self, *arguments, place="eth0"):
        self.lab = UdpLab(1500, *arguments, place=place)
        self.addCleanup(self.lab.close)
        os.chmod(self.lab.directory, 0o711)
        self.directory = f"{self.lab.directory}/unprivileged"
        os.makedirs(self.directory)
        os.chown(self.directory, 65534, 65534)

    def check(self, place, *says):
        status, output = run_status(self.lab.a.namespace.command(
            [*UNPRIVILEGED, UROCED, "--socket", f"{self.directory}/other.sock", "--no-huge",
             "--workers", "2", "--port", f"name=uroce1,{place}"]))
        self.assertNotEqual(status, 0)
        for text in says:
            self.assertIn(text, output)

    def test_what_is_said(self):
        self.set_up()
        self.check("udp=192.0.2.77", "192.0.2.77", "no interface of this network namespace")
        self.check("udp=nothere", "nothere", "no interface")
        self.check("udp=10.0.0.1+10.0.0.2", "an IPv4 and an IPv6 address")
        self.check("udp=10.0.0.1,ip=10.0.0.1/24", "exclude each other")
        self.check("udp=10.0.0.1", "UDP port 4791 of 10.0.0.1", "another daemon or rdma_rxe")

    def test_a_port_of_several_queues_takes_no_packets_from_another_daemon_of_the_user(self):
        self.set_up("--workers", "2", place="eth0,queues=2")
        self.lab.a.dump("devices")  # It answers when its ports are there.
        self.check("udp=eth0,queues=2", "UDP port 4791 of eth0", "another daemon or rdma_rxe")


if __name__ == "__main__":
    unittest.main()
