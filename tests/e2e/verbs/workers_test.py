# SPDX-License-Identifier: Apache-2.0
"""Two workers: programs and their data on every kind of port, whichever worker owns their queue
pairs and whichever drives the port."""
import os
import signal
import unittest

from labs.lab import LONG, UNPRIVILEGED, UdpLab, VethLab, WireLab, find_list, preload
from labs.memif_lab import MemifLab
from labs.process import wait_until
from labs.programs import (data_check, data_check_in_one_process, endless_writes, perftest,
                           pingpong, seed)
from labs.switch_lab import SwitchLab

WORKERS = ("--workers", "2")
ITERATIONS = 2000 if LONG else 100
DATA_OPS = 20000 if LONG else 800
FAULTS = "drop=0.01,duplicate=0.01,reorder=0.02"


def workers_of(host):
    return host.dump("stat")["workers"]


def both_worked(host):
    return all(worker["port_xmit_packets"] for worker in workers_of(host))


class WireWorkersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab(*WORKERS)
        cls.addClassCleanup(cls.lab.close)

    def test_pingpong_awake_and_sleeping(self):
        pingpong(self.lab, "-c", "-n", ITERATIONS)
        pingpong(self.lab, "-c", "-e", "-n", ITERATIONS)

    def test_data_byte_for_byte(self):
        data_check(self.lab, "--seed", seed(), "--ops", DATA_OPS)
        data_check_in_one_process(self.lab, "--seed", seed(), "--ops", DATA_OPS)

    def test_many_queue_pairs_work_on_both(self):
        for count in (8, 64):
            perftest(self.lab, "ib_write_bw", "-q", count, "-n", 20, "-s", 4096)
        self.assertTrue(both_worked(self.lab.a), workers_of(self.lab.a))

    def test_both_ends_of_a_connection_have_one_worker(self):
        # Programs start together, so their queue pairs are made in any order.
        for _ in range(2):
            endless_writes(self, self.lab, "-q", 3)

        def connected():
            return [its for its in find_list(self.lab.a.dump("qp"))
                    if its["state"] in ("RTR", "RTS")]

        wait_until(lambda: len(connected()) == 12, "connections")
        worker_of = {its["qpn"]: its["worker"] for its in connected()}
        for its in connected():
            self.assertEqual(its["worker"], worker_of[its["remote_qpn"]], worker_of)
        self.assertEqual([its["queue_pairs"] for its in workers_of(self.lab.a)], [6, 6])

    def test_a_killed_program_leaves_nothing_on_either(self):
        server, client = endless_writes(self, self.lab, "-q", 8)
        self.assertEqual(sum(w["queue_pairs"] for w in workers_of(self.lab.a)), 16)
        server.kill()
        client.kill()
        wait_until(lambda: not any(w["queue_pairs"] for w in workers_of(self.lab.a)),
                   "no queue pair")
        pingpong(self.lab, "-c", "-n", ITERATIONS)


class BalancedWorkersTest(unittest.TestCase):
    """Which connections will be busy shows when they are connected already."""

    @unittest.skipIf(len(os.sched_getaffinity(0)) == 1, "a second worker has no CPU to work on")
    def test_busy_connections_beside_idle_ones_get_a_worker_each(self):
        lab = WireLab(*WORKERS)
        self.addCleanup(lab.close)

        def connected():
            return {its["qpn"]: its for its in find_list(lab.a.dump("qp"))
                    if its["state"] in ("RTR", "RTS")}

        def workers(qpns):
            return {connected()[qpn]["worker"] for qpn in qpns}

        def connect():
            before = set(connected())
            programs = endless_writes(self, lab)
            wait_until(lambda: len(set(connected()) - before) == 2, "a connection")
            return programs, set(connected()) - before

        busy = []
        for is_busy in (False, True, False, True):
            programs, qpns = connect()
            if is_busy:
                busy.append((programs, qpns))
                continue
            for program in programs:
                program.signal(signal.SIGSTOP)
        wait_until(lambda: workers(busy[0][1]).isdisjoint(workers(busy[1][1])), "a worker each")
        for programs, qpns in busy:
            self.assertEqual(len(workers(qpns)), 1, "both ends of a connection move together")
            sent = max(connected()[qpn]["sent_packets"] for qpn in qpns) + 10_000
            wait_until(lambda: max(connected()[qpn]["sent_packets"] for qpn in qpns) > sent,
                       "more packets")
            for program in programs:
                self.assertTrue(program.running(), program.output())
            for qpn in qpns:
                self.assertNotIn("retransmitted_pkts", connected()[qpn].get("counters", {}))


class WireWorkersWithFaultsTest(unittest.TestCase):
    def test_data_byte_for_byte(self):
        its_seed = seed()
        print(f"   faults with seed {its_seed}", flush=True)
        lab = WireLab(*WORKERS, "--fault", f"uroce0:{FAULTS},seed={its_seed}",
                      "--fault", f"uroce1:{FAULTS},seed={its_seed + 1}")
        self.addCleanup(lab.close)
        data_check(lab, "--seed", its_seed, "--ops", DATA_OPS, timeout_s=200)


class OneWorker:
    """A port with one queue, or a switch: all queue pairs are on the worker that drives it."""

    queue_pairs = 3

    def test_data_and_many_queue_pairs(self):
        lab = self.make_lab()
        self.addCleanup(lab.close)
        data_check(lab, "--seed", seed(), "--ops", DATA_OPS)
        perftest(lab, "ib_write_bw", "-q", 8, "-n", ITERATIONS, "-s", 4096)
        perftest(lab, "ib_send_bw", "-q", 2, "-n", ITERATIONS, "-s", 4096)
        workers = workers_of(lab.a)
        self.assertEqual(sum(worker["handed_over"] for worker in workers), 0, workers)
        endless_writes(self, lab, "-q", 3)
        wait_until(lambda: len(find_list(lab.a.dump("qp"))) == self.queue_pairs, "queue pairs")
        self.assertEqual(len({its["worker"] for its in find_list(lab.a.dump("qp"))}), 1)


class OneQueueLab(VethLab):
    def _port(self, _number):
        return "iface=eth0,queues=1"


class VethWorkersTest(OneWorker, unittest.TestCase):
    @staticmethod
    def make_lab():
        return OneQueueLab(9000, *WORKERS)


class UdpWorkersTest(OneWorker, unittest.TestCase):
    @staticmethod
    def make_lab():
        return UdpLab(9000, *WORKERS, place="eth0,queues=1")


class UnsharedUdpLab(UdpLab):
    daemon_prefix = (*UNPRIVILEGED, *preload("without_shared_sockets"))


class UnsharedUdpWorkersTest(OneWorker, unittest.TestCase):
    """The kernel has no sockets that share a port, and the port has no queues=."""

    @staticmethod
    def make_lab():
        return UnsharedUdpLab(9000, *WORKERS)


class SwitchWorkersTest(OneWorker, unittest.TestCase):
    queue_pairs = 6  # Both ends are in one daemon.

    @staticmethod
    def make_lab():
        return SwitchLab("ports=2", arguments=WORKERS)


class QueueForEachWorker:
    """Without `queues=` a port has a queue for each worker, and the kernel gives each the packets
    for the queue pairs of its worker."""

    WAYS = ("port_rcv_packets", "port_xmit_packets")
    LOST = ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rx_unknown_qpn",
            "rx_icrc_encapsulated", "rx_cross_worker_full", "port_xmit_discards")

    def test_no_packet_is_lost_and_each_reaches_its_worker_at_once(self):
        lab = self.make_lab()
        self.addCleanup(lab.close)
        for version in (4, 6):
            # What is under way fits a receive buffer of 208 KB.
            for tool in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
                # A worker that has no CPU for a while causes no ACK timeout.
                perftest(lab, tool, "-q", 16, "-n", ITERATIONS, "-s", 1024, "-t", 2, "-u", 20,
                         version=version)
        for host in (lab.a, lab.b):
            counters = host.counters()
            lost = {name: counters[f"counters.{name}"] for name in self.LOST}
            self.assertEqual(lost, dict.fromkeys(self.LOST, 0))
            workers = workers_of(host)
            for worker in workers:
                self.assertGreater(min(worker[way] for way in self.WAYS), 0, workers)
            self.assertEqual(sum(worker["handed_over"] for worker in workers), 0)
        for service in (("rc",), ("ud",), ("uc", "--max-bytes", 4000)):
            for version in (4, 6):
                with self.subTest(service=service[0], version=version):
                    data_check(lab, "--service", *service, "--seed", seed(), "--ops", DATA_OPS,
                               version=version)


class VethQueuesTest(QueueForEachWorker, unittest.TestCase):
    @staticmethod
    def make_lab():
        return VethLab(9000, *WORKERS)


class UdpQueuesTest(QueueForEachWorker, unittest.TestCase):
    @staticmethod
    def make_lab():
        return UdpLab(9000, *WORKERS)


class MemifWorkersTest(OneWorker, unittest.TestCase):
    @staticmethod
    def make_lab():
        return MemifLab(*WORKERS)
