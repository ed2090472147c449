# SPDX-License-Identifier: Apache-2.0
"""Makes docs/works-with.md from docs/works-with.toml.

usage: python3 tests/tree/works_with.py    (writes the page)"""
import tomllib

from tree_test import ROOT, read, tracked

DATA = "docs/works-with.toml"
PAGE = "docs/works-with.md"
HEAD = """# Works with

Programs that were run on uroce. Versions are those of Debian 12, unless the table says
otherwise. "Test" names the file in `tests/e2e` that runs the program at each `tests/run e2e`;
"long" marks tests that `--long` adds. `tests/tree/works_with.py` makes this page of
`docs/works-with.toml`.
"""


def data():
    return tomllib.loads(read(DATA))


def table(heads, rows):
    lines = ["| " + " | ".join(row) + " |" for row in (heads, *rows)]
    lines.insert(1, "|" + "---|" * len(heads))
    return "\n".join(lines) + "\n"


def source_of(row):
    if "source" in row:
        return row["source"]
    return (", ".join(f"`{test}`" for test in row["tests"]) + (" (long)" if row.get("long") else "")
            + (f", {row['where']}" if "where" in row else ""))


def page():
    rows = data()
    programs = [(row["name"], row["version"], row["ran"], source_of(row))
                for row in rows["program"]]
    troubles = [(row["program"], row["trouble"], row["helps"]) for row in rows["trouble"]]
    return (HEAD + "\n" + table(("program", "version", "what was run", "test"), programs)
            + "\n## Known trouble\n\n"
            + table(("program", "trouble", "what helps"), troubles))


def faults():
    """Rows whose tests do not exist, or start no such program: neither they nor the labs."""
    tests = {name.rpartition("/")[2]: name for name in tracked("_test.py")
             if name.startswith("tests/e2e/")}
    labs = "".join(read(name) for name in tracked(".py") if name.startswith("tests/e2e/labs/"))
    for row in data()["program"]:
        if ("tests" in row) == ("source" in row):
            yield f"{row['name']}: either tests or a source"
            continue
        missing = [test for test in row.get("tests", ()) if test not in tests]
        yield from (f"{row['name']}: {test} is not there" for test in missing)
        if not missing:
            text = labs + "".join(read(tests[test]) for test in row.get("tests", ()))
            yield from (f"{row['name']}: no test has {command}"
                        for command in row.get("commands", ()) if command not in text)


if __name__ == "__main__":
    (ROOT / PAGE).write_text(page(), encoding="utf-8")
