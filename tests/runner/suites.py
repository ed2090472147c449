# SPDX-License-Identifier: Apache-2.0
"""The tests written in Python: of the tree, and end to end."""
import os
import subprocess
import sys
import time
import unittest

from drivers import DriversOfPackage
from parallel import run_in_parallel
from progress import ROOT, Progress, cpu_seconds


class CountingResult(unittest.TestResult):
    """Tells Results what happens, and a reader how long each test took and how far all are."""

    def __init__(self, results, progress):
        super().__init__()
        self._results = results
        self._progress = progress
        self._begin = 0.0
        self._cpu = 0.0

    def startTest(self, test):
        super().startTest(test)
        self._begin = time.monotonic()
        self._cpu = cpu_seconds()
        self._progress.current = test.id()

    def stopTest(self, test):
        super().stopTest(test)
        self._progress.done += 1

    def addSuccess(self, test):
        self._results.add_pass()
        print(f"   ok {test.id()} ({time.monotonic() - self._begin:.1f} s, CPU "
              f"{cpu_seconds() - self._cpu:.1f} s)", flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._results.add_failure(test.id(), self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._results.add_failure(test.id(), self.errors[-1][1])

    def addSkip(self, test, reason):
        self._results.add_skip(test.id(), reason)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            super().addSubTest(test, subtest, err)
            self._results.add_failure(subtest.id(), (self.failures + self.errors)[-1][1])


def select(suite, pattern):
    """The tests of `suite` whose name holds `pattern`, in suites of their classes."""
    if isinstance(suite, unittest.TestCase):
        return suite if pattern in suite.id() else None
    chosen = [test for test in (select(member, pattern) for member in suite) if test]
    return unittest.TestSuite(chosen) if chosen else None


def find_tests(directory, pattern):
    """The chosen tests of a directory, in suites of their classes, or None."""
    sys.path.insert(0, str(directory))
    suite = unittest.TestLoader().discover(str(directory), "*_test.py", str(directory))
    return select(suite, pattern)


def run_directory(results, directory, pattern=""):
    if chosen := find_tests(directory, pattern):
        with Progress(f"tests in {directory.name}", chosen.countTestCases()) as progress:
            chosen.run(CountingResult(results, progress))


def add_to_groups(groups, suite):
    """Puts tests into groups, suites by their names, of which no two tests may run at a time: those
    of a class, and of classes that share something of the machine and say so."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            add_to_groups(groups, test)
        else:
            name = f"{type(test).__module__}.{type(test).__qualname__}"
            group = getattr(test, "shares", name)
            groups.setdefault(group, unittest.TestSuite()).addTest(test)


def run_tree(results, _options):
    run_directory(results, ROOT / "tests" / "tree")


def run_packaging(results, options):
    """The slow part builds packages in chroots, and an image of them: scripts, on demand."""
    run_directory(results, ROOT / "tests" / "packaging", options.pattern)
    if not options.long:
        results.add_skip("packaging/chroot", "packages are built with --long: two hours")
        results.add_skip("packaging/container", "an image of the packages is built with --long")
        return
    for script in ("chroot bookworm", "chroot trixie", "chroot arm64", "chroot archive",
                   "container"):
        words = script.split()
        done = subprocess.run([ROOT / "tests" / "packaging" / words[0], *words[1:]],
                              stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            results.add_failure(f"packaging/{script}", "see its output above")
        else:
            results.add_pass()


def run_e2e(results, options):
    if os.geteuid() != 0:
        results.add_skip("e2e", "needs root: network namespaces and packet sockets")
        return
    if options.long:
        os.environ["UROCE_E2E_LONG"] = "1"
    chosen = find_tests(ROOT / "tests" / "e2e", options.pattern)
    if not chosen:
        return
    with Progress("tests in e2e", chosen.countTestCases()) as progress:
        if options.jobs == 1:
            run_group(chosen, results, progress)
            return
        groups = {}
        add_to_groups(groups, chosen)
        drivers = DriversOfPackage(ROOT / "build" / "e2e-drivers")
        run_in_parallel(results, progress, groups, options.jobs, drivers.use, run_group,
                        ROOT / "build" / "e2e-seconds")


def run_group(suite, results, progress):
    suite.run(CountingResult(results, progress))
