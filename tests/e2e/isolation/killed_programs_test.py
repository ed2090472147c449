# SPDX-License-Identifier: Apache-2.0
"""Programs and daemons that are killed at any instant, under load: the others go on and their data
is right, the peers learn of it, and nothing is left behind."""
import random
import signal
import time
import unittest

from labs.killed_pairs import (DEVICE_GONE, KINDS, PEER_GONE, MortalLab, Pair, holdings_at_rest,
                               wait_until_back)
from labs.lab import LONG
from labs.process import Failed
from labs.programs import pingpong, seed

KILLS = 1000 if LONG else 15
DAEMON_KILLS = 100 if LONG else 1


class Kills:
    """Five pairs; one program after the other is killed and its pair started again. `more_flags`:
    for all of them."""

    def __init__(self, lab, number, more_flags=()):
        self.lab = lab
        self.more_flags = more_flags
        self.random = random.Random(number)
        self.begun = 0
        self.bereaved = []  # Pairs of which one end was killed in mid-transfer: (pair, survivor).
        self.pairs = [self.start(kind) for kind in range(len(KINDS))]

    def start(self, kind):
        self.begun += 1
        flags, settings = KINDS[kind]
        return Pair(self.lab, *flags, *self.more_flags, settings=settings, seed=self.begun)

    def kill_one(self):
        kind = self.random.randrange(len(self.pairs))
        pair, victim = self.pairs[kind], self.random.randrange(2)
        if self.random.random() < 0.7:
            pair.wait_for_progress()  # In mid-transfer; else at any instant since its start.
        time.sleep(self.random.random() * 0.1)
        if self.random.random() < 0.2:
            pair.ends[victim].signal(signal.SIGSTOP)
            time.sleep(self.random.random() * 0.1)
        # Who has done a round on either side has a connected peer.
        connected = pair.rounds(1 - victim) > 0
        pair.ends[victim].kill()
        if connected:
            self.bereaved.append((pair, 1 - victim))
        else:
            pair.kill()
        self.pairs[kind] = self.start(kind)

    def check_bereaved(self, waiting):
        """All but the last `waiting` survivors have learnt that their peer is gone."""
        while len(self.bereaved) > waiting:
            pair, survivor = self.bereaved.pop(0)
            try:
                pair.expect_ends(PEER_GONE, roles=[survivor])
            finally:
                pair.kill()

    def end(self):
        for pair in self.pairs:
            pair.wait_for_progress()
        for pair in self.pairs:
            pair.stop()

    def tear_down(self):
        for pair in [*self.pairs, *(pair for pair, _ in self.bereaved)]:
            pair.kill()


class KillsTest(unittest.TestCase):
    def setUp(self):
        self.lab = MortalLab()
        self.addCleanup(self.lab.tear_down)

    def test_programs_killed_at_random_instants_harm_no_other(self):
        number = seed()
        pingpong(self.lab)  # What the daemon takes once and keeps.
        before = holdings_at_rest(self.lab)
        kills = Kills(self.lab, number)
        self.addCleanup(kills.tear_down)
        with self.subTest(seed=number):
            for _ in range(KILLS):
                kills.kill_one()
                for pair in kills.pairs:
                    pair.is_right()
                kills.check_bereaved(waiting=6)
            kills.check_bereaved(waiting=0)
            kills.end()
            wait_until_back(self.lab, before)
            self.lab.close()

    def check_daemon_end(self, number):
        pairs = [Pair(self.lab, *flags, settings=settings) for flags, settings in KINDS]
        pairs.append(Pair(self.lab, "--idle-qps", 500))
        late = []
        for pair in pairs:
            self.addCleanup(pair.kill)
        for pair in pairs:
            pair.wait_for_progress()
        for _ in range(3):  # Somewhere between their first command and their first packet.
            late.append(Pair(self.lab, "--churn", "--deadline", 10))
            self.addCleanup(late[-1].kill)
            time.sleep(0.03)
        self.lab.kill_daemon(number)
        self.lab.start_daemon_again()
        for pair in pairs:
            pair.expect_ends(DEVICE_GONE)
            pair.kill()
        for pair in late:
            for end in pair.ends:
                status = end.wait(60)  # 2: `uroce run` found no daemon.
                if status not in (1, 2, PEER_GONE, DEVICE_GONE):
                    raise Failed(f"{status}: {end.describe()}")
            pair.kill()
        pingpong(self.lab, "-c")

    def test_a_killed_daemon_leaves_device_fatal_and_flushed_work(self):
        for _ in range(DAEMON_KILLS):
            self.check_daemon_end(signal.SIGKILL)
        self.lab.close()

    def test_a_daemon_that_is_told_to_end_leaves_the_same(self):
        self.check_daemon_end(signal.SIGTERM)
        self.lab.close()
