# SPDX-License-Identifier: Apache-2.0
"""`uroce analyze` on captures of healthy traffic: perftest's programs, sizes and services."""
import json
import signal
import unittest

from labs.capture import capturing
from labs.lab import UROCE, WireLab
from labs.process import Process, run_status, wait_until
from labs.programs import perftest

RELIABLE = ("ib_write_bw", "ib_write_lat", "ib_send_bw", "ib_send_lat", "ib_read_bw", "ib_read_lat",
            "ib_atomic_bw", "ib_atomic_lat")
# Flags of several sizes and path MTUs, of several queue pairs, and of both directions at once.
SHAPES = {
    "bw": ((), ("-s", 1, "-m", 256), ("-s", 5000, "-m", 1024, "-q", 4), ("-b", "-s", 65536)),
    "lat": ((), ("-s", 5000, "-m", 512)),
}
ATTEMPTS = 10
DATAGRAMS = (("ib_send_bw", "-s", 1024), ("ib_send_lat", "-s", 64))


class HealthyTest(unittest.TestCase):
    maxDiff = None  # Of a failure, all findings are shown.

    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def sent_again(self):
        return [host.counters()["counters.retransmitted_pkts"] for host in (self.lab.a, self.lab.b)]

    def capture(self, path, command):
        """A capture with a packet that a NIC has sent again is not healthy: a NIC does so when its
        peer is silent for long, for instance because neither has had a CPU."""
        for _ in range(ATTEMPTS):
            before = self.sent_again()
            with capturing(self.lab.a, path):
                perftest(self.lab, *command, "-n", 50)
            if self.sent_again() == before:
                return
        self.fail(f"{ATTEMPTS} times a NIC has sent packets again")

    def is_healthy(self, *commands):
        """Runs perftest's commands, and expects that the capture of each has no finding at all."""
        for count, command in enumerate(commands):
            with self.subTest(command):
                path = f"{self.lab.directory}/{self._testMethodName}{count}.pcapng"
                self.capture(path, command)
                status, output = run_status([UROCE, "analyze", "--check", "note", "--json", path])
                report = json.loads(output)
                self.assertEqual((status, report["findings"]), (0, []))
                self.assertGreater(report["totals"]["roce"], 50)

    def test_reliable_connections(self):
        """Their ACK timeout is 4 s: the machine may have much else to do."""
        patient = ("-u", 20)
        self.is_healthy(*((tool, *patient, *shape) for tool in RELIABLE
                          for shape in SHAPES[tool.rsplit("_", 1)[1]]
                          if "atomic" not in tool or "-s" not in shape),  # Of 8 bytes only.
                        ("ib_atomic_bw", *patient, "-q", 4), ("ib_atomic_bw", *patient, "-b"))

    def test_unreliable_connections(self):
        self.is_healthy(*((tool, "-c", "UC", *shape) for tool in RELIABLE[:4]
                          for shape in SHAPES[tool.rsplit("_", 1)[1]]))

    def test_datagrams(self):
        self.is_healthy(*((*command, "-c", "UD") for command in DATAGRAMS))


class LiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def test_traffic_of_a_running_daemon_is_analyzed_until_ctrl_c(self):
        live = Process(self.lab.a.uroce("analyze", "--live"))
        self.addCleanup(live.kill)
        wait_until(lambda: "capturing on" in live.output() or not live.running(), "the capture")
        perftest(self.lab, "ib_write_bw", "-n", 50)
        live.signal(signal.SIGINT)
        report = live.expect_success(30)
        self.assertIn("50 x WRITE", report)

    def test_capture_ends_at_its_time(self):
        status, output = run_status(self.lab.a.uroce("analyze", "--live", "--for", 0.3))
        self.assertEqual(status, 0, output)

    def test_capture_that_cannot_be_is_an_error(self):
        status, output = run_status([UROCE, "analyze", "--live", "--socket", "/nonexistent"])
        self.assertEqual(status, 2, output)
        self.assertIn("/nonexistent", output)
        status, output = run_status(self.lab.a.uroce("analyze", "--live", "file.pcapng"))
        self.assertIn("not both", output)


if __name__ == "__main__":
    unittest.main()
