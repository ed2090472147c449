# SPDX-License-Identifier: Apache-2.0
"""Programs that serve their stage themselves and lie to the daemon about it. The daemon takes no
answer but that to its own request, once and in its order; programs that lie harm themselves alone:
their peers see wrong bytes of theirs, an error or silence."""
import contextlib
import unittest

from gpu.honest_pair import BesideHonestPair
from gpu.programs import REFUSED, SILENT
from labs.process import wait_until


class LyingProgramsTest(BesideHonestPair):
    """The peer of a liar goes on where bytes are wrong, and counts them."""

    @contextlib.contextmanager
    def liar(self):
        """A pair whose device memory is served by the program itself, so far honestly. Its peer
        does not give up while the program takes over."""
        pair = self.start(timeout=17, requester="doubter")
        try:
            pair.words["hang_call"] = 1
            wait_until(lambda: pair.words["hanging"], "the shim's thread to hang")
            pair.do("honestly")
            self.await_right(pair)
            yield pair
        finally:
            pair.kill()

    @staticmethod
    def await_right(pair):
        """Until bytes that were written before it was honest are no longer read."""
        def is_right():
            wrong = pair.wrong()
            pair.wait_for_progress(3)
            return pair.wrong() == wrong
        wait_until(is_right, "rounds with the right bytes")

    def expect_all_right(self, lie):
        with self.liar() as pair:
            wrong = pair.wrong()
            pair.do(lie)
            pair.wait_for_progress(20)
            self.assertEqual(pair.wrong(), wrong)
            self.honest.wait_for_progress(20)

    def test_an_answer_that_comes_again_answers_nothing(self):
        self.expect_all_right("twice")

    def test_answers_to_requests_that_were_not_made_answer_nothing(self):
        self.expect_all_right("for-others")

    def test_what_the_daemon_wrote_is_not_read_again(self):
        self.expect_all_right("other-fields")

    def test_bytes_that_are_not_there_are_the_programs_own(self):
        with self.liar() as pair:
            wrong = pair.wrong()
            pair.do("uncopied")
            wait_until(lambda: pair.wrong() > wrong + 5, "wrong bytes")
            self.honest.wait_for_progress(20)
            pair.do("honestly")
            self.await_right(pair)

    def test_bytes_that_change_while_they_are_taken_make_no_invalid_packet(self):
        with self.liar() as pair:
            pair.do("changing-bytes")
            pair.wait_for_progress(20)
            self.honest.wait_for_progress(20)
            self.assertEqual(self.lab.b.counters()["counters.rx_icrc_encapsulated"], 0)

    def test_an_answer_in_front_of_its_request_harms_the_program_alone(self):
        with self.liar() as pair:
            pair.do("early")
            self.honest.wait_for_progress(20)
            if not pair.requester.running():
                self.assertEqual(pair.status(), SILENT)

    def test_any_error_refuses_the_request(self):
        for lie in ("errors", "two-errors"):
            with self.subTest(lie), self.liar() as pair:
                pair.do(lie)
                self.assertEqual(pair.status(), REFUSED)
                self.honest.wait_for_progress(20)

    def test_work_of_the_program_that_lies_fails(self):
        with self.liar() as pair:
            pair.do("push")
            pair.do("errors")
            pair.do("push")
            self.assertIn("push: done\n", pair.target.output())
            self.assertRegex(pair.target.output(),
                             "push: (local protection error|Work Request Flushed Error)\n")
            self.honest.wait_for_progress(20)

    def test_a_program_that_never_answers_may_end_in_any_way(self):
        for end in ("exit", "end", "kill"):
            with self.subTest(end), self.liar() as pair:
                pair.do("never")
                self.assertEqual(pair.status(), SILENT)
                if end != "kill":
                    pair.ask(end)
                if end == "exit":
                    pair.target.expect_success(60)
                self.honest.wait_for_progress(20)


if __name__ == "__main__":
    unittest.main()
