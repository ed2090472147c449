# SPDX-License-Identifier: Apache-2.0
"""Calls that few programs make, what devices do not have, wrong arguments and orders, and programs
without memory or fds: each has its answer, and leaves nothing behind."""
import unittest

from labs.killed_pairs import MortalLab, holdings_at_rest, wait_until_back
from labs.lab import BUILD
from labs.programs import pingpong

CALLS = BUILD / "tests" / "e2e" / "rare_calls"
# Fewer than the refusals of a case.
LIMITS = ("--max-contexts", 20, "--max-channels", 20, "--max-pd", 20, "--max-cq", 20,
          "--max-qp", 20, "--max-srq", 20, "--max-ah", 20, "--max-mw", 20)


class CallsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = MortalLab(*LIMITS)
        cls.addClassCleanup(cls.lab.tear_down)
        pingpong(cls.lab)
        cls.before = holdings_at_rest(cls.lab)

    @classmethod
    def tearDownClass(cls):
        wait_until_back(cls.lab, cls.before)
        cls.lab.close()

    def check(self, case):
        lab = self.lab
        output = lab.a.run(CALLS, case, lab.a.gid_index(), lab.b.gid_index())
        self.assertIn(f"{case}: right", output)

    def test_a_null_region_drops_what_is_written_and_reads_as_zeros(self):
        self.check("null-region")

    def test_a_moderated_queue_has_its_event_by_the_count_or_the_period(self):
        self.check("moderation")

    def test_what_devices_do_not_have_is_refused_by_the_error_of_the_readme(self):
        self.check("unsupported")

    def test_wrong_arguments_are_refused(self):
        self.check("bad-arguments")

    def test_what_others_rest_on_does_not_go_before_them(self):
        self.check("wrong-order")

    def test_a_program_without_memory_is_told_so_and_loses_nothing(self):
        self.check("no-memory")

    def test_rates_that_programs_ask_for_bound_what_leaves(self):
        self.check("rate-limits")

    def test_a_program_without_fds_is_told_so_and_loses_nothing(self):
        self.check("no-fds")


if __name__ == "__main__":
    unittest.main()
