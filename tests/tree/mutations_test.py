# SPDX-License-Identifier: Apache-2.0
"""The planted bugs fit the sources: a change that moves or rewrites the text of a bug changes the
bug's entry too."""
import re
import sys
import unittest

from tree_test import ROOT

sys.path.insert(0, str(ROOT / "tests" / "mutations"))
import plants  # noqa: E402

BUGS = plants.PLANTS


class MutationsTest(unittest.TestCase):
    def test_the_text_of_a_bug_occurs_once_in_its_file(self):
        wrong = []
        for name, _, file, text, _, _ in BUGS:
            path = ROOT / file
            source = path.read_text(encoding="utf-8") if path.is_file() else ""
            count = len(plants.places(text, source))
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

    def test_the_readme_has_the_rule_of_each_bug(self):
        readme = (ROOT / "tests/mutations/README.md").read_text(encoding="utf-8")
        rows = [line for line in readme.splitlines() if line.startswith("| ")][1:]
        self.assertEqual(rows, plants.table(), "tests/mutations/run --table")

    def test_another_layout_of_a_source_is_no_other_text(self):
        self.assertEqual(len(plants.places("  if (a)\n    b();\n", "x;\n if (a) b();\n")), 1)
        self.assertEqual(len(plants.places("f(a, b)", "f(a,\n      b) f(a, c)")), 1)

    def test_samples_of_some_weeks_have_each_bug(self):
        seen = {plant.name for seed in range(120) for plant in plants.sample(12, seed)}
        self.assertEqual(seen, {plant.name for plant in plants.PLANTS})
        self.assertEqual(plants.sample(12, 5), plants.sample(12, 5))

    def test_each_bug_has_its_own_name(self):
        names = [name for name, *_ in BUGS]
        self.assertEqual(sorted(names), sorted(set(names)))


if __name__ == "__main__":
    unittest.main()
