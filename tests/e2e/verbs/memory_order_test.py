# SPDX-License-Identifier: Apache-2.0
"""What a program sees in memory that its peer writes: at any moment only what execution in order
could show, within a message and between messages, also where packets are lost and overtaken."""
import tempfile
import unittest

from labs.killed_pairs import ACK_TIMEOUT
from labs.lab import BUILD, LONG, VethLab, WireLab
from labs.memif_lab import MemifLab
from labs.process import Failed
from labs.programs import seed

MEMORY_ORDER = BUILD / "tests" / "e2e" / "memory_order"
FAULTS = "drop=0.01,duplicate=0.01,reorder=0.05"
# How the daemon reaches the target: flags and settings of the program.
MAPPED = ((), {})
SHARED = (("--shared",), {})
COPIED = ((), {"UROCE_MR": "copied"})
SIZES = (64, 256, 512, 1024, 2048, 4096, 16384, 65536)
# A reader that spins sees the order of single stores only when it runs beside the NIC, which takes
# many rounds; that of packets it sees nearly always.
STORE_ROUNDS = 1_250_000 if LONG else 200
PACKET_ROUNDS = 100_000 if LONG else 150
TIMEOUT_S = 7200 if LONG else 60


class Order:
    """Tests with their own lab."""

    memories = (MAPPED, COPIED)
    rounds = PACKET_ROUNDS

    @classmethod
    def setUpClass(cls):
        cls.seed = seed()
        print(f"   seed {cls.seed}", flush=True)
        cls.lab = cls.make_lab()
        cls.addClassCleanup(cls.lab.close)

    def check(self, mode, *flags, rounds=None):
        """Runs a mode on each kind of memory: the program fails when anything was wrong."""
        for memory_flags, settings in self.memories:
            with self.subTest(mode=mode, flags=flags, memory=(*memory_flags, *settings)):
                output = self.run_program(settings, [
                    mode, *flags, *memory_flags, "--rounds", rounds or self.rounds,
                    "--seed", self.seed, "--timeout", ACK_TIMEOUT])
                self.assertIn(" 0 wrong", output)
                if LONG:
                    print(f"   {output.strip()}", flush=True)

    def program(self, host, settings, flags):
        lab = self.lab
        return ["env", *(f"{key}={value}" for key, value in settings.items()),
                host.seen(MEMORY_ORDER), *flags,
                "--device-a", lab.a.device, "--device-b", lab.b.device,
                "--gid-a", lab.a.gid_index(), "--gid-b", lab.b.gid_index()]

    def run_program(self, settings, flags):
        """Both ends in one program."""
        with tempfile.TemporaryDirectory(prefix="uroce-e2e-") as directory:
            return self.lab.a.run(*self.program(self.lab.a, settings, flags),
                                  "--exchange", directory, timeout_s=TIMEOUT_S)

    def test_the_second_of_two_writes_remains(self):
        for size in (4096, 65536):
            self.check("two-writes", "--bytes", size)

    def test_a_flag_comes_after_the_data_before_it(self):
        for flag in ("first", "inner", "own"):
            self.check("flag", "--flag", flag, "--bytes", 12288)

    def test_the_last_packet_comes_after_the_others(self):
        self.check("last-word", "--bytes", 65536)


class WireOrderTest(Order, unittest.TestCase):
    memories = (MAPPED, SHARED, COPIED)

    @classmethod
    def make_lab(cls):
        return WireLab()

    def test_the_last_word_comes_after_the_others(self):
        for size in SIZES:
            self.check("last-word", "--bytes", size, rounds=STORE_ROUNDS)


class WordsInsideTest(Order, unittest.TestCase):
    """Every word comes after the words before it, where the NIC itself writes: the kernel's copies
    promise that of the last one alone."""

    memories = (MAPPED, SHARED)

    @classmethod
    def make_lab(cls):
        return WireLab("--workers", "2")

    def test_words_rise(self):
        for size in SIZES:
            self.check("last-word", "--inner", "--bytes", size, rounds=STORE_ROUNDS)


class FaultsOrderTest(Order, unittest.TestCase):
    workers = ()

    @classmethod
    def make_lab(cls):
        return WireLab(*cls.workers, "--fault", f"uroce0:{FAULTS},seed={cls.seed}",
                       "--fault", f"uroce1:{FAULTS},seed={cls.seed + 1}")


class FaultsOnTwoWorkersOrderTest(FaultsOrderTest):
    workers = ("--workers", "2")


class TwoPrograms(Order):
    """An end on each host."""

    def run_program(self, settings, flags):
        ends = []
        with tempfile.TemporaryDirectory(prefix="uroce-e2e-") as directory:
            try:
                for role, host in enumerate((self.lab.a, self.lab.b)):
                    ends.append(host.start(*self.program(host, settings, flags), "--role", role,
                                           "--exchange", directory))
                return "".join(end.expect_success(TIMEOUT_S) for end in ends)
            except Failed as error:
                raise Failed("\n".join([str(error), *(end.describe() for end in ends)])) from None
            finally:
                for end in ends:
                    end.kill()


class VethOrderTest(TwoPrograms, unittest.TestCase):
    memories = (COPIED,)

    @classmethod
    def make_lab(cls):
        return VethLab(9000, "--fault", f"uroce0:{FAULTS},seed={cls.seed}")


if LONG:
    class LastWord(TwoPrograms):
        memories = (MAPPED, SHARED, COPIED)

        def test_the_last_word_comes_after_the_others(self):
            for size in SIZES:
                self.check("last-word", "--bytes", size, rounds=STORE_ROUNDS)

    class VethLastWordTest(LastWord, unittest.TestCase):
        @classmethod
        def make_lab(cls):
            return VethLab(9000)

    class MemifLastWordTest(LastWord, unittest.TestCase):
        @classmethod
        def make_lab(cls):
            return MemifLab()


if __name__ == "__main__":
    unittest.main()
