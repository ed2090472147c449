# SPDX-License-Identifier: Apache-2.0
"""Two workers, and what else goes on at their ports: captures, packet histories, the stacks beside
them, changes of the MAC, overflows and resets."""
import collections
import unittest

from labs.capture import start_capture, stop_capture, tshark
from labs.lab import BUILD, VethLab, WireLab, find_list
from labs.process import wait_until
from labs.programs import DataCheck, data_check, perftest, pingpong, seed
from ports import kernel_traffic_test
from ports import routed_host_test
from tools import packet_history_test

WORKERS = ("--workers", "2")
PROGRAMS = BUILD / "tests" / "e2e"
ACKNOWLEDGE = "17"  # Its PSN may come again.


class WorkersExceptionTest(kernel_traffic_test.ExceptionTest):
    arguments = WORKERS


class WorkersHistoryTest(packet_history_test.HistoryTest):
    arguments = WORKERS


class WorkersHostTest(routed_host_test.HostTest):
    arguments = WORKERS


class WorkersCaptureTest(unittest.TestCase):
    FIELDS = ("frame.time_delta", "frame.interface_name", "frame.packet_flags_direction",
              "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn",
              "frame.comment")

    def test_packets_of_both_workers_are_there_once_and_in_the_order_of_time(self):
        lab = WireLab(*WORKERS)
        self.addCleanup(lab.close)
        path = f"{lab.directory}/both.pcapng"
        capture = start_capture(lab.a, path, "-s", 128)
        self.addCleanup(capture.kill)
        perftest(lab, "ib_write_bw", "-q", 8, "-n", 20, "-s", 4096)
        data_check(lab, "--seed", seed(), "--ops", 200)
        self.assertRegex(stop_capture(capture), r"\d+ packets captured, 0 lost")
        fields = [part for name in self.FIELDS for part in ("-e", name)]
        rows = [line.split("\t") for line in tshark(path, "-T", "fields", *fields).splitlines()]
        self.assertGreater(len(rows), 1000)
        self.assertGreaterEqual(min(float(row[0]) for row in rows), 0)
        self.check_both_directions(rows)

    def check_both_directions(self, rows):
        seen = collections.defaultdict(collections.Counter)
        for _, interface, direction, opcode, qpn, psn, comment in rows:
            way = (interface, int(direction, 0))
            seen[way][opcode, qpn, psn] += 1
            if not comment and opcode != ACKNOWLEDGE:
                self.assertEqual(seen[way][opcode, qpn, psn], 1, (way, opcode, qpn, psn))
        received, sent = 1, 2
        for here, there in (("uroce0", "uroce1"), ("uroce1", "uroce0")):
            self.assertTrue(seen[here, sent])
            self.assertEqual(seen[here, sent], seen[there, received])


class WorkersMacTest(unittest.TestCase):
    def test_transfers_of_both_workers_follow_the_macs(self):
        lab = VethLab(9000, *WORKERS)
        self.addCleanup(lab.close)
        checks = [DataCheck(lab, "--seed", seed(), "--timeout", 18, ongoing=True)
                  for _ in range(2)]
        for check in checks:
            self.addCleanup(check.kill)

        def queue_pairs():
            return find_list(lab.a.dump("qp"))

        wait_until(lambda: sum(qp["received_packets"] > 500 for qp in queue_pairs()) == 2,
                   "both transfers to be under way", 60)
        self.assertEqual([worker["queue_pairs"] for worker in lab.a.dump("stat")["workers"]],
                         [1, 1])
        lab.a.namespace.ip("link", "set", "eth0", "address", "02:00:00:00:77:01")
        lab.b.namespace.ip("link", "set", "eth0", "address", "02:00:00:00:77:02")
        wait_until(lambda: {qp["remote_mac"] for qp in queue_pairs()} == {"02:00:00:00:77:02"},
                   "paths to the new MAC")
        for check in checks:
            check.finish()


class WorkersQueuesTest(unittest.TestCase):
    def test_an_overflown_cq_takes_the_queue_pairs_of_all_workers_along_and_no_other(self):
        lab = WireLab(*WORKERS)
        self.addCleanup(lab.close)
        lab.a.run(PROGRAMS / "cq_overflow", "-x", lab.a.gid_index(), "-y", lab.b.gid_index(),
                  timeout_s=120)
        pingpong(lab, "-n", 100)

    def test_what_is_handed_over_to_a_reset_queue_pair_is_not_of_its_next_life(self):
        lab = WireLab(*WORKERS)
        self.addCleanup(lab.close)
        lab.a.run(PROGRAMS / "faulty_programs", "resets-while-its-peer-sends", lab.a.gid_index(),
                  lab.b.gid_index(), timeout_s=120)
        taken = sum(worker["taken_over"] for worker in lab.a.dump("stat")["workers"])
        self.assertGreater(taken, 500)
