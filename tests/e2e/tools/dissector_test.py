# SPDX-License-Identifier: Apache-2.0
"""tshark with uroce.lua, over packets made here by their bytes."""
import os
import struct
import subprocess
import tempfile
import unittest

from labs.lab import UROCE
from labs.process import run
from labs.roce import bth, frame_v4

ENDS = ("02:00:00:00:00:01", "02:00:00:00:00:02", "10.0.0.1", "10.0.0.2")
AETH = bytes([0x1F, 0, 0, 5])
QPN = 0x123


def acknowledgement(opcode, psn, packets, words):
    bitmap = b"".join(struct.pack("!I", word) for word in words)
    return frame_v4(*ENDS, bth(opcode, QPN, psn) + AETH + struct.pack("!HH", 0, packets) + bitmap)


def capabilities(method, status=0, features=1):
    mad = bytearray(256)
    mad[0:4] = bytes([1, 0x37, 1, method])
    struct.pack_into("!HHQH", mad, 4, status, 0, 0x0102030405060708, 0x10)
    mad[37:40] = b"roc"
    struct.pack_into("!HHIQ", mad, 40, 1, 0, features, 0xABCD)
    return frame_v4(*ENDS, bth(0x64, 1, 5) + struct.pack("!II", 0x80010000, 1) + bytes(mad))


STANDARD = [frame_v4(*ENDS, bth(0x11, QPN, 77) + AETH),
            frame_v4(*ENDS, bth(0x04, QPN, 78, ack=True) + b"x" * 64)]


def message(payload):
    padding = -len(payload) % 4
    header = bytearray(bth(0x04, QPN, 78, ack=True))
    header[1] |= padding << 4
    return frame_v4(*ENDS, bytes(header) + payload + bytes(padding))


def write_pcap(path, frames, snap=65535):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap, 1))
        for frame in frames:
            kept = frame[:snap]
            file.write(struct.pack("<IIII", 1, 0, len(kept), len(frame)) + kept)


class DissectorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="uroce-e2e-")
        cls.addClassCleanup(directory.cleanup)
        cls.home = directory.name
        cls.bare_home = f"{cls.home}/bare"
        os.mkdir(cls.bare_home)
        # The place that Wireshark names; the link of uroce-extcap is not looked at here.
        folder = f"{cls.home}/.local/lib/wireshark/plugins"
        os.makedirs(folder)
        os.symlink(UROCE.parent / "uroce.lua", f"{folder}/uroce.lua")

    def tshark(self, frames, *arguments, home=None, snap=65535):
        path = f"{self.home}/frames.pcap"
        write_pcap(path, frames, snap)
        done = subprocess.run(["tshark", "-r", path, *arguments], stdin=subprocess.DEVNULL,
                              env={**os.environ, "HOME": home or self.home},
                              capture_output=True, text=True, timeout=60, check=True)
        self.assertNotIn("Lua", done.stderr)
        return done.stdout

    def values(self, frame, *fields):
        return self.rows([frame], *fields)[0]

    def rows(self, frames, *fields):
        """Of each frame the values of the fields."""
        words = [word for field in fields for word in ("-e", field)]
        lines = self.tshark(frames, "-T", "fields", *words).split("\n")[:-1]
        self.assertEqual(len(lines), len(frames))
        return [line.split("\t") for line in lines]

    def numbers(self, frames, condition):
        """Which frames meet a condition of Wireshark's: 1 is the first."""
        return self.tshark(frames, "-Y", condition, "-T", "fields", "-e", "frame.number").split()

    def test_folder_is_the_one_of_wireshark(self):
        folders = run(["env", f"HOME={self.home}", "tshark", "-G", "folders"])
        self.assertRegex(folders, rf"(?m)^Personal Lua Plugins:\s*{self.home}/\.local/lib/")

    def test_short_messages_and_such_as_look_like_rpc_are_whole(self):
        frames = [message(b"x" * size) for size in (0, 1, 4, 12, 15, 16, 64)]
        frames += [message(struct.pack("!IIII", 1, 2, 3, kind) + b"x" * 8) for kind in range(6)]
        self.assertIn("Malformed", self.tshark(frames, home=self.bare_home))
        lines = self.tshark(frames).splitlines()
        self.assertEqual(len(lines), len(frames))
        for line in lines:
            self.assertRegex(line, r"RRoCE \d+ RC Send Only QP=0x000123\s*$")

    def test_rpc_over_rdma_is_still_found(self):
        call = struct.pack("!IIIIIII", 7, 1, 32, 0, 0, 0, 0)  # No chunks: the call follows.
        call += struct.pack("!IIIIII", 7, 0, 2, 100003, 4, 0) + bytes(16)
        self.assertIn("NFS", self.tshark([message(call)]))

    def test_cut_payload_is_called_so(self):
        frames = [STANDARD[0], message(b"x" * 1000)]
        self.assertIn("Malformed", self.tshark(frames, home=self.bare_home, snap=128))
        acknowledged, cut = self.tshark(frames, snap=128).splitlines()
        self.assertIn("RC Acknowledge QP=0x000123", acknowledged)
        self.assertIn("RC SEND Only QP=0x000123, payload cut", cut)
        self.assertNotIn("Malformed", cut)

    def test_bitmap_is_read(self):
        frame = acknowledgement(0xD1, 0xFFFFFE, 40, [0xFFFFFFF0, 0x81])
        self.assertEqual(
            self.values(frame, "uroce.ack.service", "uroce.ack.psn", "uroce.ack.credits",
                        "uroce.ack.msn", "uroce.ack.packets", "uroce.ack.kept",
                        "uroce.ack.missing"),
            ["RC", "16777214", "31", "5", "40", "30", "16777214-1,31-36"])
        self.assertIn("RC Selective Acknowledge QP=0x000123 PSN=16777214", self.tshark([frame]))

    def test_extended_connections_and_one_missing_packet(self):
        frame = acknowledgement(0xF1, 9, 3, [0x6])
        self.assertEqual(self.values(frame, "uroce.ack.service", "uroce.ack.kept",
                                     "uroce.ack.missing"), ["XRC", "2", "9"])

    def test_longest_bitmap(self):
        frame = acknowledgement(0xD1, 1, 2048, [0] * 63 + [1 << 31])
        self.assertEqual(self.values(frame, "uroce.ack.kept", "uroce.ack.missing"),
                         ["1", "1-2047"])

    def test_what_cannot_be_right_is_said(self):
        whole = acknowledgement(0xD1, 1, 40, [0, 0])
        frames = [acknowledgement(0xD1, 1, 40, [0]), acknowledgement(0xD1, 1, 0, []),
                  acknowledgement(0xD1, 1, 65535, [0, 0]),
                  frame_v4(*ENDS, bth(0xD1, QPN, 1) + AETH), whole]
        self.assertEqual(self.numbers(frames, "uroce.malformed"), ["1", "2", "3", "4"])

    def test_capabilities_are_read(self):
        fields = ("uroce.mad.method", "uroce.mad.status", "uroce.mad.transaction",
                  "uroce.mad.version", "uroce.mad.features.selective_repeat",
                  "uroce.mad.instance")
        asked, without, unknown = self.rows(
            [capabilities(0x01), capabilities(0x81, features=0), capabilities(0x81, status=0x0C)],
            *fields)
        self.assertEqual(asked, ["0x01", "0x0000", "0x0102030405060708", "1", "1",
                                 "0x000000000000abcd"])
        self.assertEqual(without[4], "0")
        self.assertEqual(unknown, ["0x81", "0x000c", "0x0102030405060708", "", "", ""])

    def test_waits_of_hosts_are_read(self):
        # pipeline/wire/packet.h: (4 + f) * 2^e * 8 us.
        frames, expected = [], []
        for code, us in ((1, 40), (4, 64), (7, 112), (0x3F, 1835008)):
            for opcode in (0x11, 0xD1):
                packet = bytearray(bth(opcode, QPN, 77))
                packet[4] |= code
                body = AETH + (struct.pack("!HHI", 0, 1, 0) if opcode == 0xD1 else b"")
                frames.append(frame_v4(*ENDS, bytes(packet) + body))
                expected.append([str(us)])
        self.assertEqual(self.rows(frames, "uroce.host_delay"), expected)
        self.assertEqual(self.tshark(STANDARD, "-Y", "uroce.host_delay"), "")

    def test_notifications_are_named(self):
        packet = bytearray(bth(0x81, QPN, 0))
        packet[4] = 0x40
        frame = frame_v4(*ENDS, bytes(packet) + bytes(16))
        self.assertEqual(self.values(frame, "uroce.cnp.qp", "uroce.host_delay"), ["0x000123", ""])
        self.assertIn("Congestion Notification (CNP) QP=0x000123", self.tshark([frame]))
        packet[4] = 0
        wrong = frame_v4(*ENDS, bytes(packet) + bytes(16))
        self.assertEqual(self.numbers([frame, wrong], "uroce.malformed"), ["2"])

    def test_packets_of_the_standard_look_as_without_it(self):
        for arguments in ((), ("-V",)):
            self.assertEqual(self.tshark(STANDARD, *arguments),
                             self.tshark(STANDARD, *arguments, home=self.bare_home))
        self.assertEqual(self.tshark(STANDARD, "-Y", "uroce"), "")

    def test_other_manufacturers_are_left_alone(self):
        other = bytearray(capabilities(0x01))
        place = other.index(b"roc")
        other[place:place + 3] = b"cor"
        self.assertEqual(self.tshark([bytes(other)], "-Y", "uroce"), "")
