# SPDX-License-Identifier: Apache-2.0
"""Copies of memory that the daemon does not map are made by the program itself: of payload when it
is posted, of large messages that come in by a thread; and by the daemon where the program cannot:
it is stopped, or has lost its files."""
import os
import signal
import unittest
from unittest.mock import patch

from labs.lab import BUILD, WireLab, find_list
from labs.process import wait_until
from labs.programs import DataCheck, endless_writes

COPIED = ("env", "UROCE_MR=copied")
LARGE = ("--max-bytes", 1 << 20)
POSTED = BUILD / "tests" / "e2e" / "posted_copies"
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
        wait_until(lambda: self.sum_of("own_written_bytes") > 1 << 20, "writes")
        check.finish()

    @patch.dict(os.environ, {"UROCE_MR": "copied"})
    def test_a_program_reads_its_memory_for_a_peer_itself(self):
        def has_read():
            return self.sum_of("own_read_bytes") > 1 << 20

        def has_moved():
            return sum(pair["sent_bytes"] for pair in find_list(self.lab.a.dump("qp"))) > 8 << 30

        endless_writes(self, self.lab, "-s", 65536, tool="ib_read_bw")
        wait_until(lambda: has_read() or has_moved(), "reads")
        if not has_read():
            self.skipTest("workers of this machine read 64 KB in less than 24 us themselves")

    def test_a_program_that_has_lost_its_files_is_right(self):
        check = DataCheck(self.lab, *LARGE, ongoing=True,
                          prefix=(*COPIED, "sh", "-c", PRELOAD, LOST_COPIES))
        self.addCleanup(check.kill)
        wait_until(lambda: self.sum_of("own_left_to_helper") > 2, "copies by the helper")
        check.finish()

    @patch.dict(os.environ, {"UROCE_MR": "copied"})
    def test_payload_is_copied_when_it_is_posted(self):
        def sent():
            return sum(pair["sent_packets"] for pair in find_list(self.lab.b.dump("qp"))
                       if pair["device"] == self.lab.b.device)

        def await_packets(count):
            before = sent()
            wait_until(lambda: sent() > before + count, "more packets")

        _, client = endless_writes(self, self.lab, "-s", 65536, "-t", 16)
        await_packets(1000)  # The first messages are sent from where they lie.
        read = self.sum_of("own_read_bytes")
        await_packets(10_000)
        self.assertLess(self.sum_of("own_read_bytes") - read, 1 << 20)
        rings = [region for region in find_list(self.lab.b.dump("mr"))
                 if region["pid"] == client.pid and region["access"] == "r"]
        self.assertEqual(len(rings), 1)

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


class PostedCopiesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = WireLab()
        cls.addClassCleanup(cls.lab.close)

    def check(self, case):
        lab = self.lab
        output = lab.a.run("env", "UROCE_MR=copied", POSTED, case, lab.a.gid_index(),
                           lab.b.gid_index())
        self.assertIn(f"{case}: right", output)

    def test_the_answer_of_a_read_is_the_payload_of_a_fenced_write(self):
        self.check("fenced")

    def test_payload_without_memory_is_an_error(self):
        self.check("gone")

    def test_wrong_keys_are_errors(self):
        self.check("wrong-keys")

    def test_payload_of_several_regions_with_other_addresses(self):
        self.check("parts")

    def test_requests_that_are_taken_back(self):
        self.check("taken-back")

    def test_queue_pairs_that_are_reset_and_end(self):
        self.check("ends")


if __name__ == "__main__":
    unittest.main()
