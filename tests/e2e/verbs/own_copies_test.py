# SPDX-License-Identifier: Apache-2.0
"""Copies of memory that the daemon does not map are made by the program itself: of payload when it
is posted, of large messages that come in by a thread; and by the daemon where the program cannot:
it is stopped, or has lost its files."""
import os
import pathlib
import signal
import time
import unittest
from unittest.mock import patch

from labs.lab import BUILD, VERBS_CHECK, WireLab, find_list
from labs.process import run_status, wait_until
from labs.programs import DataCheck, endless_writes

COPIED = ("env", "UROCE_MR=copied")
LARGE = ("--max-bytes", 1 << 20)
POSTED = BUILD / "tests" / "e2e" / "posted_copies"
LOST_COPIES = BUILD / "tests" / "e2e" / "lost_copies.so"
PRELOAD = 'LD_PRELOAD="$0:$LD_PRELOAD" exec "$@"'
# Workers leave memory of other users alone, however fast they are: the program's thread makes each
# copy, or the daemon's helper.
OTHER_USER = ("setpriv", "--reuid=61007", "--regid=61007", "--clear-groups")


def stop(program):
    """Returns when no thread of it runs any more."""
    def is_stopped():
        tasks = pathlib.Path(f"/proc/{program.pid}/task").iterdir()
        return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T"
                   for task in tasks)

    program.signal(signal.SIGSTOP)
    wait_until(is_stopped, "a stop")


class OwnCopiesTest(unittest.TestCase):
    def setUp(self):
        self.lab = WireLab()
        self.addCleanup(self.lab.close)

    def sum_of(self, counter, pid=None):
        """A counter of the lanes of this program, or of all programs."""
        contexts = find_list(self.lab.a.dump("ctx"))
        return sum(context.get(counter, 0) for context in contexts if pid in (None, context["pid"]))

    def packets(self):
        return sum(pair["sent_packets"] for pair in find_list(self.lab.a.dump("qp")))

    def have_settled(self):
        """Whether all that was posted has been sent."""
        before = self.packets()
        time.sleep(0.05)
        return self.packets() == before

    def test_a_program_makes_its_large_copies_itself(self):
        check = DataCheck(self.lab, *LARGE, ongoing=True, prefix=COPIED)
        self.addCleanup(check.kill)
        wait_until(lambda: self.sum_of("own_written_bytes") > 1 << 20, "writes")
        check.finish()

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

    def start_copies(self, tool, counter):
        """The server is another user's. Returns server and client when the server has made copies
        itself, as its `counter` says."""
        if run_status([*OTHER_USER, "test", "-x", VERBS_CHECK])[0]:
            self.skipTest(f"{' '.join(OTHER_USER)} cannot run {VERBS_CHECK}")
        for directory in (self.lab.directory, os.path.dirname(self.lab.a.daemon.socket)):
            os.chmod(directory, 0o711)  # That user is to find the socket.
        server, client = endless_writes(self, self.lab, "-s", 65536, tool=tool,
                                        server_prefix=OTHER_USER)
        wait_until(lambda: self.sum_of(counter, server.pid) > 1 << 20, "copies by the program")
        return server, client

    @patch.dict(os.environ, {"UROCE_MR": "copied"})
    def test_a_program_reads_its_memory_for_a_peer_itself(self):
        self.start_copies("ib_read_bw", "own_read_bytes")

    def check_stopped(self, server, client, by_helper):
        """Stops a server when none of its copies is under way: a write that it has begun is the
        server's own (docs/trust.md, L27). `by_helper`: the helper has to make copies then."""
        stop(client)
        wait_until(self.have_settled, "the last packet")
        stop(server)
        left, before = self.sum_of("own_left_to_helper", server.pid), self.packets()
        client.signal(signal.SIGCONT)

        def is_served():
            is_left = self.sum_of("own_left_to_helper", server.pid) > left
            return (is_left or not by_helper) and self.packets() > before + 10_000

        wait_until(lambda: is_served() or not client.running(), "packets of a stopped program")
        self.assertTrue(client.running(), client.describe())
        server.signal(signal.SIGCONT)

    @patch.dict(os.environ, {"UROCE_MR": "copied"})
    def test_memory_of_a_stopped_program_is_written(self):
        ends = self.start_copies("ib_write_bw", "own_written_bytes")
        self.check_stopped(*ends, by_helper=True)

    @patch.dict(os.environ, {"UROCE_MR": "copied"})
    def test_memory_of_a_stopped_program_is_read(self):
        ends = self.start_copies("ib_read_bw", "own_read_bytes")
        self.check_stopped(*ends, by_helper=True)

    @patch.dict(os.environ, {"UROCE_MR": "copied"})
    def test_memory_of_a_stopped_program_of_the_daemons_user_is_served(self):
        self.check_stopped(*endless_writes(self, self.lab, "-s", 65536), by_helper=False)


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
