# SPDX-License-Identifier: Apache-2.0
"""Groups of end-to-end tests in several processes at a time. Most of them wait for programs more
than they compute, and each has its own namespaces and daemons."""
import json
import multiprocessing
import queue
import sys
import time

FIRST_PORT = 20000
PORTS_OF_A_WORKER = 3000  # Of TCP, below those that the kernel gives away.


class Events:
    """Stands for Results and Progress in a worker: the main process is told by a queue."""

    def __init__(self, events):
        self._events = events
        self._done = 0

    def _tell(self, *event):
        self._events.put(event)

    def add_pass(self, count=1):
        self._tell("add_pass", count)

    def add_failure(self, name, text="", count=1):
        self._tell("add_failure", name, text, count)

    def add_skip(self, name, reason, count=1):
        self._tell("add_skip", name, reason, count)

    @property
    def done(self):
        return self._done

    @done.setter
    def done(self, count):
        self._done = count
        self._tell("done")

    @property
    def current(self):
        return ""

    @current.setter
    def current(self, name):
        self._tell("current", name)


def work(number, names, groups, prepare, run_group, events, following):
    """Takes one group after the other, until there are no more."""
    prepare()
    if "labs.lab" in sys.modules:
        sys.modules["labs.lab"].use_ports_from(FIRST_PORT + number * PORTS_OF_A_WORKER)
    told = Events(events)
    while True:
        with following.get_lock():
            place = following.value
            following.value += 1
        if place >= len(names):
            return
        begin = time.monotonic()
        run_group(groups[names[place]], told, told)
        events.put(("seconds", names[place], time.monotonic() - begin))


def read_seconds(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def run_in_parallel(results, progress, groups, jobs, prepare, run_group, record):
    """Runs `groups`, suites by their names, those that took longest before first. Each process
    calls `prepare` before. `record` is the file that says how long they take."""
    seconds = read_seconds(record)
    names = sorted(groups, key=lambda name: -seconds.get(name, 0))
    context = multiprocessing.get_context("fork")
    events, following = context.Queue(), context.Value("i", 0)
    workers = [context.Process(target=work, daemon=True, args=(
        number, names, groups, prepare, run_group, events, following)) for number in range(jobs)]
    for worker in workers:
        worker.start()
    are_over = False
    while True:
        try:
            kind, *values = events.get(timeout=1)
        except queue.Empty:
            if are_over:
                break
            are_over = not any(worker.is_alive() for worker in workers)  # Then a last look.
            continue
        if kind == "done":
            progress.done += 1
        elif kind == "current":
            (progress.current,) = values
        elif kind == "seconds":
            seconds[values[0]] = round(values[1], 1)
        else:
            getattr(results, kind)(*values)
    for worker in workers:
        if worker.exitcode:
            results.add_failure(f"worker {worker.name}", f"it ended with {worker.exitcode}")
    if record.parent.is_dir():
        record.write_text(json.dumps(seconds, indent=1, sort_keys=True), encoding="utf-8")
