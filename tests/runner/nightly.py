# SPDX-License-Identifier: Apache-2.0
"""What runs at night: it costs much, and finds little more than the tests of each change. Each step
says why it is here."""
import subprocess
import sys

import builds
import linters
from progress import ROOT, Progress

SOAK_MINUTES = "60"
PLANTED_BUGS = "12"


def run_script(results, name, *arguments):
    command = [ROOT / "tests" / name, *arguments]
    with Progress(name):
        status = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode
    if status:
        results.add_failure(f"tests/{name}", f"exit status {status}: its output is above")
    else:
        results.add_pass()


def run_interop(results, _options):
    """A guest kernel with Soft-RoCE takes eight minutes to build on a new machine, and the tests
    another ten. What they find is how Linux differs; a change here rarely concerns that. On a
    machine that has the guest tests/run runs a short part."""
    sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "interop")]
    from guest import SCRIPTS
    if not (SCRIPTS / "build-guest.sh").exists():
        results.add_skip("interop", f"no rxe-lab in {SCRIPTS}")
        return
    run_script(results, "interop/run")


def run_asan(results, options):
    """All rooms: tests/run leaves out those that repeat what others do (builds.NIGHTLY_SUITES)."""
    options.long = True
    builds.run_asan(results, options)


def run_tidy(results, options):
    """All sources: ten minutes where clang-tidy has not read them yet. tests/run has it read what
    the last commit has changed; what it finds is how code reads, hardly ever a defect."""
    options.long = True
    linters.run_tidy(results, options)


def run_fuzz(results, _options):
    """Builds by clang, in its own directory, and runs each target for a minute. tests/run has
    random tests of the same targets, whose seeds are few."""
    run_script(results, "fuzz/run")


def run_soak(results, _options):
    """What grows with time alone."""
    run_script(results, "soak", "--minutes", SOAK_MINUTES)


def run_races(results, _options):
    """A daemon under ThreadSanitizer, whose threads lose their CPU at random points: ten minutes to
    build. What it finds is a race, which few other tests lose."""
    run_script(results, "races/run")


def run_mutations(results, _options):
    """Some of the planted bugs, other ones each day, must be found. It builds the tests once more,
    and again for each bug; what it finds is a test that has become blind."""
    run_script(results, "mutations/run", "--sample", PLANTED_BUGS)


STEPS = {"build": builds.build_release, "benches": builds.build_benches,
         "interop": run_interop, "asan": run_asan, "tidy": run_tidy, "fuzz": run_fuzz,
         "mutations": run_mutations, "races": run_races,
         "soak": run_soak}
