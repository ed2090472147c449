# SPDX-License-Identifier: Apache-2.0
"""Types what README.md and docs/guide tell a reader to type. `guide_text.py` has the rules."""
import textwrap
import unittest
from unittest import mock

from labs.guide_lab import Reader
from labs.guide_text import sections
from labs.lab import ROOT
from labs.process import Failed

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]


def read(page, text):
    """Types all of a page, each section on new machines; returns how many commands."""
    count = 0
    for section in sections(text):
        blocks = [block for block in section.blocks if block.kind != "apart"]
        for run in [blocks, *([b] for b in section.blocks if b.kind == "apart")]:
            count += read_blocks(page, run)
    return count


def read_blocks(page, blocks):
    typed = [block for block in blocks if block.kind in ("commands", "apart", "first")]
    if not typed:
        return 0
    reader = Reader(page, any("eth0" in line for block in typed for line in block.lines))
    try:
        for block in blocks:
            if block in typed:
                reader.type_block(block)
            elif block.kind == "output":
                reader.expect_output(block)
        reader.close()
    finally:
        reader.tear_down()
    return reader.commands


class GuideTest(unittest.TestCase):
    def test_what_is_not_run_says_why(self):
        left_out = [(f"{page.relative_to(ROOT)}:{block.line}: {block.reason}")
                    for page in PAGES for section in sections(page.read_text(encoding="utf-8"))
                    for block in section.blocks if block.kind == "not run"]
        print(f"   {len(left_out)} blocks of the guide are not run:", flush=True)
        for line in left_out:
            print(f"      {line}", flush=True)


def add_page(page):
    """A class for each page: pages are read side by side."""

    def test_what_it_says_works(self):
        del self
        count = read(page.relative_to(ROOT), page.read_text(encoding="utf-8"))
        print(f"   {page.relative_to(ROOT)}: {count} commands", flush=True)

    name = page.stem.title().replace("-", "") + "PageTest"
    globals()[name] = type(name, (unittest.TestCase,), {
        "__module__": __name__, test_what_it_says_works.__name__: test_what_it_says_works})


for each in PAGES:
    if each.parent == ROOT or each.stem != "README":
        add_page(each)


class RulesTest(unittest.TestCase):
    """A page that is wrong is found to be so."""

    def expect_failure(self, words, text):
        with self.assertRaisesRegex(Failed, words):
            read("page", textwrap.dedent(text))

    def test_a_command_that_fails(self):
        self.expect_failure("page:4: false\nexit status 1", """
            Text:

                false
            """)

    def test_an_exit_status_that_is_another(self):
        self.expect_failure("exit status 0", """
            Text:

                true    # exit status 3
            """)

    def test_a_line_that_is_not_printed(self):
        with mock.patch.object(Reader, "longest_wait_s", 1):
            self.expect_failure("page:8: nothing printed: 12 oranges", """
                Text:

                    echo 5 apples

                <!-- output -->

                    12 oranges
                """)
        self.assertEqual(read("page", "Text:\n\n    echo 5 apples\n\n<!-- output -->\n\n"
                              "    12 apples\n"), 1)

    def test_a_command_that_needs_sudo(self):
        self.expect_failure("exit status", """
            Text:

                cat /etc/shadow
            """)

    def test_a_daemon_that_does_not_start(self):
        self.expect_failure("it has ended", """
            Text:

                build/nic/uroced --no-such-flag &
            """)

    def test_a_background_program_that_fails(self):
        self.expect_failure("exit status 1", """
            Text:

                false &
            """)

    def test_a_comment_that_is_none_of_the_rules(self):
        for text in ("<!-- skip -->\n\n    false\n", "<!-- not run -->\n\n    false\n",
                     "<!-- output -->\n\nText\n"):
            with self.assertRaises(ValueError):
                sections(text)


if __name__ == "__main__":
    unittest.main()
