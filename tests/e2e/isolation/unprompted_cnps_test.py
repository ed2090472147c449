# SPDX-License-Identifier: Apache-2.0
"""CNPs that no congestion has caused, and marks on every packet: other flows are not slowed down,
no flow is slower than the floor, data is right, and counters tell."""
import time
import unittest

from labs.cnp_flood import CnpFlood
from labs.congested_lab import CongestedLab, RedPort
from labs.flows import Flows
from labs.process import wait_until
from labs.programs import data_check, seed

FLOOR_BPS = 20_000_000
CONGESTION = f"dcqcn,cc.rpg_min_rate={FLOOR_BPS // 10**6}"
FAST = 10**10
PER_SECOND = 20_000
LONG_ENOUGH_S = 60  # It is ended before.
RECEIVER, SENDER, OTHER_HOST = range(3)
CNP_INTERVAL_S = 50e-6


class HostileCnpTest(unittest.TestCase):
    def make_lab(self, port):
        self.lab = CongestedLab(2, port, congestion=CONGESTION)
        self.addCleanup(self.lab.close)
        self.receiver, self.sender, self.other_host = self.lab.hosts
        self.lab.use(RECEIVER, SENDER)

    def start_flow(self, *flags):
        # Little is under way at once: what does not fit a queue of this machine would be a loss,
        # which slows a queue pair down as CNPs do.
        flows = Flows(self.lab, "ib_write_bw", (SENDER,), RECEIVER, "-s", 65536, "-t", 4, *flags)
        self.addCleanup(flows.stop)
        wait_until(self.sending, "queue pairs that send")
        return flows

    def sending(self):
        """The sender's flows, by their QPNs."""
        return {flow["qpn"]: flow for flow in self.sender.dump("cc")["flows"]
                if flow["sent_bytes"] > 10**6}

    def flood(self, address, qpns):
        flood = CnpFlood(self.lab, self.other_host, self.sender, address, qpns, LONG_ENOUGH_S,
                         PER_SECOND)
        self.addCleanup(flood.kill)
        return flood

    @staticmethod
    def count(host, name):
        return host.counters()[f"counters.{name}"]

    def wait_for_more(self, host, name, count=5000):
        first = self.count(host, name)
        wait_until(lambda: self.count(host, name) > first + count, f"more {name}")

    def check_floor(self, qpns):
        """Looks at the rates of a flood's victims for a while, and that they get on."""
        before = self.sending()
        for _ in range(20):
            for qpn, flow in self.sending().items():
                if qpn in qpns and "rate_bps" in flow:
                    self.assertGreaterEqual(flow["rate_bps"], FLOOR_BPS, flow)
            time.sleep(0.02)
        for qpn in qpns:
            wait_until(lambda its=qpn: self.sending()[its]["sent_bytes"] >
                       before[its]["sent_bytes"] + 200_000, f"more of {qpn}")

    def test_cnps_of_other_hosts_are_ignored_and_counted(self):
        self.make_lab(RedPort(FAST, kmin=None))
        flows = self.start_flow()
        (qpn,) = self.sending()
        unknown = qpn ^ 0x5a5a5a
        for address, target in ((self.other_host.address, qpn), (self.receiver.address, unknown)):
            with self.subTest(address=address, qpn=target):
                flood = self.flood(address, [target])
                self.wait_for_more(self.sender, "rp_cnp_ignored")
                flood.kill()
        self.assertEqual(self.count(self.sender, "rp_cnp_handled"), 0)
        self.assertNotIn("rate_bps", self.sending()[qpn])
        self.assertTrue(flows.running())
        data_check(self.lab, "--seed", seed(), "--ops", 200)

    def test_a_flood_in_the_peers_name_slows_one_queue_pair_down_to_the_floor_alone(self):
        self.make_lab(RedPort(FAST, kmin=None))
        flows = self.start_flow("-q", 2)
        wait_until(lambda: len(self.sending()) == 2, "two queue pairs")
        victim, other = self.sending()
        flood = self.flood(self.receiver.address, [victim])
        self.wait_for_more(self.sender, "rp_cnp_handled")
        self.check_floor([victim])
        self.assertNotIn("rate_bps", self.sending()[other])
        data_check(self.lab, "--seed", seed(), "--ops", 200)  # Of other queue pairs.
        flood.kill()
        wait_until(lambda: "rate_bps" not in self.sending()[victim], "the line's rate again")
        self.assertTrue(flows.running())

    def test_a_flood_for_all_queue_pairs(self):
        self.make_lab(RedPort(FAST, kmin=None))
        flows = self.start_flow("-q", 8)
        wait_until(lambda: len(self.sending()) == 8, "eight queue pairs")
        victims = list(self.sending())
        self.flood(self.receiver.address, victims)
        self.wait_for_more(self.sender, "rp_cnp_handled")
        wait_until(lambda: all("rate_bps" in self.sending()[qpn] for qpn in victims), "limits")
        self.check_floor(victims)
        self.assertTrue(flows.running())
        data_check(self.lab, "--seed", seed(), "--ops", 200)

    def test_every_packet_is_marked(self):
        self.make_lab(RedPort(FAST, kmin=0, kmax=0))
        begin, queue_pairs = time.monotonic(), 4
        flows = self.start_flow("-q", queue_pairs)
        self.wait_for_more(self.receiver, "np_ecn_marked_roce_packets", 2000)
        data_check(self.lab, "--seed", seed(), "--ops", 200)
        victims = [qpn for qpn, flow in self.sending().items() if flow["cnps_handled"] > 0]
        self.assertTrue(victims)
        self.check_floor(victims)
        sent = {flow["qpn"]: flow["cnps_sent"] for flow in self.receiver.dump("cc")["flows"]}
        bound = (time.monotonic() - begin) / CNP_INTERVAL_S + 1
        self.assertLessEqual(max(sent.values()), bound)
        self.assertGreater(self.count(self.receiver, "np_cnp_sent"), 0)
        self.assertTrue(flows.running())


if __name__ == "__main__":
    unittest.main()
