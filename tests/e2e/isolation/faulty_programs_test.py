# SPDX-License-Identifier: Apache-2.0
"""Programs that use verbs badly, or end in odd ways, beside one that does not: it goes on, the
others get what they deserve, and nothing is left behind."""
import itertools
import os
import re
import signal
import unittest

from labs.killed_pairs import MortalLab, Pair, holdings_at_rest, wait_until_back
from labs.lab import BUILD
from labs.process import wait_until
from labs.programs import pingpong

MISUSE = BUILD / "tests" / "e2e" / "faulty_programs"


class MisuseTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = MortalLab()
        cls.addClassCleanup(cls.lab.tear_down)
        pingpong(cls.lab)
        cls.before = holdings_at_rest(cls.lab)

    @classmethod
    def tearDownClass(cls):
        cls.lab.close()  # Fails when the daemon has crashed.

    def setUp(self):
        self.bystander = Pair(self.lab)
        self.addCleanup(self.bystander.kill)
        self.bystander.wait_for_progress()

    def start(self, case, *settings):
        host = self.lab.a
        program = host.start("env", *settings, MISUSE, case, host.gid_index(),
                             self.lab.b.gid_index())
        self.addCleanup(program.kill)
        return program

    def run_all(self, *cases):
        for case in cases:
            with self.subTest(case):
                self.start(case).expect_success(60)
                self.bystander.wait_for_progress()

    def check_nothing_is_left(self):
        self.bystander.wait_for_progress()
        self.bystander.stop()
        wait_until_back(self.lab, self.before)

    def test_queues_and_channels_that_the_program_does_not_read(self):
        self.run_all("never-polls", "never-reads-events")
        self.check_nothing_is_left()

    def test_processes_that_fork_close_all_fds_or_end_while_they_post(self):
        self.run_all("forks-and-goes-on", "closes-all-fds", "ends-while-others-post",
                     "unloads-libraries")
        self.check_nothing_is_left()

    def test_a_program_that_becomes_another_one_leaves_nothing(self):
        program = self.start("becomes-another-program")
        self.check_nothing_is_left()
        self.assertTrue(program.running())

    def test_a_child_that_has_its_parents_sockets_keeps_nothing_alive(self):
        program = self.start("leaves-a-child-with-its-sockets")
        program.expect_success(30)
        child = int(re.search(r"child (\d+)", program.output()).group(1))
        try:
            self.check_nothing_is_left()
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)

    def start_until_ready(self, case, *settings):
        program = self.start(case, *settings)
        wait_until(lambda: "ready" in program.output() or not program.running(), case)
        self.assertTrue(program.running(), program.output())
        self.bystander.wait_for_progress()
        return program

    def check_killed_when_ready(self, case, *settings):
        self.start_until_ready(case, *settings).kill()
        self.check_nothing_is_left()

    def test_a_program_killed_with_a_full_channel_leaves_nothing(self):
        self.check_killed_when_ready("dies-with-a-full-channel")

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "needs FUSE")
    def test_memory_that_blocks_its_reader_delays_no_other(self):
        self.check_killed_when_ready("blocks-who-reads-its-memory", "UROCE_MR=copied")

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "needs FUSE")
    def test_a_queue_pair_that_is_reset_or_ends_leaves_no_copy_behind(self):
        by_the_program, by_the_daemon = "UROCE_OWN_COPIES=1", "UROCE_OWN_COPIES=0"
        for case, setting in itertools.product(("resets-over-a-copy", "ends-over-a-copy"),
                                               (by_the_program, by_the_daemon)):
            with self.subTest(case, setting=setting):
                program = self.start_until_ready(case, "UROCE_MR=copied", setting)
                os.kill(program.pid, signal.SIGUSR1)
                program.expect_success(60)
        self.check_nothing_is_left()

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "needs FUSE")
    def test_a_program_killed_while_its_queue_pair_waits_for_a_copy_leaves_nothing(self):
        self.check_killed_when_ready("resets-over-a-copy", "UROCE_MR=copied")

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "needs FUSE")
    def test_a_read_of_events_that_never_ends_delays_no_other(self):
        self.check_killed_when_ready("blocks-who-sends-its-events")
