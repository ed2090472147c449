# SPDX-License-Identifier: Apache-2.0
"""A line each minute that says how far a step is, and commands that count what they do."""
import re
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INTERVAL_S = 60
# Of ninja ("[12/618] Compiling ...") and of meson test ("12/90 uroce:wire / wire  OK").
COUNT = re.compile(r"^\[?\s*(\d+)/(\d+)[\] ]")


def cpu_seconds():
    """What this process and those that it has waited for have computed."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(its.ru_utime + its.ru_stime for its in used)


class Progress:
    """Prints a line each minute while its body runs. `done` of `total` things are over; `current`
    is what runs. The body sets them."""

    def __init__(self, what, total=0):
        self.what = what
        self.done = 0
        self.total = total
        self.current = ""
        self._begin = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()

    def _tell(self):
        while not self._is_over.wait(INTERVAL_S):
            print(f"   .. {self}", flush=True)

    def __str__(self):
        minutes = (time.monotonic() - self._begin) / 60
        count = f"{self.done} of {self.total}, " if self.total else ""
        current = f", at {self.current}" if self.current else ""
        return f"{self.what}: {count}for {minutes:.0f} min{current}"


def run_with_progress(what, command, env=None):
    """Runs a command that counts what it does. On a terminal its own lines are seen, otherwise one
    line each minute. Returns (exit status, what it said)."""
    options = {"cwd": ROOT, "stdin": subprocess.DEVNULL, "env": env}
    command = [str(word) for word in command]
    if sys.stdout.isatty():
        sys.stdout.flush()
        return subprocess.run(command, check=False, **options).returncode, "see above"
    lines = []
    with Progress(what) as progress, subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", **options) as process:
        for line in process.stdout:
            lines.append(line)
            if count := COUNT.match(line):
                progress.done, progress.total = map(int, count.groups())
    return process.returncode, "".join(lines)
