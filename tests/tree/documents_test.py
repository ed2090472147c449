# SPDX-License-Identifier: Apache-2.0
"""Reads documents as their readers see them: READMEs of modules, tables, long lines, words."""
import re
import unittest

import works_with
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
    """(pattern, better words)."""
    return [(re.compile(rf"\b(?:{word})\b".replace(" ", r"\s+"), re.I), better)
            for word, better in (line.split(" -> ") for line in read(WORDS).splitlines()
                                 if line and not line.startswith("#"))]


def plain(text):
    """Without the marks of comments, and with names as words."""
    text = re.sub(r"[ \t]*\n[ \t]*(?:(?://[/<]*|#|\*)[ \t])?[ \t]*", "\n", text)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_", " ", text)


def texts():
    """(name, text) of all files."""
    for name in tracked(""):
        try:
            yield name, plain(read(name))
        except UnicodeDecodeError:
            continue


class DocumentsTest(unittest.TestCase):
    def assert_nothing(self, found):
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_every_module_has_its_own_readme(self):
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
        self.assert_nothing(list(works_with.faults()))

    def test_the_page_of_programs_is_made_of_its_data(self):
        self.assertEqual(read(works_with.PAGE), works_with.page(),
                         "python3 tests/tree/works_with.py writes the page")

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
        pattern = re.compile(r"(?:\A|\n\n|\n- |[.!?]\s)((?:What|Who|Those that)\s\w+)")
        found = []
        for name in tracked(".md", ".scd"):
            text = "\n".join(line.strip() for _, line in prose(name) if not line.startswith("#"))
            found += [f"{name}: {match[1]}" for match in pattern.finditer(text)]
        self.assert_nothing(found)

    def test_the_glossary_is_short(self):
        rows = [line for line in read("docs/GLOSSARY.md").splitlines() if line.startswith("| ")]
        self.assertLessEqual(len(rows) - 1, MOST_OWN_WORDS)

    def test_words_that_do_not_come_back(self):
        patterns = words()
        self.assertTrue(patterns)
        self.assert_nothing([f"{name}: \"{match[0]}\": {better}"
                             for name, text in texts()
                             if name not in (WORDS, "tests/tree/documents_test.py")
                             for pattern, better in patterns for match in pattern.finditer(text)])

    def test_words_are_found_in_names_and_across_lines(self):
        patterns = [pattern for pattern, _ in words()]
        for text in ("NobodyWaits", "a_stranger_s_fd", "x.\n/// It has one of\n/// its own."):
            with self.subTest(text):
                self.assertTrue(any(pattern.search(plain(text)) for pattern in patterns))
        for text in ("AHeadHasNoBody", "ForEveryFrame", "runs as the user nobody"):
            with self.subTest(text):
                self.assertFalse(any(pattern.search(plain(text)) for pattern in patterns))


if __name__ == "__main__":
    unittest.main()
