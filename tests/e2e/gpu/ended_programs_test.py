# SPDX-License-Identifier: Apache-2.0
"""Programs with device memory that end, stop, fork, lose their device, hang in their driver or get
errors of it, in the middle of transfers: their peers see what they should, an honest program beside
them goes on, and the daemon keeps nothing."""
import signal
import unittest

from gpu.honest_pair import BesideHonestPair
from gpu.programs import REFUSED, SILENT, SOON, Transfers
from labs.killed_pairs import MortalLab
from labs.lab import find_list
from labs.process import wait_until

INVALID_VALUE = 1
ALL = 2**30


class EndedProgramsTest(BesideHonestPair):
    def staged_regions(self):
        return [region for region in find_list(self.lab.a.dump("mr"))
                if any(part.get("mode") == "staged" for part in region.get("segments", []))]

    def test_regions_and_bytes_are_listed(self):
        self.assertEqual(len(self.staged_regions()), 1)
        staged = [context for context in find_list(self.lab.a.dump("ctx"))
                  if "staged_read_bytes" in context]
        self.assertEqual(len(staged), 1)
        self.assertGreater(staged[0]["staged_read_bytes"], 0)
        self.assertGreater(staged[0]["staged_written_bytes"], 0)
        self.assertEqual(staged[0]["staged_refused"], 0)

    def test_a_program_that_is_killed_is_silent(self):
        pair = self.start(timeout=SOON)
        pair.target.kill()
        self.assertEqual(pair.status(), SILENT)

    def test_a_program_that_exits_is_silent(self):
        pair = self.start(timeout=SOON)
        pair.ask("exit")
        pair.target.expect_success(60)
        self.assertEqual(pair.status(), SILENT)

    def test_a_program_that_is_stopped_is_silent(self):
        pair = self.start(timeout=SOON)
        pair.target.signal(signal.SIGSTOP)
        self.assertEqual(pair.status(), SILENT)
        self.honest.wait_for_progress()
        pair.target.signal(signal.SIGCONT)
        pair.end_target()

    def test_a_program_that_is_stopped_for_a_while_goes_on(self):
        pair = self.start(timeout=20)
        pair.target.signal(signal.SIGSTOP)
        self.honest.wait_for_progress()
        pair.target.signal(signal.SIGCONT)
        pair.wait_for_progress()
        pair.stop()

    def test_a_program_without_a_free_fd_or_thread_tries_again(self):
        pair = self.start("late-target")
        self.assertIn("no fd: Too many open files\n", pair.target.output())
        self.assertIn("no thread: Resource temporarily unavailable\n", pair.target.output())
        pair.stop()

    def test_a_fork_child_takes_nothing_from_its_parent(self):
        pair = self.start()
        pair.do("fork")
        pair.wait_for_progress()
        pair.do("child-end")
        pair.wait_for_progress()
        pair.stop()

    def test_memory_that_ends_is_refused_to_peers(self):
        for role, what in (("target", "free"), ("target", "reset"), ("own-target", "destroy")):
            with self.subTest(what):
                pair = self.start(role)
                pair.do(what)
                self.assertEqual(pair.status(), REFUSED)
                self.honest.wait_for_progress()
                pair.end_target()

    def test_a_hang_of_the_driver_is_silence(self):
        for word in ("hang_copy", "hang_synchronize", "hang_call"):
            with self.subTest(word):
                pair = self.start(timeout=SOON)
                pair.words[word] = 1
                self.assertEqual(pair.status(), SILENT)
                self.honest.wait_for_progress()
                pair.words[word] = 0
                pair.end_target()

    def test_a_driver_that_hangs_for_a_while_goes_on(self):
        pair = self.start(timeout=20)
        pair.words["hang_copy"] = 1
        wait_until(lambda: pair.words["hanging"], "the copy to hang")
        self.honest.wait_for_progress()
        pair.words["hang_copy"] = 0
        pair.wait_for_progress()
        pair.stop()

    def test_programs_whose_driver_hangs_can_be_killed(self):
        pair = self.start()
        pair.words["hang_copy"] = 1
        wait_until(lambda: pair.words["hanging"], "the copy to hang")
        pair.kill()

    def test_errors_of_the_driver_are_told_to_peers(self):
        for is_late in (0, 1):
            with self.subTest(late=is_late):
                pair = self.start()
                pair.words["fail_late"] = is_late
                pair.words["fail_result"] = INVALID_VALUE
                pair.words["fail_count"] = ALL
                pair.words["fail_from"] = pair.words["copies"] + 100
                self.assertEqual(pair.status(), REFUSED)
                self.honest.wait_for_progress()
                pair.end_target()

    def test_a_program_that_serves_its_stage_wrongly_harms_itself_alone(self):
        for _ in range(3):
            pair = self.start()
            pair.do("scribble")
            self.honest.wait_for_progress(rounds=200)
            pair.kill()


class DaemonEndsTest(unittest.TestCase):
    def test_a_daemon_ends_while_a_driver_hangs(self):
        lab = MortalLab()
        self.addCleanup(lab.tear_down)
        pair = Transfers(lab)
        self.addCleanup(pair.kill)
        pair.wait_for_progress()
        pair.words["hang_copy"] = 1
        wait_until(lambda: pair.words["hanging"], "the copy to hang")
        lab.daemons[0].stop()
        lab.daemons.clear()


if __name__ == "__main__":
    unittest.main()
