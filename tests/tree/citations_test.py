# SPDX-License-Identifier: Apache-2.0
"""Reads what comments and documents cite: files of the tree, and sections of docs/protocol."""
import os
import re
import unittest

from tree_test import ROOT, read, tracked

PROTOCOL = "docs/protocol/"
TEXTS = (".h", ".cc", ".c", ".py", ".build", ".md", "/rules.txt", "/run")
SOURCES = (".h", ".cc", ".c", ".py")
# Names that begin within quotes or in <> are strings, patterns and headers of the system; one
# behind a slash is the end of a longer name.
CITED = re.compile(r"""(?<![\w/.*<"'}-])[\w-][\w./*-]*\w""")
EXTENSION = re.compile(r"\.(h|cc|c|md)$")
FILE_OR_TEST = re.compile(r"(\.(h|cc|c|md)|_test)$")
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include .*", re.M)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
# The marks that open a line of a comment, so that a citation may continue on the next line.
LINE_BREAK = re.compile(r"[ \t]*\n[ \t]*(?:///?<?|#|\*(?= ))?[ \t]*")
NUMBERS = r"\d+(?:\.\d+)*(?:(?:,| and| to) \d+(?:\.\d+)*\b)*"
SECTION = re.compile(r"([\w/-]+\.md)(,? sections? (" + NUMBERS + r"))?")
OWN_SECTION = re.compile(r"(?<!\.md)(?<!\.md,) [Ss]ections? (" + NUMBERS + ")")
HEADING = re.compile(r"^#+ (\d+(?:\.\d+)*)\.? ", re.M)


def folders_of(names):
    """Every folder that holds one of `names`, at any depth."""
    found = set()
    for name in names:
        while name := os.path.dirname(name):
            found.add(name)
    return found


FILES = set(tracked(""))
FOLDERS = folders_of(FILES)
FOLDER_NAMES = {os.path.basename(folder) for folder in FOLDERS}
SUFFIXES = ("", ".h", ".cc", ".c", ".py", ".md")
TOPS = {folder for folder in FOLDERS if "/" not in folder}
BASENAMES = {os.path.basename(name) for name in FILES}


def exists(path):
    """A file, a folder, a module (`nic/settings/flags`), several files (`tests/e2e/*/*_test.py`),
    or a test by its place in tests/ (`e2e/isolation/limits_test`)."""
    if "*" in path:
        return any(ROOT.glob(path))
    return any(where in FOLDERS or any(where + suffix in FILES for suffix in SUFFIXES)
               for where in (path, "tests/" + path))


def is_right(cited, name):
    """Whether `cited`, a word in file `name`, names something of the tree, or nothing of it: what
    begins with no folder of the tree belongs to another project."""
    first = cited.partition("/")[0]
    here = os.path.normpath(os.path.join(os.path.dirname(name), cited))
    if cited.endswith(".md"):  # Of a document the whole path, but of one beside it.
        return cited in FILES or here in FILES
    if "/" not in cited:
        return not EXTENSION.search(cited) or cited in BASENAMES or "*" in cited
    beside = os.path.join(os.path.dirname(name), first) in FOLDERS
    is_ours = first in TOPS or beside or (first in FOLDER_NAMES and FILE_OR_TEST.search(cited))
    return exists(cited) or exists(here) if is_ours else True


def headings(name):
    return set(HEADING.findall(read(name)))


def numbers_in(text):
    return re.findall(r"\d+(?:\.\d+)*", text or "")


class CitationsTest(unittest.TestCase):
    def assert_nothing(self, found):
        self.assertFalse(found, "\n" + "\n".join(found))

    def texts(self):
        for name in tracked(*TEXTS):
            yield name, INCLUDE.sub("", read(name))

    def test_files_that_are_cited_exist(self):
        self.assert_nothing([f"{name}:{number}: {cited}" for name, text in self.texts()
                             for number, line in enumerate(text.splitlines(), 1)
                             for cited in CITED.findall(line) if not is_right(cited, name)])

    def test_links_of_documents_lead_somewhere(self):
        self.assert_nothing([f"{name}: {link}" for name in tracked(".md")
                             for link in LINK.findall(read(name))
                             if not (ROOT / os.path.dirname(name) / link).exists()])

    def test_sections_of_the_protocol_that_are_cited_exist(self):
        found = []
        for name, text in self.texts():
            for document, section, cited in SECTION.findall(LINE_BREAK.sub(" ", text)):
                if name.startswith(PROTOCOL):
                    document = os.path.join(PROTOCOL, os.path.basename(document))
                if not document.startswith(PROTOCOL) or document not in FILES:
                    continue
                if name.endswith(SOURCES) and not section:
                    found.append(f"{name}: {document}: which section?")
                found += [f"{name}: {document}, section {number}" for number in numbers_in(cited)
                          if number not in headings(document)]
        self.assert_nothing(found)

    def test_sections_that_the_protocol_cites_of_itself_exist(self):
        self.assert_nothing([f"{name}: section {number}" for name in tracked(".md")
                             if name.startswith(PROTOCOL)
                             for cited in OWN_SECTION.findall(LINE_BREAK.sub(" ", read(name)))
                             for number in numbers_in(cited) if number not in headings(name)])


if __name__ == "__main__":
    unittest.main()
