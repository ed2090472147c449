# SPDX-License-Identifier: Apache-2.0
"""Every byte of SENDs, WRITEs, READs, immediates and atomics checked, each side a requester."""
import unittest

from labs.programs import check_with_faults, faults_of, seed
from rxe_lab import BridgeLab, UdpLab, VhostLab, watched
from tally import counted_data_check

KINDS = {"send", "send-imm", "write", "write-imm", "read", "compare-swap", "fetch-add"}
OF_EACH_KIND = 10000
# Kinds are drawn at random: some more, so that the rarest is enough.
OPS = OF_EACH_KIND * len(KINDS) * 105 // 100
# rxe 6.1 repeats a fenced request only when no READ or atomic is in flight, and counts the request
# itself and those behind it: after any loss it waits without limit.
UNFENCED = "--unfenced"
# Seven retries of 4.096 us * 2^16 outlast what the guest waits for a CPU of a busy host.
PATIENT = 16
# rxe notices a lost READ response by this timer alone.
BRISK = 15


def check(lab, *flags, version=4):
    """verbs_check between the sides. Returns, for each, how many requests of a kind it sent."""
    return counted_data_check(lab, UNFENCED, "--timeout", PATIENT, "--deadline", 30, *flags,
                              version=version, timeout_s=900)


class Data:
    ops = 3000
    # A capture of ten thousand of each kind is 2 GB with this.
    max_bytes = 20000

    @classmethod
    def setUpClass(cls):
        cls.seed = seed()
        print(f"   {cls.__name__} with seed {cls.seed}", flush=True)
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)

    def test_ten_thousand_operations_of_each_kind(self):
        for version in (4, 6):
            with self.subTest(ip=version), watched(self.lab):
                for sent in check(self.lab, "--seed", self.seed, "--ops", OPS, "--max-bytes",
                                  self.max_bytes, version=version):
                    self.assertEqual(set(sent), KINDS)
                    self.assertGreaterEqual(min(sent.values()), OF_EACH_KIND, sent)

    def test_the_smallest_path_mtu(self):
        check(self.lab, "--seed", self.seed, "--ops", self.ops, "--mtu", 256, "--max-bytes", 60000)

    def test_receivers_that_are_not_ready(self):
        before = self.lab.uroce.counters()
        check(self.lab, "--seed", self.seed, "--ops", self.ops // 10, "--late-receives",
              "--max-bytes", 60000)
        after = self.lab.uroce.counters()
        for counter in ("counters.out_of_buffer", "counters.rnr_nak_retry_err"):
            self.assertGreater(after[counter], before[counter], after)


class Bridge9000DataTest(Data, unittest.TestCase):
    @staticmethod
    def make_lab():
        return BridgeLab(9000)


class Bridge1500DataTest(Data, unittest.TestCase):
    @staticmethod
    def make_lab():
        return BridgeLab(1500)


class Udp9000DataTest(Data, unittest.TestCase):
    @staticmethod
    def make_lab():
        return UdpLab(9000)


class Udp1500DataTest(Data, unittest.TestCase):
    @staticmethod
    def make_lab():
        return UdpLab(1500)


class Vhost9000DataTest(Data, unittest.TestCase):
    @staticmethod
    def make_lab():
        return VhostLab(9000)


class Vhost1500DataTest(Data, unittest.TestCase):
    @staticmethod
    def make_lab():
        return VhostLab(1500)


class Faults(Data):
    """The same with losses in both directions, made by uroced's port."""

    test_ten_thousand_operations_of_each_kind = None
    test_the_smallest_path_mtu = None
    test_receivers_that_are_not_ready = None
    ops = 2500
    lab_class = BridgeLab
    mtu = 9000

    @classmethod
    def make_lab(cls):
        return cls.lab_class(cls.mtu, "--fault", f"uroce0:{cls.faults},seed={cls.seed}")

    def setUp(self):
        before = faults_of(self.lab.uroce)
        self.addCleanup(lambda: self.assertGreater(faults_of(self.lab.uroce), before, "no fault"))

    def test_data(self):
        flags = ("--ops", self.ops, "--max-bytes", 60000, "--timeout", BRISK)
        for number, version in enumerate((4, 6)):
            with self.subTest(ip=version), watched(self.lab):
                check(self.lab, "--seed", self.seed + number, *flags, version=version)

    def test_data_in_small_packets(self):
        check(self.lab, "--seed", self.seed, "--ops", self.ops // 2, "--mtu", 256, "--max-bytes",
              20000, "--timeout", BRISK)

    def check_case(self, case, *flags):
        for requester in self.lab.both_ways():
            with self.subTest(case, requester=requester, flags=flags):
                check_with_faults(self.lab, self.lab.uroce, "--errors", case, "--rxe",
                                  0 if self.lab.a is self.lab.rxe else 1, "--timeout", BRISK,
                                  "--seed", self.seed, *flags, rounds=100)

    def test_unreliable_messages_are_whole_or_lost(self):
        for service in ("uc", "ud"):
            self.check_case("whole-or-lost", "--service", service, "--max-bytes", 6000)

    def test_keys_are_taken_back_by_sends(self):
        self.check_case("window-invalidated-with-losses", "--max-bytes", 4096)


class DropTest(Faults, unittest.TestCase):
    faults = "drop=0.01"


class DuplicateTest(Faults, unittest.TestCase):
    faults = "duplicate=0.01"


class ReorderTest(Faults, unittest.TestCase):
    faults = "reorder=0.01"


class AllFaultsTest(Faults, unittest.TestCase):
    faults = "drop=0.01,duplicate=0.01,reorder=0.01"


class AllFaults1500Test(AllFaultsTest):
    mtu = 1500


class AllFaultsUdp9000Test(AllFaultsTest):
    lab_class = UdpLab


class AllFaultsUdp1500Test(AllFaults1500Test):
    lab_class = UdpLab


class AllFaultsVhost9000Test(AllFaultsTest):
    lab_class = VhostLab


class AllFaultsVhost1500Test(AllFaults1500Test):
    lab_class = VhostLab
