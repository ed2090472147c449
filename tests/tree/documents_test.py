# SPDX-License-Identifier: Apache-2.0
"""Reads documents as their readers see them: READMEs of modules, tables, long lines, words."""
import re
import subprocess
import unittest

from tree_test import ROOT, listed_modules, read, tracked

WORDS = "tests/tree/words.txt"
# What each README of a module says, below its title.
SAYS = ("Entry point", "Threads: ", "Not here: ")
MOST_LINES = 30  # Of a README of a module, before its first section.
MOST_CELL = 200  # Characters in a cell of a table.
MOST_OWN_WORDS = 20


def prose(name):
    """(number, line) of a document without fenced blocks and tables."""
    is_code = False
    for number, line in enumerate(read(name).splitlines(), 1):
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("|"):
            yield number, line


def cells(name):
    for number, line in enumerate(read(name).splitlines(), 1):
        if line.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line):
                yield number, cell.strip()


def words():
    """The files that are checked, and (pattern, better words)."""
    files, patterns = [], []
    for line in read(WORDS).splitlines():
        if line.startswith("files "):
            files += subprocess.run(
                ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others",
                 "--exclude-standard", line.removeprefix("files ")],
                cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
        elif line and not line.startswith("#"):
            word, better = line.split(" -> ")
            patterns.append((re.compile(rf"\b(?:{word})\b", re.I), better))
    return [name for name in files if (ROOT / name).exists()], patterns


class DocumentsTest(unittest.TestCase):
    def assert_nothing(self, found):
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_every_module_has_a_readme_of_its_own(self):
        _, modules, _ = listed_modules()
        found = []
        for module in sorted(modules):
            name = f"{module}/README.md"
            if not (ROOT / name).exists():
                found.append(f"{name} is missing")
                continue
            head = read(name).partition("\n## ")[0]
            lines = head.splitlines()
            if lines[0] != f"# {module}":
                found.append(f"{name}: its title is not {module}")
            if len(lines) > MOST_LINES:
                found.append(f"{name}: {len(lines)} lines before its first section")
            found += [f"{name} does not say: {word}" for word in SAYS
                      if not any(line.startswith(word) for line in lines)]
        self.assert_nothing(found)

    def test_readmes_of_modules_name_code_that_exists(self):
        """Names of several words, such as `WorkQueues`; lower-case names are files or commands."""
        known = set()
        for name in tracked(".h", ".cc", ".c"):
            known |= set(re.findall(r"\w+", read(name)))
        found = []
        for module in sorted(listed_modules()[1]):
            for quoted in re.findall(r"`([^`\n]+)`", read(f"{module}/README.md")):
                found += [f"{module}/README.md: {name}"
                          for name in re.findall(r"\b[A-Z][a-z]\w*[A-Z]\w*", quoted)
                          if name not in known]
        self.assert_nothing(found)

    def test_programs_that_work_are_run_by_tests_that_exist(self):
        known = {name.rpartition("/")[2] for name in tracked("_test.py")}
        self.assert_nothing([name for name in re.findall(r"\b\w+_test\.py", read(
            "docs/works-with.md")) if name not in known])

    def test_cells_of_readmes_are_short(self):
        self.assert_nothing([f"{name}:{number}: {len(cell)} characters"
                             for name in tracked("README.md") for number, cell in cells(name)
                             if len(cell) > MOST_CELL])

    def test_documents_fit_one_hundred_and_twenty_columns(self):
        """But for commands, which a reader copies whole, and links."""
        self.assert_nothing([f"{name}:{number}: {len(line)}" for name in tracked(".md")
                             for number, line in prose(name)
                             if len(line) > 120 and not line.startswith("    ")])

    def test_sentences_begin_with_a_named_thing(self):
        """At the start of a paragraph, of an item and behind a full stop."""
        pattern = re.compile(r"(?:\A|\n\n|\n- |[.!?]\s)((?:What|Who|Whoever|Those that)\s\w+)")
        found = []
        for name in words()[0]:
            text = "\n".join(line.strip() for _, line in prose(name) if not line.startswith("#"))
            found += [f"{name}: {match[1]}" for match in pattern.finditer(text)]
        self.assert_nothing(found)

    def test_the_glossary_is_short(self):
        rows = [line for line in read("docs/GLOSSARY.md").splitlines() if line.startswith("| ")]
        self.assertLessEqual(len(rows) - 1, MOST_OWN_WORDS)

    def test_words_that_do_not_come_back(self):
        files, patterns = words()
        self.assertTrue(files)
        found = []
        for name in files:
            # A phrase may continue on the next line.
            text = re.sub(r"[ \t]*\n[ \t]*", "\n", read(name))
            for pattern, better in patterns:
                spaced = re.compile(pattern.pattern.replace(" ", r"\s"), re.I)
                found += [f"{name}: \"{match[0]}\": {better}" for match in spaced.finditer(text)]
        self.assert_nothing(found)


if __name__ == "__main__":
    unittest.main()
