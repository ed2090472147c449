# SPDX-License-Identifier: Apache-2.0
"""Counts of test cases, and what to say about those that did not pass."""
import re

# How to have tests run that were skipped for a reason: the first pattern that is found in it.
REMEDIES = (
    (r"tests/nightly", "sudo tests/nightly"),
    (r"--long", "sudo tests/run STEP --long"),
    (r"\bneeds? (it )?root|\b(un)?less root|only root|without root", "sudo tests/run"),
    (r"huge pages", "echo 64 | sudo tee /proc/sys/vm/nr_hugepages"),
    (r"FUSE", "sudo modprobe fuse, or a machine with /dev/fuse"),
    (r"UDP port 4791", "end the daemon or rdma_rxe that has the port"),
    (r"rxe-lab|guest", "tests/interop/README.md says what is needed"),
    (r"its own sanitizer", "tests/run e2e with the release build in build/"),
    (r"kernel|Linux \d|here$|userfaultfd|io_uring", "another machine: its kernel or container "
                                                    "lacks this"),
    (r"^(there is )?no [\w./-]+", "sudo tools/install-packages test; build/ is configured again by "
                                  "itself then"),
)
# A reason may end with the command that helps, of the tree or of Debian.
NAMED_COMMAND = re.compile(r"(?:^|: )((?:(?:tools|tests)/\S+|apt-get install)(?: [\w.+-]+)*)$")
NAMES_SHOWN = 3


def remedy_of(reason):
    if named := NAMED_COMMAND.search(reason):
        return f"sudo {named[1]}"
    return next((remedy for pattern, remedy in REMEDIES if re.search(pattern, reason)), "")


class Results:
    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self._failures = []
        self._skips = {}  # Names by their reason.

    def add_pass(self, count=1):
        self.passed += count

    def add_failure(self, name, text="", count=1):
        self.failed += count
        self._failures.append(name)
        print(f"FAILED {name}", flush=True)
        if text:
            print(indent(text), flush=True)

    def add_skip(self, name, reason, count=1):
        self.skipped += count
        self._skips.setdefault(reason, []).append(name)
        print(f"SKIPPED {name}: {reason}", flush=True)

    def print_details(self):
        """Says, at the end of a long output, what was skipped, why, and how to have it run; and
        what went wrong."""
        for reason, names in sorted(self._skips.items(), key=lambda item: -len(item[1])):
            print(f"SKIPPED {len(names)}: {reason}")
            if remedy := remedy_of(reason):
                print(f"    to have them run: {remedy}")
            more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
            print(f"    {', '.join(names[:NAMES_SHOWN])}{more}")
        for name in self._failures:
            print(f"FAILED {name}")

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def indent(text, lines=60):
    kept = text.rstrip().splitlines()[-lines:]
    return "\n".join("    " + line for line in kept)
