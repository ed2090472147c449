# SPDX-License-Identifier: Apache-2.0
"""The packet history: the last packets of queue pairs that fail, and of live ones on demand."""
import glob
import os
import tempfile
import unittest

from labs.capture import tshark
from labs.lab import UROCED, VERBS_CHECK, WireLab, find_list, next_port
from labs.process import json_of, run, run_status, wait_until
from labs.programs import endless_writes, perftest, pingpong

FILES = 3


class HistoryTest(unittest.TestCase):
    arguments = ()

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="uroce-history-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.lab = WireLab("--history-dir", cls.folder, "--history-packets", "16",
                          "--history-files", str(FILES), *cls.arguments)
        cls.addClassCleanup(cls.lab.close)

    def setUp(self):
        self.written = self.counts()["written"]

    def counts(self):
        return json_of(self.lab.a.uroce("stat", "--json"))["histories"]

    def received(self):
        return self.lab.b.counters()["counters.port_rcv_packets"]

    def fail(self, case, *flags):
        self.lab.a.run(VERBS_CHECK, "--errors", case, "--deadline", 20, "--max-bytes", 4096,
                       "--gid-a", self.lab.a.gid_index(), "--gid-b", self.lab.b.gid_index(), *flags)

    def newest(self, count):
        wait_until(lambda: self.counts()["written"] >= self.written + count, "the files")
        files = sorted(glob.glob(f"{self.folder}/*.pcapng"), key=os.path.getmtime)
        return files[-count:]

    def test_both_ends_of_a_refused_write_leave_their_packets(self):
        self.fail("bad-rkey")
        texts = [tshark(path, "-T", "fields", "-e", "frame.comment") for path in self.newest(2)]
        self.assertTrue(any("REM_ACCESS_ERR, NAK received: remote access error" in text
                            for text in texts), texts)
        self.assertTrue(any("the key does not grant the range" in text
                            and "NAK sent: remote access error" in text for text in texts), texts)

    def test_the_retries_that_ended_a_connection_are_in_its_file(self):
        self.fail("peer-gone", "--timeout", 8, "--retries", 2)
        text = tshark(self.newest(1)[0], "-T", "fields", "-e", "frame.comment")
        self.assertIn("retransmission 2 of 2", text)
        self.assertIn("RETRY_EXC_ERR", text)

    def test_wireshark_finds_no_packet_malformed(self):
        flags = ["ib_write_bw", "-x", self.lab.a.gid_index(), "-p", next_port(), "-F", "-u", 14,
                 "-s", 65536, "--run_infinitely"]
        server = self.lab.b.start(*flags, "-d", self.lab.b.device)
        self.addCleanup(server.kill)
        wait_until(lambda: self.lab.b.is_listening(server, flags[4]),
                   "a listener")
        before = self.received()
        client = self.lab.a.start(*flags, "-d", self.lab.a.device, self.lab.server_address)
        self.addCleanup(client.kill)
        wait_until(lambda: self.received() > before + 1000, "traffic")
        server.kill()
        path = self.newest(1)[0]
        lengths = tshark(path, "-T", "fields", "-e", "frame.len", "-e", "frame.cap_len").split()
        self.assertGreater(max(map(int, lengths)), 1000, "a packet that is not kept as a whole")
        self.assertEqual(lengths[::2], lengths[1::2])
        self.assertNotIn("Malformed", tshark(path))
        self.assertIn("zeros stand for the others", run(["capinfos", path]))

    def test_the_programs_own_modify_leaves_no_file(self):
        self.fail("flush-by-modify")
        pingpong(self.lab, "-n", 10)
        self.assertEqual(self.counts()["written"], self.written)

    def test_old_files_make_room(self):
        for _ in range(FILES):
            self.fail("bad-rkey")
        self.newest(2 * FILES)
        self.assertLessEqual(len(glob.glob(f"{self.folder}/*.pcapng")), FILES)
        self.assertEqual(self.counts()["missed"], 0)

    def test_a_live_queue_pair_gives_its_newest_packets(self):
        path = f"{self.lab.directory}/live.pcapng"
        server, client = endless_writes(self, self.lab)
        (qpn,) = [qp["qpn"] for qp in find_list(self.lab.b.dump("qp"))
                  if qp["device"] == self.lab.b.device]
        run(self.lab.a.uroce("history", qpn, "-w", path))
        self.assertEqual(len(tshark(path).splitlines()), 16)
        said = run(self.lab.a.uroce("flight", qpn, "-w", path))
        self.assertIn("uroce: flight has the name history now", said)
        server.kill()
        client.kill()
        status, output = run_status(self.lab.a.uroce("history", 5, "-w", path))
        self.assertEqual(status, 2)
        self.assertIn("no queue pair 0x", output)

    def test_traffic_goes_on_with_the_recorder(self):
        perftest(self.lab, "ib_write_bw", "-n", 500)

    def test_a_directory_that_is_none_is_one_line(self):
        status, output = run_status([UROCED, "--history-dir", "/nonexistent", "--socket",
                                     f"{self.lab.directory}/other.sock"])
        self.assertEqual(status, 2)
        self.assertIn("--history-dir: /nonexistent", output)

    def test_a_name_of_an_earlier_version_is_taken_and_told(self):
        status, output = run_status([UROCED, "--flight-recorder", "/nonexistent", "--socket",
                                     f"{self.lab.directory}/other.sock"])
        self.assertEqual(status, 2)
        self.assertIn("uroced: --flight-recorder has the name history_dir now", output)
