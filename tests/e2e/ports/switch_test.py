# SPDX-License-Identifier: Apache-2.0
"""NICs on emulated switches: programs between them, rates, marks, drops and pauses, links that go
and come, faults that change, and two tiers."""
import re
import tempfile
import time
import unittest

from labs.capture import capturing, tshark
from labs.flows import Flows
from labs.lab import LONG, UROCE
from labs.process import Process, run, run_status, wait_until
from labs.programs import data_check, perftest, pingpong, seed
from labs.switch_lab import SwitchLab

ITERATIONS = 1000 if LONG else 100
DATA_OPS = 10000 if LONG else 500
ECT0_TRAFFIC_CLASS = 26 << 2 | 2


class SwitchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = SwitchLab("name=sw0,ports=4,rate=10G,delay=5us")
        cls.addClassCleanup(cls.lab.close)

    def setUp(self):
        self.lab.use(0, 3)

    def test_every_nic_reaches_every_other(self):
        for a in range(4):
            for b in range(a):
                with self.subTest(a=a, b=b):
                    self.lab.use(a, b)
                    pingpong(self.lab, "-c", "-n", ITERATIONS)
        pingpong(self.lab, "-c", "-e", "-n", ITERATIONS, version=6)

    def test_data_byte_for_byte(self):
        data_check(self.lab, "--seed", seed(), "--ops", DATA_OPS)

    def test_a_link_has_the_rate_that_it_is_given(self):
        self.lab.set("uroce3", "rate=100M")
        self.addCleanup(self.lab.set, "uroce3", "rate=10G")

        def fills_half():
            # A number of messages: what was under way before the first one is not counted.
            gbps = perftest(self.lab, "ib_write_bw", "-n", 600, "--report_gbits")[-1][3]
            self.assertLess(gbps, 0.1)  # Of 4182 bytes on the wire 4096 are payload.
            return gbps > 0.05

        wait_until(fills_half, "a machine that is not too busy to fill half of the line")
        self.assertIn("100 Mb/s", self.table())

    def test_what_finds_the_buffer_full_is_dropped_and_sent_again(self):
        self.lab.set("sw0", "buffer=30K", "ecn=off", "pfc=off")
        self.addCleanup(self.lab.set, "sw0", "buffer=1M")
        self.lab.set("uroce0", "rate=200M")
        self.addCleanup(self.lab.set, "uroce0", "rate=10G")
        flows = Flows(self.lab, "ib_write_bw", (1, 2, 3), 0, "-s", 65536)
        self.addCleanup(flows.stop)
        wait_until(lambda: self.lab.port("uroce0")["tail_drops"], "drops", timeout_s=60)
        self.assertTrue(flows.running())
        self.assertLessEqual(self.lab.switch("sw0")["peak_buffered_bytes"], 1_000_000)

    def test_congestion_is_marked(self):
        self.lab.set("sw0", "ecn=20K:100K:50%")
        self.addCleanup(self.lab.set, "sw0", "ecn=off")
        self.lab.set("uroce0", "rate=200M")
        self.addCleanup(self.lab.set, "uroce0", "rate=10G")
        flows = Flows(self.lab, "ib_write_bw", (1, 2, 3), 0, "-s", 65536,
                      f"--tclass={ECT0_TRAFFIC_CLASS}")
        self.addCleanup(flows.stop)
        self.lab.use(0, 3)
        wait_until(lambda: self.lab.a.counters()["counters.np_ecn_marked_roce_packets"], "marks",
                   timeout_s=60)
        port = self.lab.port("uroce0")
        self.assertGreater(port["ecn_marks"], 0)
        self.assertGreater(port["peak_queue_bytes"], 20_000)

    def test_pfc_drops_nothing(self):
        self.lab.set("sw0", "pfc=20K:10K")
        self.addCleanup(self.lab.set, "sw0", "pfc=off")
        self.lab.set("uroce0", "rate=200M")
        self.addCleanup(self.lab.set, "uroce0", "rate=10G")
        drops = self.lab.port("uroce0")["tail_drops"]
        flows = Flows(self.lab, "ib_write_bw", (1, 2, 3), 0, "-s", 65536)
        self.addCleanup(flows.stop)
        wait_until(lambda: self.lab.port("uroce3")["pauses_sent"], "pauses", timeout_s=60)
        self.assertEqual(self.lab.port("uroce0")["tail_drops"], drops)
        self.assertTrue(flows.running())

    def test_a_link_may_go_down_and_up_while_programs_send(self):
        start = self.lab.port("uroce0")["xmit_packets"]
        flows = Flows(self.lab, "ib_write_bw", (3,), 0)
        self.addCleanup(flows.stop)
        wait_until(lambda: self.lab.port("uroce0")["xmit_packets"] - start > 1000, "traffic",
                   timeout_s=60)
        self.lab.set("uroce3", "link=down")
        wait_until(lambda: self.state_of("uroce3") == "PORT_DOWN", "the port to be down")
        before = self.lab.port("uroce0")["xmit_packets"]
        time.sleep(0.3)
        self.assertLess(self.lab.port("uroce0")["xmit_packets"] - before, 100)
        self.lab.set("sw0:3", "link=up")
        wait_until(lambda: self.state_of("uroce3") == "PORT_ACTIVE", "the port to be up")
        wait_until(lambda: self.lab.port("uroce0")["xmit_packets"] - before > 1000,
                   "traffic after it", timeout_s=60)
        self.assertTrue(flows.running())
        self.assertGreater(self.lab.port("uroce3")["down_drops"], 0)

    def test_faults_change_while_the_daemon_runs(self):
        self.fault("uroce0", "drop=0.02", "seed=1")
        self.addCleanup(self.fault, "uroce0", "off")
        data_check(self.lab, "--seed", 1, "--ops", DATA_OPS)
        dropped = self.lab.hosts[0].counters()["fault_transmit.dropped"]
        self.assertGreater(dropped, 0)
        self.assertIn("drop=0.02,seed=1", run(self.lab.a.uroce("fault")))
        self.fault("uroce0", "off")
        pingpong(self.lab, "-c", "-n", ITERATIONS)
        self.assertEqual(self.lab.hosts[0].counters()["fault_transmit.dropped"], dropped)

    def test_rates_show_the_ports(self):
        watch = Process([UROCE, "--socket", self.lab.a.daemon.socket, "stat", "--watch", "0.2"])
        self.addCleanup(watch.kill)
        pingpong(self.lab, "-c", "-n", ITERATIONS)
        wait_until(lambda: re.search(r"sw0:3 +xmit_packets", watch.output()), "the port's rate")

    def test_captures_have_the_frames(self):
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/c.pcapng"
            with capturing(self.lab.a, path, "-d", "uroce3"):
                pingpong(self.lab, "-c", "-n", 10)
            self.assertIn("RC Send Last", tshark(path))

    def test_wrong_changes_are_refused_with_a_word(self):
        for words, complaint in ((("switch", "set", "sw", "ecn=off"), "did you mean sw0"),
                                 (("switch", "set", "sw0:9", "rate=1G"), "there is no switch"),
                                 (("switch", "set", "sw0", "link=down"), "name a port"),
                                 (("switch", "set", "uroce1", "buffer=1M"), "are a switch's"),
                                 (("switch", "set", "sw0", "rat=1G"), "did you mean rate"),
                                 (("switch", "set", "sw0", "rate=fast"), "bits per second"),
                                 (("fault", "set", "uroce9", "drop=1"), "there is no NIC"),
                                 (("fault", "set", "uroce1", "drop=2"), "0 to 1")):
            with self.subTest(words):
                status, output = run_status(self.lab.a.uroce(*words))
                self.assertEqual(status, 2, output)
                self.assertIn(complaint, output)

    def fault(self, *words):
        run(self.lab.a.uroce("fault", "set", *words))

    def table(self):
        return run(self.lab.a.uroce("switch"))

    def state_of(self, device):
        return re.search(r"state:\s+(\S+)", self.lab.a.run("ibv_devinfo", "-d", device)).group(1)


class TwoTiersTest(unittest.TestCase):
    """Two leaves with two NICs each, joined by two spines."""

    @classmethod
    def setUpClass(cls):
        leaf = "ports=2,rate=10G,link=spine0+spine1"
        cls.lab = SwitchLab(f"name=leaf0,{leaf}", f"name=leaf1,{leaf}", "name=spine0,ports=0",
                            "name=spine1,ports=0")
        cls.addClassCleanup(cls.lab.close)

    def up(self):
        """Frames from leaf 0 to each spine."""
        return [self.lab.port(f"leaf0:{port}")["xmit_packets"] for port in (2, 3)]

    def test_data_byte_for_byte_and_flows_on_both_paths(self):
        data_check(self.lab, "--seed", seed(), "--ops", DATA_OPS)
        perftest(self.lab, "ib_write_bw", "-q", 16, "-n", 50, "-s", 4096)
        self.assertTrue(all(self.up()), self.up())

    def test_paths_avoid_a_link_that_is_down(self):
        self.lab.set("leaf0:2", "link=down")
        self.addCleanup(self.lab.set, "leaf0:2", "link=up")
        before = self.up()
        pingpong(self.lab, "-c", "-n", ITERATIONS)
        perftest(self.lab, "ib_write_bw", "-q", 8, "-n", 50, "-s", 4096)
        after = self.up()
        self.assertEqual(after[0], before[0])
        self.assertGreater(after[1], before[1] + 400)


class WorkersTest(unittest.TestCase):
    def test_data_byte_for_byte(self):
        lab = SwitchLab("ports=3,rate=5G,delay=20us", arguments=("--workers", "2"))
        self.addCleanup(lab.close)
        data_check(lab, "--seed", seed(), "--ops", DATA_OPS)
        pingpong(lab, "-c", "-e", "-n", ITERATIONS)
        perftest(lab, "ib_write_bw", "-q", 8, "-n", 50)


if __name__ == "__main__":
    unittest.main()
