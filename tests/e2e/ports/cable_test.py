# SPDX-License-Identifier: Apache-2.0
"""What is on the cable behind ports of the kernel (iface=, udp=): every packet of data that is
checked by bytes, its ICRC and IPv4 checksum judged by roce.py. The kernel has cut superframes
before. --long: 10,000 operations of each kind."""
import collections
import contextlib
import math
import os
import re
import unittest

from labs.capture import stop_complete_capture
from labs.lab import LONG, UdpLab, VethLab
from labs.process import Process, wait_until
from labs.programs import data_check, seed
from labs.roce import Packet, ipv4_checksum, read_capture

OF_EACH_KIND = 10000 if LONG else 40
MESSAGES = {"send", "send-imm"}
WRITES = MESSAGES | {"write", "write-imm"}
# What is not repeated when it is lost: a round of messages fits a receive buffer of 208 KB.
FITS = ("--max-bytes", "4000")
SERVICES = {"rc": (WRITES | {"read", "compare-swap", "fetch-add"}, ("--max-bytes", "20000")),
            "uc": (WRITES, FITS), "ud": (MESSAGES, ())}


def ops(kinds):
    """So many that the rarest kind, they are drawn at random, has enough at both ends. The first
    end counts its own; the other one draws the sizes of its rounds again, and may have half as
    many."""
    return 2 * math.ceil(OF_EACH_KIND * len(kinds) * (1 + 5 / math.sqrt(OF_EACH_KIND)))


def is_right(packet):
    if packet.version == 4 and ipv4_checksum(packet.frame[packet.ip:packet.ip + 20]) != 0:
        return False
    return packet.icrc_is_right()


class Cable:
    """`lab_class` and `mtu` say what is under test."""

    def setUp(self):
        self.lab = self.lab_class(self.mtu)
        self.addCleanup(self.lab.close)
        for namespace in self.lab.namespaces:
            namespace.run(["ethtool", "-K", "eth0", "tx-udp-segmentation", "off", "gso", "off",
                           "gro", "off"])

    @contextlib.contextmanager
    def captured(self):
        """The packets of both directions go to the file that is yielded. None may be missing."""
        path = f"{self.lab.directory}/cable.pcap"
        tcpdump = Process(self.lab.a.namespace.command(
            ["tcpdump", "-i", "eth0", "-s", 0, "-B", 262144, "-Z", "root", "-w", path, "udp",
             "port", "4791"]))
        self.addCleanup(tcpdump.kill)
        wait_until(lambda: "listening on" in tcpdump.output(), "tcpdump")
        yield path
        stop_complete_capture(tcpdump)

    def judge(self, path, version):
        """How many packets there are."""
        count = longest = 0
        identifications = collections.Counter()
        for frame in read_capture(path):
            packet = Packet.parse(frame)
            self.assertIsNotNone(packet, frame[:80].hex())
            self.assertTrue(is_right(packet), f"packet {count}: {frame.hex()}")
            self.assertEqual(packet.version, version)
            count += 1
            longest = max(longest, packet.end - packet.ip)
            if version == 4:
                identifications[frame[packet.ip + 4:packet.ip + 6]] += 1
        os.remove(path)
        self.assertLessEqual(longest, self.mtu)
        self.assertGreater(longest, min(self.mtu, 4096) * 2 // 3, "superframes were cut")
        if version == 4:
            self.assertGreater(len(identifications), 2)
        return count

    def transfer(self, service, version):
        kinds, flags = SERVICES[service]
        outputs = data_check(
            self.lab, "--service", service, "--seed", seed(), "--ops", ops(kinds), "--timeout", 16,
            "--deadline", 60, *flags, version=version, timeout_s=1500 if LONG else 180)
        for output in outputs:
            sent = {kind: int(count)
                    for kind, count in re.findall(r" ([a-z-]+)=([1-9]\d*)", output)}
            self.assertEqual(set(sent), kinds)
            self.assertGreaterEqual(min(sent.values()), OF_EACH_KIND, sent)

    def test_every_packet_of_every_operation(self):
        for version in (4, 6):
            with self.subTest(version=version):
                with self.captured() as path:
                    for service in SERVICES:
                        self.transfer(service, version)
                count = self.judge(path, version)
                print(f"   {type(self).__name__} over IPv{version}: {count} packets are right, of "
                      f"{OF_EACH_KIND} operations of each kind and end", flush=True)


class Interface9000Test(Cable, unittest.TestCase):
    lab_class, mtu = VethLab, 9000


class Interface1500Test(Cable, unittest.TestCase):
    lab_class, mtu = VethLab, 1500


class Udp9000Test(Cable, unittest.TestCase):
    lab_class, mtu = UdpLab, 9000


class Udp1500Test(Cable, unittest.TestCase):
    lab_class, mtu = UdpLab, 1500


if __name__ == "__main__":
    unittest.main()
