# SPDX-License-Identifier: Apache-2.0
"""The lists of planted bugs fit the sources: a change that moves or rewrites what a bug replaces
changes the list too."""
import sys
import unittest

from tree_test import ROOT

sys.path.insert(0, str(ROOT / "tests" / "mutations"))
from lists import LISTS  # noqa: E402


class MutationsTest(unittest.TestCase):
    def test_what_a_planted_bug_replaces_is_there_once(self):
        wrong = []
        for room, _, entries in LISTS:
            for name, file, text, _ in entries:
                path = ROOT / room / file
                count = path.read_text(encoding="utf-8").count(text) if path.is_file() else 0
                if count != 1:
                    wrong.append(f"{name}: {count} times in {room}/{file}")
        self.assertEqual(wrong, [])

    def test_programs_that_look_for_planted_bugs_are_in_folders_that_are_built(self):
        folders = {ROOT / program.rsplit("/", 1)[0]
                   for _, programs, _ in LISTS for program in programs}
        self.assertEqual([folder for folder in folders if not (folder / "meson.build").is_file()],
                         [])

    def test_names_are_given_once(self):
        names = [entry[0] for _, _, entries in LISTS for entry in entries]
        self.assertEqual(sorted(names), sorted(set(names)))


if __name__ == "__main__":
    unittest.main()
