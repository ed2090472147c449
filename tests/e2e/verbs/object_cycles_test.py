# SPDX-License-Identifier: Apache-2.0
"""Objects of every kind made, used and unmade thousands of times, and what the daemon has then."""
import unittest

from labs.killed_pairs import MortalLab, all_maps, holdings_at_rest, wait_until_back
from labs.lab import BUILD, LONG, UROCE
from labs.process import Failed, json_of, resident_kilobytes, wait_until

CYCLES = 10_000 if LONG else 100
WARM_UP = 100
# What allocators keep, and the numbers that rest for a minute: some ten keys and ten queue pairs of
# some tens of bytes a cycle.
MOST_GROWTH_KB = 4096 + CYCLES * 2
FRAMES_KEPT = 64  # By a worker, full or not.


class CyclesTest(unittest.TestCase):
    def check(self, *arguments, workers=1):
        lab = MortalLab(*arguments)
        self.addCleanup(lab.tear_down)
        pid = lab.daemons[0].process.pid

        def held():
            stat = json_of([UROCE, "--socket", lab.daemons[0].socket, "stat", "--json"])
            return stat["held"]

        def cycle(count):
            lab.a.run(BUILD / "tests" / "e2e" / "object_cycles", "-x", lab.a.gid_index(), "-y",
                      lab.b.gid_index(), count, timeout_s=60 + count / 5)

        cycle(WARM_UP)  # What the daemon takes once and keeps.
        before, maps, resident = holdings_at_rest(lab), all_maps(pid), resident_kilobytes(pid)
        frames = held()["frames"]
        cycle(CYCLES)
        wait_until_back(lab, before)
        # An allocator's heap may be cut into a few more.
        wait_until(lambda: all_maps(pid) <= maps + 8, "mappings to go")
        self.assertEqual((held()["qpns"], held()["keys"]), (0, 0))
        self.assertLessEqual(abs(held()["frames"] - frames), FRAMES_KEPT * workers)
        growth = resident_kilobytes(pid) - resident
        print(f"   {CYCLES} cycles: {growth} KB more resident, mappings {maps} -> {all_maps(pid)}",
              flush=True)
        if growth > MOST_GROWTH_KB:
            raise Failed(f"{growth} KB more resident after {CYCLES} cycles")
        lab.close()

    def test_nothing_is_left_of_what_was_unmade(self):
        self.check()

    def test_nor_with_two_workers(self):
        self.check("--workers", "2", workers=2)
