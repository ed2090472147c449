# SPDX-License-Identifier: Apache-2.0
"""Several hosts that send to one through a slow port that marks: on a bridge of the kernel, a
daemon a host, and on a switch inside one daemon. Marks lead to CNPs, CNPs to lower rates, and every
byte is right meanwhile."""
import unittest

from labs.congested_lab import CongestedLab, RedPort
from labs.flows import Flows
from labs.lab import LONG, find_list
from labs.process import wait_until
from labs.programs import DataCheck, seed
from labs.switch_lab import SwitchLab

RECEIVER = 0
PORT_BPS = 200_000_000  # So slow that a busy machine fills it, too.
DATA_OPS = 3000 if LONG else 100
WRITE = ("ib_write_bw", "-s", 65536)
READ = ("ib_read_bw", "-s", 65536)
DATAGRAMS = ("ib_send_bw", "-c", "UD", "-s", 4096)


def bridge_lab(senders, profile):
    return CongestedLab(senders, RedPort(PORT_BPS, 200_000), congestion=profile)


def switch_lab(senders, profile):
    lab = SwitchLab(f"ports={senders + 1},rate=10G,delay=5us,buffer=200K,ecn=20K:80K:20%,"
                    f"cc={profile}")
    lab.set("uroce0", f"rate={PORT_BPS}")
    return lab


class CongestedPort:
    """What holds at every port. `make_lab` is one of the two above."""

    def lab_of(self, senders, profile):
        lab = self.make_lab(senders, profile)
        self.addCleanup(lab.close)
        return lab

    def start(self, lab, program, senders):
        flows = Flows(lab, program[0], senders, RECEIVER, *program[1:])
        self.addCleanup(flows.stop)
        return flows

    @staticmethod
    def count(host, name):
        return host.counters()[f"counters.{name}"]

    def wait_for(self, host, name):
        wait_until(lambda: self.count(host, name) > 0, f"{name} of {host.address}")

    @staticmethod
    def limited(host):
        """Flows of a sender that CNPs have slowed down."""
        return [flow for flow in host.dump("cc")["flows"] if flow["device"] == host.device
                and flow["cnps_handled"] and flow.get("rate_bps", 10**12) < 10**10]

    def check_slows_down(self, profile, program, senders=(1, 2)):
        lab = self.lab_of(len(senders), profile)
        flows = self.start(lab, program, senders)
        self.wait_for(lab.hosts[RECEIVER], "np_ecn_marked_roce_packets")
        self.wait_for(lab.hosts[RECEIVER], "np_cnp_sent")
        for sender in senders:
            self.wait_for(lab.hosts[sender], "rp_cnp_handled")
            wait_until(lambda its=lab.hosts[sender]: self.limited(its), f"a lower rate of {sender}")
        self.assertTrue(flows.running())
        self.assertEqual(sum(self.count(host, "rp_cnp_ignored") for host in lab.hosts), 0)

    def test_marks_slow_writers_down(self):
        # `delay` may keep the queue so short that a sender never has a CNP.
        for profile in ("dcqcn", "dcqcn-mlx"):
            with self.subTest(profile):
                self.check_slows_down(profile, WRITE)
                self.doCleanups()

    def test_marks_slow_those_down_who_answer_reads(self):
        self.check_slows_down("dcqcn", READ)

    def test_marks_slow_datagrams_down(self):
        self.check_slows_down("dcqcn", DATAGRAMS)

    def test_without_control_marks_are_not_even_made(self):
        """What sends no ECT is dropped by a switch where others are marked."""
        lab = self.lab_of(2, "off")
        flows = self.start(lab, WRITE, (1, 2))
        wait_until(lambda: self.count(lab.hosts[RECEIVER], "port_rcv_packets") > 5000, "traffic")
        self.assertTrue(flows.running())
        for name in ("np_ecn_marked_roce_packets", "np_cnp_sent"):
            self.assertEqual(self.count(lab.hosts[RECEIVER], name), 0)

    def test_data_of_four_senders_byte_for_byte(self):
        for profile in ("off", "dcqcn", "dcqcn-mlx", "delay"):
            with self.subTest(profile, seed=seed()):
                lab = self.lab_of(4, profile)
                flows = self.start(lab, WRITE, (3, 4))
                checks = []
                for sender in (1, 2):
                    lab.use(RECEIVER, sender)
                    check = DataCheck(lab, "--seed", seed(), "--ops", DATA_OPS, "--max-bytes",
                                      40000, "--timeout", 16, "--deadline", 60)
                    self.addCleanup(check.kill)
                    checks.append(check)
                for check in checks:
                    check.finish()
                self.assertTrue(flows.running())
                self.doCleanups()


class BridgePortTest(CongestedPort, unittest.TestCase):
    """A bridge whose port to the receiver is shaped by tbf and marked by BPF."""

    make_lab = staticmethod(bridge_lab)


class SwitchPortTest(CongestedPort, unittest.TestCase):
    """--switch, whose link to the receiver is slow."""

    make_lab = staticmethod(switch_lab)

    def test_selective_repeat_stays_agreed(self):
        """MADs are marked as data are, and not dropped instead."""
        lab = self.lab_of(4, "dcqcn")
        flows = self.start(lab, WRITE, (1, 2, 3, 4))

        def agreed():
            asked = lab.hosts[RECEIVER].dump("stat")["peers"]["questions_sent"]
            recoveries = [qp["recovery"] for qp in find_list(lab.hosts[RECEIVER].dump("qp"))]
            # Each of eight ends has asked again since the port is full.
            return asked >= 40 and recoveries == 8 * ["selective"]

        wait_until(agreed, "selective repeat everywhere")
        self.assertTrue(flows.running())


if __name__ == "__main__":
    unittest.main()
