# SPDX-License-Identifier: Apache-2.0
"""Two daemons over a memif: transfers, and either of them killed and started again."""
import unittest

from labs.lab import LONG, UROCED
from labs.memif_lab import SERVER, MemifLab
from labs.port_lab import port_of
from labs.port_watch import PortWatch
from labs.process import run_status, wait_until
from labs.programs import DataCheck, data_check, perftest, pingpong, seed

DATA_OPS = 50000 if LONG else 2000
RESTARTS = 20 if LONG else 1
# An error some seconds after the peer is gone, whatever the program waits for.
IMPATIENT = ("--timeout", 15, "--retries", 3, "--deadline", 10)


def sent_packets(host):
    return host.counters()["counters.port_xmit_packets"]


class MemifTransfersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = MemifLab()
        cls.addClassCleanup(cls.lab.close)

    def test_pingpong(self):
        pingpong(self.lab, "-c", "-s", 100000, "-m", 4096)

    def test_pingpong_over_ipv6(self):
        pingpong(self.lab, "-c", version=6)

    def test_pingpong_sleeping_on_events(self):
        pingpong(self.lab, "-c", "-e")

    def test_bandwidth_and_latency_programs(self):
        for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_write_lat", "ib_atomic_lat"):
            with self.subTest(tool):
                perftest(self.lab, tool, "-n", 300)

    def test_data_byte_for_byte(self):
        data_check(self.lab, "--seed", seed(), "--ops", DATA_OPS)

    def test_data_byte_for_byte_over_ipv6(self):
        data_check(self.lab, "--seed", seed(), "--ops", DATA_OPS // 4, version=6)

    def test_a_second_server_on_the_socket_is_refused_in_one_line(self):
        status, output = run_status(self.lab.namespace.command(
            [UROCED, "--socket", f"{self.lab.directory}/second.sock", "--no-huge", "--port",
             self.lab.port(SERVER)]))
        self.assertEqual(status, 2)
        self.assertEqual(len(output.strip().splitlines()), 1, output)
        self.assertIn("memif.sock: another process listens there already", output)
        self.assertEqual(port_of(self.lab.b)["link"], "up")


class MemifSmallRingTest(unittest.TestCase):
    def test_data_through_rings_of_32_slots(self):
        lab = MemifLab(options=";rsize=5;bsize=4352;secret=hush")
        self.addCleanup(lab.close)
        data_check(lab, "--seed", seed(), "--ops", DATA_OPS // 4)


class MemifRestartTest(unittest.TestCase):
    def setUp(self):
        self.lab = MemifLab()
        self.addCleanup(self.lab.close)

    def interrupt(self, victim, survivor):
        """Kills a daemon while data is under way and starts it again. The link must tell, the other
        program must end with an error, and new connections must work."""
        watch = PortWatch(survivor)
        self.addCleanup(watch.close)
        sent = sent_packets(survivor)
        check = DataCheck(self.lab, "--seed", seed(), *IMPATIENT, ongoing=True)
        self.addCleanup(check.kill)
        wait_until(lambda: sent_packets(survivor) > sent + 1000, "packets")
        self.lab.kill(victim)
        wait_until(lambda: watch.state == "down", "a port that is down")
        self.assertEqual(watch.events("port error"), 1)
        self.assertEqual(port_of(survivor)["link"], "down")
        self.assertNotEqual(check.wait_for_end_on(survivor), 0)
        check.kill()
        self.lab.restart(victim)
        wait_until(lambda: watch.state == "active", "a port that is active")
        self.lab.wait_link("up")
        pingpong(self.lab, "-c")
        self.assertEqual(watch.events("port active"), 1)

    def test_server_killed_under_load_and_started_again(self):
        for _ in range(RESTARTS):
            self.interrupt(self.lab.a, self.lab.b)

    def test_client_killed_under_load_and_started_again(self):
        for _ in range(RESTARTS):
            self.interrupt(self.lab.b, self.lab.a)
