# SPDX-License-Identifier: Apache-2.0
"""The same transfers by root, and in a sandbox like a container's (tests/e2e/programs/sandbox.c),
in turn on the same machine: medians, and the ratio of the two."""
import argparse
import os
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from labs.lab import BUILD, WireLab  # noqa: E402
from labs.process import run  # noqa: E402
from labs.programs import perftest  # noqa: E402
from labs.sandbox_lab import SandboxLab  # noqa: E402

SANDBOX = BUILD / "tests" / "e2e" / "sandbox"
# What is measured, by which tool, and in which column of its rows.
BANDWIDTH, RATE, TYPICAL = 3, 4, 4
CASES = {
    "64 KB WRITEs, Gb/s": (("ib_write_bw", "-s", "65536", "--report_gbits"), BANDWIDTH),
    "64 B WRITEs, M/s": (("ib_write_bw", "-s", "64", "--report_gbits"), RATE),
    "ib_send_lat 2 B, us": (("ib_send_lat", "-s", "2"), TYPICAL),
    "ib_write_lat 2 B, us": (("ib_write_lat", "-s", "2"), TYPICAL),
}


def measure(lab, name, seconds):
    """One run of a case. Latencies are by a number of iterations: by time perftest tells averages
    alone."""
    (tool, *flags), column = CASES[name]
    length = ("-D", seconds) if tool.endswith("bw") else ("-n", 20000)
    return perftest(lab, tool, *flags, *length, timeout_s=seconds + 120)[-1][column]


def measure_here(lab_class, name, seconds):
    lab = lab_class()
    try:
        return measure(lab, name, seconds)
    finally:
        lab.close()


def measure_inside(name, seconds, setting):
    text = run([SANDBOX, "env", setting, "python3", "-W", "ignore", "-B", __file__,
                "--inside", name, "--seconds", seconds], seconds + 180)
    return float(text.split()[-1])


def compare(cases, rounds, seconds, copied):
    print(f"by root and in a sandbox, {rounds} rounds in turn of {seconds} s each")
    for name in cases:
        found = {"root": [], "sandbox": []} | ({"copied": []} if copied else {})
        for _ in range(rounds):
            found["root"].append(measure_here(WireLab, name, seconds))
            found["sandbox"].append(measure_inside(name, seconds, "UROCE_MR="))
            if copied:
                found["copied"].append(measure_inside(name, seconds, "UROCE_MR=copied"))
        root = statistics.median(found["root"])
        print(f"  {name}")
        for where, values in found.items():
            median = statistics.median(values)
            print(f"    {where:10}{median:9.2f}   ratio {median / root:6.2f}   "
                  f"({' '.join(f'{value:.2f}' for value in values)})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--case", choices=list(CASES), action="append", help="leave others out")
    parser.add_argument("--copied", action="store_true", help="in the sandbox by copies, too")
    parser.add_argument("--inside", help="measure one case here and print it")
    arguments = parser.parse_args()
    if arguments.inside:
        print(measure_here(SandboxLab, arguments.inside, arguments.seconds))
    else:
        compare(arguments.case or list(CASES), arguments.rounds, arguments.seconds,
                arguments.copied)


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
