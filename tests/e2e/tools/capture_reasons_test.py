# SPDX-License-Identifier: Apache-2.0
"""What a capture says of packets, and that it accounts for each one."""
import re
import signal
import unittest
from pathlib import Path

from labs.capture import capturing, start_capture, stop_capture, tshark
from labs.lab import VERBS_CHECK, WireLab
from labs.process import wait_until
from labs.programs import data_check, perftest, pingpong, seed
from labs.roce import Packet, read_capture

SUMMARY = re.compile(r"uroce capture: (\w+): sent (\d+) captured, (\d+) lost; "
                     r"received (\d+) captured, (\d+) lost")


def totals(summary):
    """By interface: (sent, received), captured and lost together, and all that was lost."""
    rows = {name: list(map(int, numbers)) for name, *numbers in SUMMARY.findall(summary)}
    return ({name: (row[0] + row[1], row[2] + row[3]) for name, row in rows.items()},
            sum(row[1] + row[3] for row in rows.values()))


def counted(lab):
    return {host.device: (host.counters()["counters.port_xmit_packets"],
                          host.counters()["counters.port_rcv_packets"])
            for host in (lab.a, lab.b)}


def comments(path):
    return tshark(path, "-T", "fields", "-e", "frame.comment", "-Y", "frame.comment").splitlines()


class AccountTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def path(self, name=""):
        return f"{self.lab.directory}/{self._testMethodName}{name}.pcapng"

    def difference(self, before):
        return {device: tuple(now - then for now, then in zip(counts, before[device]))
                for device, counts in counted(self.lab).items()}

    def test_captured_and_lost_are_what_the_devices_counted(self):
        before = counted(self.lab)
        capture = start_capture(self.lab.a, self.path(), "--ring-bytes", 1 << 16)
        perftest(self.lab, "ib_write_bw", "-n", 500)
        capture.signal(signal.SIGSTOP)  # A reader that is too slow, on any machine.
        perftest(self.lab, "ib_write_bw", "-n", 500)
        capture.signal(signal.SIGCONT)
        summary = stop_capture(capture)
        sums, lost = totals(summary)
        self.assertEqual(sums, self.difference(before))
        self.assertGreater(lost, 0, "a ring of 64 KiB, which no program read")
        packets = [Packet.parse(frame) for frame in read_capture(self.path())]
        self.assertTrue(all(packet.icrc_is_right() for packet in packets))
        self.assertRegex(summary, rf"{len(packets)} packets captured, {lost} lost")

    def test_captures_beside_each_other_do_not_meet(self):
        before = counted(self.lab)
        captures = {name: start_capture(self.lab.a, self.path(name), *arguments)
                    for name, arguments in {"all": (), "short": ("-s", 80),
                                            "one": ("-d", "uroce1"),
                                            "none": ("udp", "port", "7")}.items()}
        killed = start_capture(self.lab.a, "/dev/null")
        stopped = start_capture(self.lab.a, "/dev/null")
        killed.signal(signal.SIGKILL)
        stopped.signal(signal.SIGSTOP)
        pingpong(self.lab, "-n", 500)
        summaries = {name: stop_capture(capture) for name, capture in captures.items()}
        stopped.kill()
        sums = self.difference(before)
        self.assertEqual(totals(summaries["all"])[0], sums)
        self.assertEqual(totals(summaries["short"])[0], sums)
        self.assertEqual(totals(summaries["one"])[0], {"uroce1": sums["uroce1"]})
        self.assertIn("0 packets captured, 0 lost", summaries["none"])

    def rings(self):
        """How many rings of captures the daemon has in its memory."""
        pid = self.lab.daemons[0].process.pid
        return Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").count("uroce-capture")

    def test_rings_of_captures_that_ended_are_given_back(self):
        for end in (signal.SIGINT, signal.SIGKILL):
            wait_until(lambda: not self.rings(), "the end of all rings")
            capture = start_capture(self.lab.a, "/dev/null", "--ring-bytes", 64 << 20)
            wait_until(self.rings, "the ring")
            capture.signal(end)
            wait_until(lambda: not self.rings(), "its end")
            capture.kill()

    def test_a_refused_request_says_why(self):
        with capturing(self.lab.a, self.path(), "--only", "dropped"):
            self.lab.a.run(VERBS_CHECK, "--errors", "bad-rkey", "--deadline", 20, "--max-bytes",
                           4096, "--gid-a", self.lab.a.gid_index(), "--gid-b",
                           self.lab.b.gid_index())
        self.assertTrue(any(re.search(r"refused by qp 0x[0-9a-f]{6}: the key does not grant the "
                                      r"range, NAK remote access error sent", text)
                            for text in comments(self.path())), comments(self.path()))

    def test_nothing_is_dropped_or_sent_again_on_a_good_wire(self):
        with capturing(self.lab.a, self.path(), "--only", "dropped,retransmitted,marked"):
            pingpong(self.lab, "-n", 100)
        self.assertEqual(list(read_capture(self.path())), [], comments(self.path()))


class FaultyWireTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.seed = seed()
        print(f"   faults with seed {cls.seed}", flush=True)
        faults = f"drop=0.02,duplicate=0.02,corrupt=0.02,ce=0.05,seed={cls.seed}"
        cls.lab = WireLab("--fault", f"uroce0:{faults}", keys=["cc=dcqcn"])
        cls.addClassCleanup(cls.lab.close)
        cls.path = f"{cls.lab.directory}/faults.pcapng"
        before = counted(cls.lab)
        capture = start_capture(cls.lab.a, cls.path, "-s", 128)
        data_check(cls.lab, "--seed", cls.seed, "--ops", 600, "--max-bytes", 20000)
        cls.summary = stop_capture(capture)
        cls.counts = {device: tuple(now - then for now, then in zip(counts, before[device]))
                      for device, counts in counted(cls.lab).items()}
        cls.comments = comments(cls.path)

    def test_captured_and_lost_are_what_the_devices_counted(self):
        self.assertEqual(totals(self.summary)[0], self.counts)

    def count(self, pattern):
        return sum(bool(re.search(pattern, text)) for text in self.comments)

    def counter(self, name):
        return sum(value for host in (self.lab.a, self.lab.b)
                   for key, value in host.counters().items() if key == f"counters.{name}")

    def test_comments_agree_with_the_counters(self):
        for name, pattern in {
                "rx_icrc_encapsulated": "the ICRC is wrong",
                "kept_out_of_order": r"kept: psn \d+ is ahead, qp 0x[0-9a-f]{6} expects psn \d+",
                "duplicate_request": r"duplicate: qp 0x[0-9a-f]{6} expects psn \d+",
                "np_ecn_marked_roce_packets": "arrived with congestion experienced",
                "rx_ghost": "waits for this response",
                "np_cnp_sent": r"CNP sent by qp 0x[0-9a-f]{6} for psn \d+",
                "rp_cnp_handled": r"qp 0x[0-9a-f]{6} sends less, rate [0-9.]+ [MG]b/s",
                "retransmitted_pkts": r"retransmission (\d+ of \d+ )?of qp 0x[0-9a-f]{6}: ",
        }.items():
            with self.subTest(name):
                self.assertEqual(self.count(pattern), self.counter(name))
                self.assertGreater(self.counter(name), 0)


if __name__ == "__main__":
    unittest.main()
