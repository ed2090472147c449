# SPDX-License-Identifier: Apache-2.0
"""What is on the wire, by judges that are not ours, and what `uroce capture` says of it."""
import collections
import glob
import os
import re
import signal
import struct
import subprocess
import unittest

from labs.capture import start_capture, stop_capture, stop_complete_capture, tshark
from labs.lab import BUILD, VethLab, WireLab
from labs.process import Process, run, run_status, wait_until
from labs.programs import data_check, perftest, pingpong, seed
from labs.roce import Packet, pcapng_blocks, read_capture


def roce_packets(path):
    return [packet for packet in map(Packet.parse, read_capture(path)) if packet]


def count_bytes(packets):
    """The UDP checksum, which the kernel may add, is left out."""
    counts = collections.Counter()
    for packet in packets:
        raw = bytearray(packet.roce_bytes())
        checksum = (20 if packet.version == 4 else 40) + 6
        raw[checksum:checksum + 2] = bytes(2)
        counts[bytes(raw)] += 1
    return counts


def statistics_of(path):
    """(received, lost) of each interface, from a file's last blocks."""
    with open(path, "rb") as file:
        blocks = list(pcapng_blocks(file.read()))
    found = []
    for kind, body in blocks:
        if kind != 5:
            continue
        options, place = {}, 12
        while place + 4 <= len(body):
            code, length = struct.unpack_from("<HH", body, place)
            options[code] = body[place + 4:place + 4 + length]
            place += 4 + (length + 3) // 4 * 4
        found.append(tuple(int.from_bytes(options[code], "little") for code in (4, 5)))
    return found


class OnTheWire:
    """What leaves the interface, as tcpdump and `uroce capture` see it."""

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)
        cls.tcpdump_file = f"{cls.lab.directory}/tcpdump.pcap"
        cls.uroce_file = f"{cls.lab.directory}/uroce.pcapng"
        cls.record()

    @classmethod
    def record(cls):
        tcpdump = Process(cls.lab.a.namespace.command(
            ["tcpdump", "-i", "eth0", "-s", 0, "-B", 262144, "-Z", "root", "-w", cls.tcpdump_file,
             "udp", "port", "4791"]))
        capture = start_capture(cls.lab.a, cls.uroce_file, "udp", "port", "4791")
        try:
            wait_until(lambda: "listening on" in tcpdump.output(), "tcpdump")
            cls.traffic()
            cls.summary = stop_capture(capture)
            stop_complete_capture(tcpdump)
        finally:
            capture.kill()
            tcpdump.kill()

    @classmethod
    def traffic(cls):
        for version in (4, 6):
            pingpong(cls.lab, "-n", 20, version=version)
            data_check(cls.lab, "--seed", seed(), "--ops", 200, "--max-bytes", 20000,
                       version=version)
        perftest(cls.lab, "ib_atomic_bw", "-n", 20)
        perftest(cls.lab, "ib_read_bw", "-n", 5)

    def test_every_icrc_on_the_wire_is_right(self):
        packets = roce_packets(self.tcpdump_file)
        self.assertGreater(len(packets), 500)
        self.assertEqual([number for number, packet in enumerate(packets)
                          if not packet.icrc_is_right()], [])
        self.assertEqual({packet.version for packet in packets}, {4, 6})

    def test_every_operation_was_on_the_wire(self):
        opcodes = {packet.opcode for packet in roce_packets(self.tcpdump_file)}
        # RC: sends, writes, read request and responses, acknowledges and atomics (IBTA 9.2.1).
        self.assertLessEqual({0x00, 0x02, 0x04, 0x05, 0x06, 0x08, 0x0A, 0x0C, 0x10, 0x11, 0x12,
                              0x13, 0x14}, opcodes)

    def test_tshark_finds_rocev2_and_nothing_malformed(self):
        for path in (self.tcpdump_file, self.uroce_file):
            # A payload of two bytes and its pad may look like an EtherType to tshark, which then
            # takes what follows for that protocol: that is a guess about random data.
            guess = 'frame.protocols contains "infiniband:ethertype"'
            self.assertEqual(tshark(path, "-Y", f"_ws.malformed && !({guess})"), "")
            protocols = tshark(path, "-c", "200", "-T", "fields", "-e", "frame.protocols")
            self.assertTrue(all("infiniband" in line for line in protocols.splitlines()))

    def test_uroce_capture_holds_what_tcpdump_saw(self):
        self.assertRegex(self.summary, r"\d+ packets captured, 0 lost")
        ours = count_bytes(roce_packets(self.uroce_file))
        theirs = count_bytes(roce_packets(self.tcpdump_file))
        self.assertEqual(sum((ours - theirs).values()), 0, "only in uroce capture")
        self.assertEqual(sum((theirs - ours).values()), 0, "only in tcpdump")

    def test_directions_are_marked(self):
        directions = tshark(self.uroce_file, "-T", "fields", "-e", "frame.packet_flags_direction",
                            "-e", "ip.src", "-Y", "ip")
        seen = {tuple(line.split("\t")) for line in directions.splitlines()}
        self.assertEqual({(int(direction, 0), source) for direction, source in seen},
                         {(2, "10.0.0.1"), (1, "10.0.0.2")})


class PacketRingCaptureTest(OnTheWire, unittest.TestCase):
    @staticmethod
    def make_lab():
        return VethLab(9000, device="net_af_packet0;iface=eth0")


class SuperframeCaptureTest(OnTheWire, unittest.TestCase):
    """The kernel cuts superframes and completes checksums before the interface, as an adapter
    without these offloads would have it."""

    @staticmethod
    def make_lab():
        lab = VethLab(9000)
        for host in (lab.a, lab.b):
            run(host.namespace.command(["ethtool", "-K", "eth0", "tx-udp-segmentation", "off",
                                        "tx-checksum-ip-generic", "off"]))
        return lab

    def test_packets_of_superframes_have_right_udp_checksums(self):
        def with_checksum(status):
            return tshark(self.tcpdump_file, "-o", "udp.check_checksum:TRUE", "-Y",
                          f"udp.checksum.status == {status}").splitlines()
        self.assertEqual(with_checksum('"Bad"'), [])
        self.assertGreater(len(with_checksum('"Good"')), 100)
        # Packets that leave alone have none.
        self.assertGreater(len(with_checksum('"Not present"')), 100)


class CaptureCommandTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def path(self):
        return f"{self.lab.directory}/{self._testMethodName}.pcapng"

    def test_count_ends_the_capture(self):
        capture = start_capture(self.lab.a, self.path(), "-c", 10)
        pingpong(self.lab, "-n", 100)
        self.assertIn("10 packets captured", capture.expect_success(10))
        self.assertEqual(len(list(read_capture(self.path()))), 10)

    def test_device_flag_limits_to_one_nic(self):
        capture = start_capture(self.lab.a, self.path(), "-d", "uroce1")
        pingpong(self.lab, "-n", 10)
        stop_capture(capture)
        sources = tshark(self.path(), "-T", "fields", "-e", "frame.interface_name")
        self.assertEqual(set(sources.split()), {"uroce1"})

    def test_snap_length_cuts_frames_and_keeps_their_length(self):
        capture = start_capture(self.lab.a, self.path(), "-s", 100)
        pingpong(self.lab, "-n", 10, "-s", 4096)
        stop_capture(capture)
        lengths = tshark(self.path(), "-T", "fields", "-e", "frame.cap_len", "-e", "frame.len")
        pairs = [tuple(map(int, line.split())) for line in lengths.splitlines()]
        self.assertLessEqual(max(captured for captured, _ in pairs), 100)
        self.assertGreater(max(length for _, length in pairs), 1000)

    def test_filter_selects(self):
        capture = start_capture(self.lab.a, self.path(), "src", "host", "10.0.0.2")
        pingpong(self.lab, "-n", 10)
        stop_capture(capture)
        sources = tshark(self.path(), "-T", "fields", "-e", "ip.src")
        self.assertEqual(set(sources.split()), {"10.0.0.2"})

    def test_pipe_into_tshark_decodes_while_it_runs(self):
        read_end, write_end = os.pipe()
        capture = Process(self.lab.a.uroce("capture", "-w", "-"), stdout=write_end)
        os.close(write_end)
        decoder = subprocess.Popen(["tshark", "-r", "-", "-c", "20"], stdin=read_end,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        os.close(read_end)
        try:
            wait_until(lambda: "capturing on" in capture.output(), "uroce capture to start")
            pingpong(self.lab, "-n", 200)
            output, _ = decoder.communicate(timeout=30)
            self.assertEqual(len(output.splitlines()), 20)
            # Its reader has gone: that is an end, not an error.
            self.assertIn("packets captured", capture.expect_success(10))
        finally:
            decoder.kill()
            capture.kill()

    def ring_files(self):
        """The files of this test's ring, the oldest first."""
        return sorted(glob.glob(f"{self.lab.directory}/{self._testMethodName}_*.pcapng"))

    def test_ring_of_files_keeps_the_newest_packets_in_files_that_each_stand_alone(self):
        capture = start_capture(self.lab.a, self.path(), "-d", "uroce0", "-b", "packets:40",
                                "-b", "files:3")
        pingpong(self.lab, "-n", 200)
        summary = stop_capture(capture)
        captured, files = map(int, re.search(r"(\d+) packets captured in (\d+) files",
                                             summary).groups())
        self.assertEqual(files, -(-captured // 40), summary)
        kept = self.ring_files()
        self.assertEqual([int(name.split("_")[-2]) for name in kept],
                         [files - 2, files - 1, files])
        lengths = [len(list(read_capture(name))) for name in kept]
        self.assertEqual(lengths, [40, 40, captured - 40 * (files - 1)])
        for name in kept:
            self.assertIn("RRoCE", tshark(name))
            self.assertEqual(statistics_of(name)[0][0], len(list(read_capture(name))))

    def test_ring_of_files_by_size_ends_after_a_number_of_files(self):
        capture = start_capture(self.lab.a, self.path(), "-b", "filesize:20", "-a", "files:4")
        pingpong(self.lab, "-n", 400, "-s", 512)
        self.assertIn("in 4 files", capture.expect_success(10))
        sizes = [os.path.getsize(name) for name in self.ring_files()]
        self.assertEqual(len(sizes), 4)
        # A file is full by the packet that makes it 20 kB; its statistics come behind that.
        self.assertTrue(all(20000 <= size < 22500 for size in sizes), sizes)

    def test_duration_ends_a_capture_without_packets(self):
        capture = start_capture(self.lab.a, self.path(), "-a", "duration:0.2")
        self.assertIn("0 packets captured, 0 lost", capture.expect_success(10))

    def test_direction_flag_selects(self):
        for word, number in (("in", 1), ("out", 2)):
            with self.subTest(word):
                capture = start_capture(self.lab.a, self.path(), "-Q", word)
                pingpong(self.lab, "-n", 10)
                stop_capture(capture)
                flags = tshark(self.path(), "-T", "fields", "-e", "frame.packet_flags_direction")
                self.assertEqual({int(flag, 0) for flag in flags.split()}, {number})

    def test_captures_side_by_side_have_their_own_filters_and_lengths(self):
        whole, cut = f"{self.path()}.1", f"{self.path()}.2"
        captures = [start_capture(self.lab.a, whole, "-d", "uroce0"),
                    start_capture(self.lab.a, cut, "-s", 60, "-d", "uroce1", "src", "10.0.0.1")]
        pingpong(self.lab, "-n", 10, "-s", 256)
        for capture in captures:
            stop_capture(capture)
        self.assertEqual(set(tshark(whole, "-T", "fields", "-e", "frame.interface_name").split()),
                         {"uroce0"})
        self.assertGreater(max(map(len, read_capture(whole))), 256)
        self.assertEqual(set(tshark(cut, "-T", "fields", "-e", "ip.src").split()), {"10.0.0.1"})
        self.assertEqual(max(map(len, read_capture(cut))), 60)

    def test_each_signal_that_ends_a_program_ends_a_capture_well(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                capture = start_capture(self.lab.a, self.path())
                pingpong(self.lab, "-n", 10)
                capture.signal(number)
                self.assertIn("packets captured", capture.expect_success(10))
                self.assertEqual(len(statistics_of(self.path())), 2)

    def test_a_signal_just_before_a_write_that_blocks_ends_a_capture(self):
        os.mkfifo(self.path())
        reader = os.open(self.path(), os.O_RDWR)  # It reads nothing.
        self.addCleanup(os.close, reader)
        preload = BUILD / "tests" / "e2e" / "signal_before_write.so"
        capture = Process(["env", f"LD_PRELOAD={preload}",
                           *self.lab.a.uroce("capture", "-w", self.path())])
        self.addCleanup(capture.kill)
        wait_until(lambda: "capturing on" in capture.output(), "uroce capture to start")
        pingpong(self.lab, "-n", 100, "-s", 65536)
        capture.wait(60)
        self.assertIn("packets captured", capture.output())

    def test_full_disk_ends_the_capture_with_one_line_and_the_reason(self):
        capture = start_capture(self.lab.a, "/dev/full")
        self.assertEqual(capture.wait(10), 1)
        self.assertIn("write /dev/full: No space left on device", capture.output())

    def test_end_of_the_daemon_leaves_a_whole_file(self):
        lab = WireLab()
        try:
            capture = start_capture(lab.a, self.path())
            pingpong(lab, "-n", 10)
        finally:
            lab.close()
        self.assertEqual(capture.wait(10), 1)
        self.assertIn("the daemon has ended", capture.output())
        self.assertEqual(len(statistics_of(self.path())), 2)

    def test_file_ends_with_statistics_of_each_interface(self):
        capture = start_capture(self.lab.a, self.path())
        pingpong(self.lab, "-n", 10)
        stop_capture(capture)
        with open(self.path(), "rb") as file:
            kinds = [kind for kind, _ in pcapng_blocks(file.read())]
        self.assertEqual(kinds[-2:], [5, 5])

    def test_unknown_device_is_one_line_and_leaves_an_older_file_alone(self):
        with open(self.path(), "w", encoding="ascii") as file:
            file.write("precious")
        status, output = run_status(self.lab.a.uroce("capture", "-w", self.path(), "-d", "none0"))
        self.assertEqual(status, 2, output)
        self.assertIn("none0", output)
        with open(self.path(), encoding="ascii") as file:
            self.assertEqual(file.read(), "precious")

    def test_capture_of_a_flood_ends_and_counts_what_it_lost(self):
        capture = start_capture(self.lab.a, "/dev/null")
        perftest(self.lab, "ib_write_bw", "-n", 5000)
        self.assertRegex(stop_capture(capture), r"\d+ packets captured, \d+ lost")

    def test_stopped_capture_does_not_hold_traffic_up(self):
        capture = start_capture(self.lab.a, "/dev/null")
        capture.signal(signal.SIGSTOP)
        pingpong(self.lab, "-n", 2000, "-s", 65536)
        capture.signal(signal.SIGCONT)
        stop_capture(capture)
