# SPDX-License-Identifier: Apache-2.0
"""Programs that attack the daemon through all that they share with it, beside one that does not: it
goes on with its data right, the attackers lose their own queues, and nothing is left behind."""
import os
import shutil
import unittest

from labs.killed_pairs import MortalLab, Pair, holdings_at_rest, wait_until_back
from labs.lab import BUILD, LONG
from labs.process import Process, run_status
from labs.programs import pingpong, seed

HOSTILE = BUILD / "tests" / "e2e" / "hostile"
# What the kernel counts for a user, fds under way for instance, is the daemon's own otherwise.
UNTRUSTED = ("setpriv", "--reuid=61000", "--regid=61000", "--clear-groups")
SECONDS = int(os.environ.get("UROCE_E2E_SECONDS", "600" if LONG else "4"))
MOST_ROUNDS = 16  # Of so many seconds: a slow machine takes more for the same attacks.
SIGNS = ("sq_corrupt", "rq_corrupt", "req_cqe_error")


class HostileCase(unittest.TestCase):
    """Tests with their own lab, made with `daemon_flags`."""

    daemon_flags = ()
    shares = "files under way of a user"  # The kernel counts them for all programs of a user.

    def setUp(self):
        self.lab = MortalLab(*self.daemon_flags)
        self.addCleanup(self.lab.tear_down)

    def program(self):
        """Where another user reaches it, and the socket too."""
        for directory in (self.lab.directory, os.path.dirname(self.lab.daemons[0].socket)):
            os.chmod(directory, 0o711)
        return shutil.copy(HOSTILE, self.lab.directory)


class HonestPairTest(HostileCase):
    """The daemon maps all files that the hostile programs lend: so they reach more of its code."""

    daemon_flags = ("--map-other-users-files",)

    def test_an_honest_pair_beside_hostile_programs(self):
        pingpong(self.lab)
        before = holdings_at_rest(self.lab)
        pair = Pair(self.lab, "--churn")
        self.addCleanup(pair.kill)
        number = seed()
        with self.subTest(seed=number):
            for attack in range(MOST_ROUNDS):
                self.attack_beside(pair, number + attack * 1_000_000)
                counters = self.lab.a.counters()
                if all(counters[f"counters.{name}"] for name in SIGNS):
                    break
            for name in SIGNS:
                self.assertGreater(counters[f"counters.{name}"], 0, name)
            pair.stop()
            wait_until_back(self.lab, before)
            pingpong(self.lab, "-c")
            self.lab.close()

    def attack_beside(self, pair, number):
        """The honest pair goes on while a program attacks by this seed."""
        hostile = Process([*UNTRUSTED, self.program(), self.lab.daemons[0].socket, number, SECONDS])
        self.addCleanup(hostile.kill)
        while hostile.running():
            pair.wait_for_progress()
        hostile.expect_success(10)
        pair.wait_for_progress()


class HostileTest(HostileCase):
    def attack(self, name, user=UNTRUSTED):
        """By a user without any privilege, in a namespace of users where it is root or not."""
        status, output = run_status([*user, self.program(), self.lab.daemons[0].socket, name])
        if "no userfaultfd" in output:
            self.skipTest("no userfaultfd for the pages that a program holds back")
        self.assertEqual(status, 0, output)
        pingpong(self.lab)
        self.lab.close()

    def test_no_worker_waits_for_the_memory_of_a_process_that_has_ended(self):
        self.attack("memory-of-an-ended-process")

    def test_the_lock_of_a_file_that_a_program_holds_is_waited_for_by_this_program_alone(self):
        self.attack("locked-arena", user=())  # Any user can, with FUSE; userfaultfd needs root.

    def test_files_of_proc_are_not_memory_under_whatever_path(self):
        self.attack("disguised-files")

    def test_no_page_of_a_segment_can_be_freed(self):
        self.attack("freed-segment")

    def test_of_files_of_other_users_those_are_mapped_whose_pages_cannot_be_freed(self):
        self.attack("freeable-files")

    def test_no_page_of_the_queues_can_be_freed(self):
        self.attack("holes-in-arena")

    def test_workers_wait_for_no_memory_of_a_program_that_has_lent_a_file_before(self):
        self.attack("file-before-memory")
