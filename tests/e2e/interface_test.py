# SPDX-License-Identifier: Apache-2.0
"""A port on a kernel interface (iface=): superframes, and interfaces that are slow or down."""
import unittest

from lab import VethLab
from process import Process, run, wait_until
from programs import data_check, perftest, seed


def counter(host, name):
    return host.counters()[f"counters.{name}"]


class SuperframesTest(unittest.TestCase):
    def setUp(self):
        self.lab = VethLab(9000)
        self.addCleanup(self.lab.close)

    def longest_frame(self):
        """Of those that leave while a program writes."""
        path = f"{self.lab.directory}/frames.pcap"
        tcpdump = Process(self.lab.a.namespace.command(
            ["tcpdump", "-i", "eth0", "-s", "128", "--immediate-mode", "-Z", "root", "-c", 200,
             "-w", path, "udp", "port", "4791", "and", "greater", "2000"]))
        self.addCleanup(tcpdump.kill)
        wait_until(lambda: "listening on" in tcpdump.output(), "tcpdump")
        perftest(self.lab, "ib_write_bw", "-s", 65536, "-n", 2000)
        tcpdump.expect_success(30)
        with open(path, "rb") as file:
            raw = file.read()
        lengths, place = [], 24
        while place + 16 <= len(raw):
            captured, length = (int.from_bytes(raw[place + at:place + at + 4], "little")
                                for at in (8, 12))
            lengths.append(length)
            place += 16 + captured
        return max(lengths)

    def test_packets_that_leave_together_are_one_for_the_kernel(self):
        self.assertGreater(self.longest_frame(), 9000)
        self.assertEqual(counter(self.lab.a, "rx_icrc_encapsulated"), 0)
        self.assertEqual(counter(self.lab.a, "out_of_sequence"), 0)

    def test_an_interface_slower_than_the_program_holds_back_and_drops_nothing(self):
        """The queue of tbf is full all the time: it is slower than any machine, no congestion
        control keeps it short, and more than it holds is under way at once."""
        run(self.lab.b.uroce("port", "set", "uroce0", "cc=off"))
        self.lab.b.namespace.run(["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate",
                                  "200mbit", "burst", "128k", "limit", "256k"])
        data_check(self.lab, "--seed", seed(), "--ops", 300, "--max-bytes", 100000)
        perftest(self.lab, "ib_write_bw", "-s", 65536, "-n", 1000, "-u", 18)
        queue = run(self.lab.b.namespace.command(["tc", "-s", "qdisc", "show", "dev", "eth0"]))
        self.assertRegex(queue, r"dropped [1-9]", "the queue was full")
        self.assertEqual(counter(self.lab.b, "port_xmit_discards"), 0)
        self.assertEqual(counter(self.lab.a, "out_of_sequence"), 0)

    def test_an_interface_that_goes_down_and_comes_back(self):
        self.lab.a.namespace.ip("link", "set", "eth0", "down")
        wait_until(lambda: "PORT_DOWN" in self.lab.a.run("ibv_devinfo", "-d", "uroce0"), "down")
        self.lab.a.namespace.ip("link", "set", "eth0", "up")
        wait_until(lambda: "PORT_ACTIVE" in self.lab.a.run("ibv_devinfo", "-d", "uroce0"), "up")
        data_check(self.lab, "--seed", seed(), "--ops", 100)


if __name__ == "__main__":
    unittest.main()
