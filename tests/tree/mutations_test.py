# SPDX-License-Identifier: Apache-2.0
"""The planted bugs fit the sources: a change that moves or rewrites the text of a bug changes the
bug's entry too."""
import re
import sys
import unittest

from tree_test import ROOT

sys.path.insert(0, str(ROOT / "tests" / "mutations"))
import daemon_bugs  # noqa: E402
import packet_bugs  # noqa: E402

BUGS = packet_bugs.BUGS + daemon_bugs.BUGS


class MutationsTest(unittest.TestCase):
    def test_the_text_of_a_bug_occurs_once_in_its_file(self):
        wrong = []
        for name, _, file, text, _, _ in BUGS:
            path = ROOT / file
            count = path.read_text(encoding="utf-8").count(text) if path.is_file() else 0
            if count != 1:
                wrong.append(f"{name}: {count} times in {file}")
        self.assertEqual(wrong, [])

    def test_the_test_programs_of_a_bug_are_in_folders_that_are_built(self):
        folders = {ROOT / program.rsplit("/", 1)[0]
                   for _, programs, *_ in BUGS for program in programs}
        self.assertEqual([folder for folder in folders if not (folder / "meson.build").is_file()],
                         [])

    def test_the_ids_of_rules_are_those_of_a_rules_file(self):
        ids = {line.split()[0] for path in (ROOT / "tests").rglob("rules.txt")
               for line in path.read_text(encoding="utf-8").splitlines() if line[:1].strip("#")}
        named = {found.group(1) for *_, rule in BUGS
                 if (found := re.match(r"\[(.*)\] ", rule)) is not None}
        self.assertEqual(sorted(named - ids), [])

    def test_each_bug_has_its_own_name(self):
        names = [name for name, *_ in BUGS]
        self.assertEqual(sorted(names), sorted(set(names)))


if __name__ == "__main__":
    unittest.main()
