# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of tests/run or of tests/nightly and counts what they did."""
import argparse
import os
import sys
import time

import builds
import linters
import nightly
import suites
from progress import cpu_seconds
from results import Results

STEPS = {
    "format": linters.check_format,
    "build": builds.build_release,
    "tree": suites.run_tree,
    "unit": builds.run_unit,
    "packaging": suites.run_packaging,
    "e2e": suites.run_e2e,
    "asan": builds.run_asan,
    "tsan": builds.run_tsan,
    "tidy": linters.run_tidy,
}
# Steps that run what "build" makes. UROCE_BUILD names a directory that the caller builds.
RUN_THE_BUILD = {"packaging", "e2e"}


def parse(arguments):
    steps = nightly.STEPS if "--nightly" in arguments else STEPS
    parser = argparse.ArgumentParser(
        prog="tests/nightly" if steps is nightly.STEPS else "tests/run", description=__doc__)
    parser.add_argument("steps", nargs="*", metavar="STEP",
                        help="one of " + ", ".join(steps) + "; default: all")
    parser.add_argument("--nightly", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-k", dest="pattern", default="",
                        help="only end-to-end tests whose name holds this")
    parser.add_argument("-j", dest="jobs", type=int, default=0,
                        help="end-to-end tests at a time; default: two for each CPU, eight at "
                             "most, and with --long one")
    parser.add_argument("--long", action="store_true",
                        help="end-to-end tests at full length, AddressSanitizer in all rooms, "
                             "clang-tidy on all sources")
    options = parser.parse_args(arguments)
    options.jobs = options.jobs or (1 if options.long
                                    else min(2 * len(os.sched_getaffinity(0)), 8))
    unknown = [step for step in options.steps if step not in steps]
    if unknown:
        parser.error(f"unknown step {unknown[0]}")
    if RUN_THE_BUILD.intersection(options.steps) and "UROCE_BUILD" not in os.environ:
        options.steps.append("build")  # Steps run in the order of STEPS.
    return steps, options


def main(arguments):
    steps, options = parse(arguments)
    os.environ.setdefault("CCACHE_NOHASHDIR", "1")  # What one clone has built others need not.
    results = Results()
    for name, step in steps.items():
        if options.steps and name not in options.steps:
            continue
        print(f"== {name}", flush=True)
        begin, cpu = time.monotonic(), cpu_seconds()
        blocked = step(results, options) is False
        print(f"== {name}: {time.monotonic() - begin:.0f} s, CPU {cpu_seconds() - cpu:.0f} s, "
              f"so far {results}", flush=True)
        if blocked:
            break  # Nothing behind it could run.
    results.print_details()
    print(results)
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
