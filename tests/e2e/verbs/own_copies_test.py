# SPDX-License-Identifier: Apache-2.0
"""Large copies of memory that the daemon does not map are made by a thread of the program itself,
and by the daemon where the program cannot: it is stopped, or has lost its files."""
import os
import signal
import unittest
from unittest.mock import patch

from labs.lab import BUILD, WireLab, find_list
from labs.process import wait_until
from labs.programs import DataCheck, endless_writes

COPIED = ("env", "UROCE_MR=copied")
LARGE = ("--max-bytes", 1 << 20)
LOST_COPIES = BUILD / "tests" / "e2e" / "lost_copies.so"
PRELOAD = 'LD_PRELOAD="$0:$LD_PRELOAD" exec "$@"'


class OwnCopiesTest(unittest.TestCase):
    def setUp(self):
        self.lab = WireLab()
        self.addCleanup(self.lab.close)

    def sum_of(self, counter):
        """A counter of all programs' lanes."""
        contexts = find_list(self.lab.a.dump("ctx"))
        return sum(context.get(counter, 0) for context in contexts)

    def test_a_program_makes_its_large_copies_itself(self):
        check = DataCheck(self.lab, *LARGE, ongoing=True, prefix=COPIED)
        self.addCleanup(check.kill)
        for counter in ("own_read_bytes", "own_written_bytes"):
            wait_until(lambda counter=counter: self.sum_of(counter) > 1 << 20, counter)
        check.finish()

    def test_a_program_that_has_lost_its_files_is_right(self):
        check = DataCheck(self.lab, *LARGE, ongoing=True,
                          prefix=(*COPIED, "sh", "-c", PRELOAD, LOST_COPIES))
        self.addCleanup(check.kill)
        wait_until(lambda: self.sum_of("own_left_to_helper") > 2, "copies by the helper")
        check.finish()

    @patch.dict(os.environ, {"UROCE_MR": "copied"})
    def test_memory_of_a_stopped_program_is_served(self):
        def sent():
            return sum(pair["sent_packets"] for pair in find_list(self.lab.b.dump("qp"))
                       if pair["device"] == self.lab.b.device)

        server, client = endless_writes(self, self.lab, "-s", 65536)
        wait_until(lambda: self.sum_of("own_written_bytes") > 1 << 20, "copies")
        server.signal(signal.SIGSTOP)
        before = sent()
        wait_until(lambda: sent() > before + 10_000 or not client.running(), "more packets")
        self.assertTrue(client.running(), client.describe())
        self.assertGreater(self.sum_of("own_left_to_helper"), 0)
        server.signal(signal.SIGCONT)


if __name__ == "__main__":
    unittest.main()
