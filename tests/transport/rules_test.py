# SPDX-License-Identifier: Apache-2.0
"""Which test proves which rule: every rule of the lists has a test, and every test's rules exist.

usage: rules_test.py OUTPUT TEST_PROGRAM...   (writes the list to OUTPUT)"""
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
LISTS = [HERE / "rules.txt", TESTS / "datapath/rules.txt", TESTS / "nic/cm/rules.txt",
         TESTS / "congestion/rules.txt", TESTS / "tools/sim/rules.txt"]
SOURCES = [source for room in ["transport", "wire", "golden", "datapath", "nic/cm", "congestion",
                              "networks", "tools/sim"]
           for source in (TESTS / room).rglob("*_test.cc")]
TEST = re.compile(r"((?://.*\n)+)TEST(?:_F|_P)?\((\w+), (\w+)\)")
IDS = re.compile(r"// \[([\w.\s-]+)\]")


def read_rules():
    rules = {}
    for line in "".join(path.read_text(encoding="utf-8") for path in LISTS).splitlines():
        if line and not line.startswith("#"):
            name, text = line.split(None, 1)
            if name in rules:
                sys.exit(f"rules.txt: {name} stands twice")
            rules[name] = text
    return rules


def read_tests():
    """[(test, its rules)]"""
    tests = []
    for source in sorted(SOURCES):
        for comment, suite, name in TEST.findall(source.read_text(encoding="utf-8")):
            ids = IDS.match(comment)
            if ids:
                tests.append((f"{suite}.{name}", ids[1].split()))
    return tests


def list_built(programs):
    """Tests that the programs hold and do not skip."""
    built, suite = set(), ""
    for program in programs:
        text = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True,
                              check=True).stdout
        for line in text.splitlines():
            # Tests with parameters stand as Instance/Suite.Name/0.
            if line.startswith("  "):
                built.add(suite + line.split()[0].split("/")[0])
            else:
                suite = line.split("#")[0].strip().split("/")[-1]
    return {name for name in built if "DISABLED_" not in name}


def main(output, *programs):
    rules, tests, built = read_rules(), read_tests(), list_built(programs)
    proofs = {rule: [] for rule in rules}
    problems = []
    for test, ids in tests:
        if test not in built:
            problems.append(f"{test} is in no test program")
        for rule in ids:
            if rule in proofs:
                proofs[rule].append(test)
            else:
                problems.append(f"{test} names {rule}, which is no rule")
    problems += [f"{rule} has no test: {rules[rule]}" for rule, found in proofs.items()
                 if not found]
    lines = [f"{rule:22} {' '.join(found)}" for rule, found in proofs.items()]
    Path(output).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(rules)} rules, {len(tests)} tests that name some: {output}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
