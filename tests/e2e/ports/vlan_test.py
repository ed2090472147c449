# SPDX-License-Identifier: Apache-2.0
"""Addresses in VLANs: on the in-process wire, and on 802.1Q interfaces of the kernel."""
import struct
import tempfile
import unittest

from labs.lab import Daemon, Host, Lab, VethLab, find_list
from labs.netns import Namespace, make_veth_pair
from labs.port_watch import PortWatch
from labs.process import Failed, Process, wait_until
from labs.programs import DataCheck, data_check, pingpong, seed
from labs.roce import Packet, read_capture
from labs.router_lab import RouterLab

VLAN = 100
ETHERTYPE_VLAN = 0x8100
GSI_QPN = 1


def kernel_has_vlans():
    namespace = Namespace()
    try:
        namespace.ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        namespace.ip("link", "add", "link", "eth0", "name", "eth0.1", "type", "vlan", "id", 1)
        return True
    except RuntimeError:
        return False
    finally:
        namespace.remove()


class VlanWireLab(Lab):
    """Two NICs on a wire: one VLAN that both have, and one address each in others."""

    def _build(self):
        namespace = self._add_namespace()
        daemon = self._add_daemon(
            namespace, "--wire",
            "uroce0=10.0.0.1/24+10.5.0.1/24 vlan 100+fd05::1/64 vlan 100+10.6.0.1/24 vlan 101,"
            "uroce1=10.0.0.2/24+10.5.0.2/24 vlan 100+fd05::2/64 vlan 100+10.6.0.2/24 vlan 102")
        self.a = Host(namespace, daemon, "uroce0", "10.5.0.1", "fd05::1")
        self.b = Host(namespace, daemon, "uroce1", "10.5.0.2", "fd05::2")
        self.server_address = "127.0.0.1"


class KernelVlanLab(Lab):
    """Two daemons on a veth pair whose ends have a VLAN each."""

    def _build(self):
        spaces = [self._add_namespace(), self._add_namespace()]
        make_veth_pair(*spaces, 9000)
        hosts = []
        for number, namespace in enumerate(spaces, 1):
            add_vlan(namespace, number)
            daemon = self._add_daemon(namespace, "--port",
                                      "name=uroce0,dev=net_af_packet0;iface=eth0")
            hosts.append(Host(namespace, daemon, "uroce0", f"10.5.0.{number}", f"fd05::{number}"))
        self.a, self.b = hosts
        self.server_address = "10.0.0.1"


class VlanRouterLab(RouterLab):
    """The network of the first host is a VLAN."""

    def _build(self):
        super()._build()
        add_vlan(self.router, 254, "eth1")
        add_vlan(self.a.namespace, 1)
        self.a.namespace.ip("route", "add", "10.2.0.0/24", "via", "10.5.0.254")
        self.a.namespace.ip("route", "add", "fd00:2::/64", "via", "fd05::254")
        self.a.address, self.a.address6 = "10.5.0.1", "fd05::1"


def add_vlan(namespace, number, interface="eth0"):
    name = f"{interface}.100"
    namespace.ip("link", "add", "link", interface, "name", name, "type", "vlan", "id", VLAN)
    namespace.ip("addr", "add", f"10.5.0.{number}/24", "dev", name)
    namespace.ip("addr", "add", f"fd05::{number}/64", "dev", name)
    namespace.ip("link", "set", name, "up")
    wait_until(lambda: "scope link" in namespace.ip("-6", "addr", "show", name),
               "a link-local address of the VLAN")


def captured(host, work):
    """The frames that the daemon of `host` saw while `work` ran."""
    with tempfile.NamedTemporaryFile(suffix=".pcapng") as file:
        capture = Process(host.uroce("capture", "-w", file.name))
        try:
            wait_until(lambda: "capturing" in capture.output(), "a capture")
            work()
            capture.stop()
        finally:
            capture.kill()
        return list(read_capture(file.name))


def tag(frame):
    """(PCP, VLAN ID) of a tagged frame, or None."""
    ethertype, tci = struct.unpack_from("!HH", frame, 12)
    return (tci >> 13, tci & 0xFFF) if ethertype == ETHERTYPE_VLAN else None


class VlanTransfers:
    """What must work in a VLAN, in the kernel's and in the daemon's."""

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)

    def test_data_byte_for_byte_in_full_packets(self):
        for version in (4, 6):
            with self.subTest(version):
                data_check(self.lab, "--seed", seed(), "--ops", 300, "--mtu", 4096,
                           version=version)

    def test_every_packet_has_the_tag_and_the_priority_of_its_path(self):
        frames = captured(self.lab.a, lambda: pingpong(self.lab, "-c", "-n", 20, "-l", 3))
        packets = [packet for packet in map(Packet.parse, frames)
                   if packet and packet.dest_qpn != GSI_QPN]  # Those have their own path.
        self.assertGreaterEqual(len(packets), 40)
        self.assertEqual({tag(packet.frame) for packet in packets}, {(3, VLAN)})


class WireVlanTest(VlanTransfers, unittest.TestCase):
    @staticmethod
    def make_lab():
        return VlanWireLab()

    def test_vlans_are_apart(self):
        gids = {entry["address"]: entry["index"] for entry in
                find_list(self.lab.a.dump("devices"))[0]["gids"]}
        check = DataCheck(self.lab, "--gid-a", gids["10.6.0.1"], "--deadline", 5)
        with self.assertRaises(Failed) as raised:
            check.finish()
        self.assertIn("to RTR: Connection timed out", str(raised.exception))


class PacketSocketVlanTest(unittest.TestCase):
    """The kernel takes the tag off what a packet socket gets, and the port puts it back."""

    SENDER = """
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
s.send(bytes.fromhex("{}"))
"""

    def test_a_tagged_frame_arrives_whole(self):
        lab = VethLab(1500, device="net_af_packet0;iface=eth0")
        self.check(lab, 0x88B5, bytes(range(100)), "rx_not_roce")

    def test_a_tagged_roce_packet_arrives_whole(self):
        """By iface=, which receives no other frames. Its queue pair is not there."""
        bth = bytes.fromhex("04 40 ffff 00 abcdef 00 000001")
        packet = bytes.fromhex("45 00 0030 0000 4000 40 11 0000 0a090909 0a000001"
                               "c000 12b7 001c 0000") + bth + bytes(8)
        total = sum(struct.unpack("!10H", packet[:20]))
        checksum = 0xFFFF - (total + (total >> 16)) % 0x10000
        packet = packet[:10] + struct.pack("!H", checksum) + packet[12:]
        self.check(VethLab(1500), 0x0800, packet, "port_rcv_packets")

    def check(self, lab, ether_type, payload, counter):
        self.addCleanup(lab.tear_down)
        frame = bytes.fromhex("ffffffffffff020000000009") + struct.pack(
            "!HHH", ETHERTYPE_VLAN, 3 << 13 | VLAN, ether_type) + payload

        def send_and_wait():
            before = lab.a.counters()[f"counters.{counter}"]
            lab.b.namespace.run(["python3", "-c", self.SENDER.format(frame.hex())])
            wait_until(lambda: lab.a.counters()[f"counters.{counter}"] > before, "the frame")

        self.assertIn(frame, captured(lab.a, send_and_wait))
        lab.close()


@unittest.skipUnless(kernel_has_vlans(), "this kernel has no 802.1Q interfaces")
class KernelVlanTest(VlanTransfers, unittest.TestCase):
    @staticmethod
    def make_lab():
        return KernelVlanLab()

    def test_gids_of_a_vlan_have_its_interface_and_come_and_go_with_it(self):
        watch = PortWatch(self.lab.a)
        self.addCleanup(watch.close)
        before = watch.gids
        index = watch.wait_for("10.5.0.1")
        ifindex = int(self.lab.a.namespace.ip("link", "show", "eth0.100").split(":")[0])
        self.assertEqual(before[index], ("::ffff:10.5.0.1", ifindex))
        self.assertNotEqual(before[0][1], ifindex)
        self.lab.a.namespace.ip("link", "del", "eth0.100")
        watch.wait_without("10.5.0.1")
        self.assertEqual(watch.gids, {at: gid for at, gid in before.items() if gid[1] != ifindex})
        add_vlan(self.lab.a.namespace, 1)
        watch.wait_for("10.5.0.1")
        wait_until(lambda: len(watch.gids) == len(before), "all GIDs of the VLAN")
        self.lab.forget_gids()
        pingpong(self.lab, "-c", "-n", 20)

    def test_given_address_of_a_vlan_uses_its_interface(self):
        namespace = self.lab.a.namespace
        with tempfile.TemporaryDirectory(prefix="uroce-e2e-") as directory:
            daemon = Daemon(namespace, directory, [
                "--port", "name=given,dev=net_af_packet1;iface=eth0,ip=10.5.0.9/24 vlan 100"])
            try:
                host = Host(namespace, daemon, "given", "10.5.0.9", None)
                watch = PortWatch(host)
                ifindex = watch.gids[watch.wait_for("10.5.0.9")][1]
                watch.close()
            finally:
                daemon.stop()
        self.assertEqual(ifindex, int(namespace.ip("link", "show", "eth0.100").split(":")[0]))

    def test_kernel_answers_no_roce_packet_of_a_vlan(self):
        frames = captured(self.lab.a, lambda: pingpong(self.lab, "-c", "-n", 20))
        self.assertFalse([frame for frame in frames if frame[16:18] == b"\x08\x00" and
                          frame[18 + 9] == 1], "ICMP messages")


@unittest.skipUnless(kernel_has_vlans(), "this kernel has no 802.1Q interfaces")
class VlanRouterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = VlanRouterLab(9000)
        cls.addClassCleanup(cls.lab.close)

    def test_data_byte_for_byte_out_of_a_vlan_by_a_router(self):
        for version in (4, 6):
            with self.subTest(version):
                data_check(self.lab, "--seed", seed(), "--ops", 300, version=version)

    def test_only_the_side_of_the_vlan_is_tagged(self):
        for host, expected in ((self.lab.a, (0, VLAN)), (self.lab.b, None)):
            frames = captured(host, lambda: pingpong(self.lab, "-c", "-n", 20))
            tags = {tag(frame) for frame in frames if Packet.parse(frame)}
            self.assertEqual(tags, {expected})
