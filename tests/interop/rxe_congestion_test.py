# SPDX-License-Identifier: Apache-2.0
"""rdma_rxe and uroced through a slow port that marks or drops. rxe has neither half of DCQCN: it
ignores CNPs, and answers no mark. What uroce sends to it is bounded by losses and round trips, and
what uroce reads from it by the rate that uroce holds for the answers."""
import contextlib
import unittest

from labs.congested_lab import RedPort
from labs.congested_lab import missing as missing_for_port
from labs.lab import next_port
from labs.process import run, wait_until
from labs.programs import seed
from rxe_lab import READS_IN_FLIGHT, BridgeLab
from tally import counted_data_check

PORT_BPS = 100_000_000
LINE_BPS = 10**10  # Of uroce's own interface.
BUFFER = 200_000
ECT0 = 26 << 2 | 2  # rxe sends the ECN bits that its program asks for.
OPS = 1000
MTU = 4200
PATIENT = 16


class SlowPortLab(BridgeLab):
    """A bridge whose port to rxe, or to uroce, is slow and marks."""

    def __init__(self, slow):
        self._slow = {"rxe": "guest0", "uroce": "host0"}[slow]
        if reason := missing_for_port():
            raise unittest.SkipTest(reason)
        super().__init__(MTU)

    def _make_bridge(self, host):
        super()._make_bridge(host)
        RedPort(PORT_BPS, BUFFER).apply(self.bridge, self._slow, self.directory)


class RxeCongestion:
    """`slow` says to whom the slow port leads."""

    @classmethod
    def setUpClass(cls):
        cls.lab = SlowPortLab(cls.slow)
        cls.addClassCleanup(cls.lab.close)

    def count(self, name):
        return self.lab.uroce.counters()[f"counters.{name}"]

    def flows(self):
        return self.lab.uroce.dump("cc")["flows"]

    def use_profile(self, profile):
        run(self.lab.uroce.uroce("cc", "set", "uroce0", f"profile={profile}"))
        self.addCleanup(run, self.lab.uroce.uroce("cc", "set", "uroce0", "profile=dcqcn"))

    @contextlib.contextmanager
    def traffic(self, server, client, tool, *flags):
        """perftest without end between the two."""
        self.lab.a, self.lab.b = server, client
        port = next_port()

        def program(host):
            return [tool, "-d", host.device, "-x", host.gid_index(), "-p", port, "-F", "-u", 18,
                    "-s", 65536, f"--tclass={ECT0}", "--run_infinitely", *flags]

        ends = [server.start(*program(server))]
        try:
            wait_until(lambda: server.is_listening(ends[0], port), "a listener")
            ends.append(client.start(*program(client), server.address))
            yield
            for end in ends:
                self.assertTrue(end.running(), end.describe())
        finally:
            for end in reversed(ends):
                end.kill()

    def check_data(self):
        counted_data_check(self.lab, "--unfenced", "--timeout", PATIENT, "--deadline", 60,
                           "--traffic-class", ECT0, "--max-bytes", 40000, "--seed", seed(),
                           "--ops", OPS, timeout_s=300)


class FromRxeTest(RxeCongestion, unittest.TestCase):
    slow = "uroce"

    def check_marks_are_answered(self):
        for name in ("np_ecn_marked_roce_packets", "np_cnp_sent"):
            first = self.count(name)
            wait_until(lambda its=name, least=first: self.count(its) > least, name)

    def test_reads_get_a_rate_for_their_answers(self):
        with self.traffic(self.lab.rxe, self.lab.uroce, "ib_read_bw", "-o", READS_IN_FLIGHT):
            self.check_marks_are_answered()
            wait_until(lambda: any(flow.get("rate_bps", LINE_BPS) < LINE_BPS
                                   for flow in self.flows()), "a rate for the answers", 20)

    def test_rxe_goes_on_beside_cnps(self):
        with self.traffic(self.lab.uroce, self.lab.rxe, "ib_write_bw"):
            self.check_marks_are_answered()

    def test_data_byte_for_byte(self):
        with self.traffic(self.lab.uroce, self.lab.rxe, "ib_write_bw"):
            self.check_data()
            self.check_marks_are_answered()


class ToRxeTest(RxeCongestion, unittest.TestCase):
    slow = "rxe"

    def test_marks_are_not_answered_and_the_window_controls(self):
        for profile in ("off", "dcqcn", "delay"):
            with self.subTest(profile):
                self.use_profile(profile)
                handled = self.count("rp_cnp_handled")
                with self.traffic(self.lab.rxe, self.lab.uroce, "ib_write_bw"):
                    self.check_data()
                    wait_until(lambda: any(flow.get("window_packets", 0)
                                           for flow in self.flows()), "a window")
                self.assertEqual(self.count("rp_cnp_handled"), handled)


if __name__ == "__main__":
    unittest.main()
