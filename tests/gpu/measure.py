# SPDX-License-Identifier: Apache-2.0
"""Runs memory_kinds, staged_bandwidth and NCCL with private daemons, and prints their tables. Takes
at most five minutes. Exit status 1: something is wrong; 3: there is no GPU."""
import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bundle
import nccl_ranks

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("UROCE_BUILD", "build")
UROCE = BUILD / "tools" / "uroce"
PROGRAMS = BUILD / "tests" / "gpu"
NO_GPU = 3
LIMITS_S = {"memory_kinds": 100, "staged_bandwidth": 40, "nccl": 50}
END = time.monotonic() + 290


def private(*words, driver, limit_s):
    """Runs a program with its own daemon; ends all of its processes when the time is over."""
    settings = []
    if driver == "test":
        paths = [str(PROGRAMS), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        settings = [f"LD_LIBRARY_PATH={':'.join(paths)}"]
    command = [UROCE, "run", "--private", "--only", "--", "env", *settings, *words]
    limit_s = max(1, min(limit_s, END - time.monotonic()))
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                          start_new_session=True) as process:
        try:
            texts = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            texts = process.communicate()
            return subprocess.CompletedProcess(command, -1, texts[0],
                                               f"{texts[1]}longer than {limit_s:.0f} s")
    return subprocess.CompletedProcess(command, process.returncode, *texts)


def describe(done):
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return f"status {done.returncode}: " + " / ".join(lines[-5:])


def machine(driver):
    gpu = "the driver for tests"
    if driver != "test":
        query = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version",
                                "--format=csv,noheader"], capture_output=True, text=True,
                               check=False) if has_program("nvidia-smi") else None
        gpu = query.stdout.strip().replace("\n", "; ") if query else "GPU of unknown name"
    return (f"{gpu}; {len(os.sched_getaffinity(0))} CPUs, Linux {platform.release()}, "
            f"load {os.getloadavg()[0]:.1f}")


def has_program(name):
    return any(os.access(os.path.join(path, name), os.X_OK)
               for path in os.environ.get("PATH", "").split(":"))


def measure_kinds(driver):
    """The status and the text of memory_kinds, without a line for each cell."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "cells.json"
        done = private(PROGRAMS / "memory_kinds", "--json", path, driver=driver,
                       limit_s=LIMITS_S["memory_kinds"])
        if done.returncode not in (0, 1):
            return done, []
        return done, json.loads(path.read_text(encoding="utf-8"))


def kinds_rows(cells):
    """A row for each kind of memory and order of calls."""
    rows = {}
    for cell in cells:
        rows.setdefault((cell["memory"], cell["order"]), []).append(cell)
    for (memory, order), its in rows.items():
        right = sum(cell["verdict"] == "right" for cell in its)
        others = "; ".join(f"{cell['what']}: {cell['verdict']}, {cell['why']}" for cell in its
                           if cell["verdict"] != "right")
        yield f"{memory}: {order}", f"{right} of {len(its)} right", others


def bandwidth_rows(driver):
    done = private(PROGRAMS / "staged_bandwidth", "uroce0", "uroce1", 1 << 20, 2, driver=driver,
                   limit_s=LIMITS_S["staged_bandwidth"])
    if done.returncode:
        yield "1 MB messages", "FAILED", describe(done)
        return
    for line in done.stdout.splitlines():
        name, gbps = line.rsplit(" ", 1)
        yield f"1 MB {name}", f"{gbps} Gb/s", ""


def nccl_rows(driver):
    """A row for each operation and size, with the bus bandwidth by each network."""
    if driver == "test":
        yield "NCCL", "not run", "the driver for tests executes no kernels"
        return
    if reason := nccl_ranks.missing():
        yield "NCCL", "not run", reason
        return
    cells, notes = {}, []
    for net in nccl_ranks.NETS:
        done = private(sys.executable, "-B", nccl_ranks.__file__, net, driver=driver,
                       limit_s=LIMITS_S["nccl"])
        results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for result in results:
            if "note" in result:
                notes.append(f"{net}: {result['note']}")
            else:
                cells.setdefault((result["operation"], result["bytes"]), {})[net] = result
        if done.returncode:
            yield f"NCCL by {net}", "FAILED", describe(done)
    for (operation, size), by_net in cells.items():
        texts = [f"{net} {by_net[net]['busbw_gbps']:.2f} ({by_net[net]['seconds'] * 1e6:.0f} us)"
                 for net in nccl_ranks.NETS if net in by_net]
        wrong = [net for net, result in by_net.items() if not result["right"]]
        yield (f"NCCL {operation}, {size} B", ", ".join(texts) + " Gb/s of the bus",
               f"WRONG by {', '.join(wrong)}" if wrong else "")
    for note in notes:
        yield "NCCL", "says", note


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, prog="tests/gpu/run")
    parser.add_argument("--driver", choices=("machine", "test"), default="machine",
                        help="test: the driver for tests, without NCCL")
    parser.add_argument("--bundle", type=Path, metavar="DIRECTORY",
                        help="measure nothing: make a folder that runs on another machine")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    if options.bundle:
        return bundle.make(ROOT, options.bundle)
    done, cells = measure_kinds(options.driver)
    if done.returncode == NO_GPU:
        print(done.stdout.strip().splitlines()[-1])
        return NO_GPU
    print(f"## Memory of GPUs through uroce: {machine(options.driver)}\n\n| what | found | |\n"
          "|---|---|---|", flush=True)
    bad = done.returncode != 0
    if not cells:
        print(f"| memory_kinds | FAILED | {describe(done)} |", flush=True)
    for rows in (kinds_rows(cells), bandwidth_rows(options.driver), nccl_rows(options.driver)):
        for row in rows:
            bad = bad or row[1] == "FAILED" or row[2].startswith("WRONG")
            print("| " + " | ".join(text.replace("|", "/") for text in row) + " |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
