# SPDX-License-Identifier: Apache-2.0
"""Limits per program and per user: one clear error, room again after a death, and other users are
not concerned."""
import contextlib
import errno
import json
import os
import sys
import unittest
from pathlib import Path

from labs.killed_pairs import MortalLab, holdings_at_rest, wait_until_back
from labs.lab import E2E, UROCE
from labs.process import Process, json_of, run_status, wait_until
from labs.programs import pingpong

CONTROL = E2E / "labs" / "control.py"
FIRST_UID = 61000
OTHER_UID = 65534
LIMITS = ["--max-sessions", "40", "--max-sessions-per-user", "6", "--max-contexts", "5",
          "--max-pd", "12", "--max-channels", "7", "--max-sockets-per-user", "16", "--max-cq", "11",
          "--max-cq-per-user", "15", "--max-qp", "20", "--max-qp-per-user", "30", "--max-ah",
          "8", "--max-ah-per-user", "10", "--max-mw", "7", "--max-mw-per-user", "9",
          "--max-mcast-per-user", "8", "--max-srq", "6", "--max-srq-per-user", "9",
          "--max-segments", "9", "--max-segments-per-user", "12", "--max-captures", "3"]


class LimitsCase(unittest.TestCase):
    """Programs that make objects until they meet a limit."""

    shares = "files under way of a user"  # The kernel counts them for all programs of a user.
    make_lab = MortalLab

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.make_lab(*LIMITS)
        cls.addClassCleanup(cls.lab.tear_down)
        os.chmod(cls.lab.directory, 0o711)  # Other users' programs connect too.
        pingpong(cls.lab)
        cls.before = holdings_at_rest(cls.lab)

    def start(self, kind, count, uid):
        """A program of `uid` that makes up to `count` objects and keeps them."""
        program = Process(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups",
                           sys.executable, CONTROL, self.lab.daemons[0].socket, kind, count])
        self.addCleanup(program.kill)
        return program

    def report_of(self, program):
        wait_until(lambda: program.output().endswith("\n") or not program.running(), "a report")
        self.assertTrue(program.running(), program.output())
        return json.loads(program.output())

    def hold(self, kind, count, uid=FIRST_UID):
        program = self.start(kind, count, uid)
        return program, self.report_of(program)

    def check_made(self, kind, wanted, flag, uid=FIRST_UID):
        program, report = self.hold(kind, 100, uid)
        self.assertEqual(report["made"], wanted, report)
        number, text = report["refused"]
        self.assertEqual(number, errno.ENOMEM)
        self.assertIn(flag, text)
        return program

    @classmethod
    def tearDownClass(cls):
        cls.lab.close()  # Fails when the daemon has crashed.


class LoginUsersLab(MortalLab):
    """Where a user has a hundred further uids."""

    daemon_prefix = ("unshare", "--mount", "sh", "-c",
                     "mount -t tmpfs none /mnt && "
                     f"echo {FIRST_UID}:{FIRST_UID + 100}:100 > /mnt/ids && "
                     "mount --bind /mnt/ids /etc/subuid && exec \"$@\"", "sh")


class LoginUsersTest(LimitsCase):
    make_lab = LoginUsersLab

    def test_a_user_and_its_subordinate_uids_have_the_limits_of_one(self):
        programs = [self.hold("session", 4)[0],
                    self.check_made("session", 2, "--max-sessions-per-user", FIRST_UID + 100),
                    self.check_made("session", 0, "--max-sessions-per-user", FIRST_UID + 199),
                    self.check_made("session", 6, "--max-sessions-per-user", FIRST_UID + 200)]
        for program in programs:
            program.kill()
        wait_until_back(self.lab, self.before)


class MemoryLimitTest(unittest.TestCase):
    LIMIT = 1 << 30

    def make_cgroup(self):
        for parent, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                              ("/sys/fs/cgroup", "memory.max")):
            group = Path(parent) / f"uroce-e2e-{os.getpid()}"
            with contextlib.suppress(OSError):
                group.mkdir()
                self.addCleanup(group.rmdir)
                (group / limit).write_text(str(self.LIMIT))
                return group
        return self.skipTest("it takes the right to make a cgroup for memory")

    def test_budgets_follow_the_daemons_cgroup(self):
        group = self.make_cgroup()

        class CgroupLab(MortalLab):
            daemon_prefix = ("sh", "-c", f"echo $$ >{group}/cgroup.procs && exec \"$@\"", "sh")

        lab = CgroupLab()
        self.addCleanup(lab.tear_down)
        limits = json_of(lab.a.uroce("config", "show", "--json"))["limits"]
        self.assertEqual(limits["max_memory_per_user"], self.LIMIT * 3 // 4)
        self.assertEqual(limits["max_queue_bytes_per_user"], self.LIMIT // 4)
        self.assertEqual(limits["max_own_bytes_per_user"], self.LIMIT // 8)
        lab.close()


class LimitsTest(LimitsCase):
    def test_a_program_is_told_which_of_its_limits_it_has_met(self):
        # prepare() has made a context and a pd.
        for kind, wanted, flag in (("context", 4, "context: all 5"), ("pd", 11, "pd: all 12"),
                                   ("channel", 7, "channel: all 7"), ("cq", 11, "cq: all 11"),
                                   ("qp", 20, "qp: all 20"), ("ah", 8, "ah: all 8"),
                                   ("mw", 7, "mw: all 7"),
                                   ("srq", 6, "srq: all 6"), ("segment", 9, "segment: all 9")):
            with self.subTest(kind):
                self.check_made(kind, wanted, flag).kill()
        wait_until_back(self.lab, self.before)

    def test_limits_of_a_user_count_over_programs_and_end_with_them(self):
        for kind, first, second, flag in (
                ("channel", 7, 7, "all 7"), ("cq", 11, 4, "--max-cq-per-user"),
                ("qp", 20, 10, "--max-qp-per-user"), ("ah", 8, 2, "--max-ah-per-user"),
                ("mw", 7, 2, "--max-mw-per-user"),
                ("srq", 6, 3, "--max-srq-per-user"), ("segment", 9, 3, "--max-segments-per-user")):
            with self.subTest(kind):
                one, _ = self.hold(kind, 100)
                two = self.check_made(kind, second, flag)
                other, report = self.hold(kind, first, FIRST_UID + 1)
                self.assertEqual(report["made"], first, "another user is not concerned")
                for program in (one, two, other):
                    program.kill()
                wait_until_back(self.lab, self.before)
                self.check_made(kind, first, "all").kill()

    def test_places_in_groups_are_a_users_and_end_with_its_programs(self):
        for uid in (FIRST_UID, FIRST_UID + 1):
            one = self.check_made("mcast", 8, "--max-mcast-per-user", uid)
            self.check_made("mcast", 0, "--max-mcast-per-user", uid).kill()
            one.kill()
        wait_until_back(self.lab, self.before)
        self.assertEqual(self.lab.a.dump("devices")["devices"][0]["groups"], [])

    def test_sixteen_users_share_the_daemon_fairly(self):
        programs = []
        for uid in (*range(FIRST_UID, FIRST_UID + 4), OTHER_UID):
            programs.append(self.check_made("session", 6, "--max-sessions-per-user", uid))
        for uid, left in enumerate((5, 3, 1, 1, *[0] * 7), FIRST_UID + 5):
            programs.append(self.check_made("session", left, "--max-sessions", uid))
        self.assertEqual(len(self.lab.a.dump("devices")["devices"]), 2, "root looks all the same")
        _, said = run_status(["setpriv", f"--reuid={OTHER_UID}", "--clear-groups", UROCE,
                               "--socket", self.lab.daemons[0].socket, "run", "--", "env",
                               "UROCE_LOG=1", "ibv_devices"])
        self.assertIn("user 65534 has 6 programs connected, see --max-sessions-per-user", said)
        for program in programs:
            program.kill()
        wait_until_back(self.lab, self.before)
        pingpong(self.lab)

    def test_sixteen_users_meet_their_limits_at_once(self):
        kinds = (("qp", 20), ("cq", 11), ("segment", 9), ("channel", 7))
        programs = [(self.start(kind, 100, FIRST_UID + user), made)
                    for user, (kind, made) in enumerate(kinds * 4)]
        for program, made in programs:
            report = self.report_of(program)
            self.assertEqual((report["made"], report["refused"][0]), (made, errno.ENOMEM), report)
        pingpong(self.lab)
        for program, _ in programs:
            program.kill()
        wait_until_back(self.lab, self.before)

    def test_captures_are_roots_and_so_many(self):
        program, report = self.hold("capture", 1)
        self.assertEqual(report["refused"][0], errno.EPERM)
        program.kill()
        self.check_made("capture", 3, "--max-captures", uid=0).kill()
        wait_until_back(self.lab, self.before)
        self.check_made("capture", 3, "--max-captures", uid=0)
