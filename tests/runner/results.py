# SPDX-License-Identifier: Apache-2.0
"""Counts of test cases, and what to say about those that did not pass."""


class Results:
    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self._details = []

    def add_pass(self, count=1):
        self.passed += count

    def add_failure(self, name, text="", count=1):
        self.failed += count
        self._details.append(f"FAILED {name}")
        print(f"FAILED {name}", flush=True)
        if text:
            print(indent(text), flush=True)

    def add_skip(self, name, reason, count=1):
        self.skipped += count
        self._details.append(f"SKIPPED {name}: {reason}")
        print(f"SKIPPED {name}: {reason}", flush=True)

    def print_details(self):
        """Repeats, at the end of a long output, what went wrong."""
        for line in self._details:
            print(line)

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def indent(text, lines=60):
    kept = text.rstrip().splitlines()[-lines:]
    return "\n".join("    " + line for line in kept)
