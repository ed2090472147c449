# SPDX-License-Identifier: Apache-2.0
"""Programs with the driver of CUDA for tests, and its words (tests/gpu/README.md)."""
import mmap
import os
import re
import struct
import tempfile

from labs.lab import BUILD
from labs.process import Failed, Process, wait_until

DRIVER = BUILD / "tests" / "gpu"
MEMORY_KINDS = DRIVER / "memory_kinds"
TRANSFERS = DRIVER / "transfers"
# How requests to device memory fail.
SILENT = "transport retry counter exceeded"
REFUSED = "remote access error"
# Timeouts of ACKs, as ibv_modify_qp takes them. A requester gives up after eight: after 8.6 s, as a
# busy machine may keep a program from a CPU for long, or after 2.1 s where a peer falls silent.
PATIENT = 18
SOON = 16
OFFSETS = {"delay_us": 0, "seed": 4, "fail_from": 8, "fail_count": 12, "fail_result": 16,
           "fail_late": 20, "hang_copy": 24, "hang_synchronize": 28, "hang_call": 32,
           "copies": 64, "hanging": 68, "registered": 72, "streams": 76}


class Words:
    """The words of a driver, in a file that programs get by `environment`."""

    def __init__(self, directory, name="words"):
        self.path = os.path.join(directory, f"gpu-{name}")
        with open(self.path, "wb") as file:
            file.truncate(4096)
        with open(self.path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 4096)

    def environment(self):
        return {"UROCE_TEST_GPU_CONTROL": self.path, "LD_LIBRARY_PATH": str(DRIVER)}

    def __getitem__(self, name):
        return struct.unpack_from("=I", self._memory, OFFSETS[name])[0]

    def __setitem__(self, name, value):
        struct.pack_into("=I", self._memory, OFFSETS[name], value)


def start(host, words, *program, env=None):
    """A program of `host` whose driver has these words."""
    settings = {**words.environment(), **(env or {})}
    return Process(host.verbs("env", *(f"{key}={value}" for key, value in settings.items()),
                              *program))


class Transfers:
    """A program with device memory, and one that transfers to and from there. Each pair has its own
    words, by which its driver hangs and fails alone. `role` and `requester`: transfers.cc."""

    def __init__(self, lab, role="target", timeout=PATIENT, requester="requester"):
        self.directory = tempfile.mkdtemp(prefix="transfers-", dir=lab.directory)
        self.words = Words(self.directory)
        self.target = start(lab.a, self.words, TRANSFERS, role, lab.a.device, self.directory)
        self.requester = lab.b.start(TRANSFERS, requester, lab.b.device, self.directory, timeout)

    def rounds(self):
        return self._count("rounds")

    def wrong(self):
        """In how many rounds of a doubter bytes differed."""
        return self._count("wrong")

    def _count(self, what):
        counts = re.findall(rf"^(\d+) {what}$", self.requester.output(), re.M)
        return int(counts[-1]) if counts else 0

    def wait_for_progress(self, rounds=5):
        """Some rounds from now on, all of them with the right bytes."""
        wanted = self.rounds() + rounds
        wait_until(lambda: self.rounds() >= wanted or not self.requester.running(),
                   f"{rounds} rounds")
        if self.rounds() < wanted:
            raise Failed(f"{self.requester.describe()}\n{self.target.describe()}")

    def ask(self, what):
        """Has the target do it, without waiting."""
        self._make(f"do-{what}")

    def do(self, what):
        """Has the target do it, and waits until it has."""
        done = os.path.join(self.directory, f"done-{what}")
        if os.path.exists(done):
            os.remove(done)
        self.ask(what)
        wait_until(lambda: os.path.exists(done), what)

    def status(self):
        """With which status the requester fails."""
        output = self.requester.expect_success(60)
        failed = re.search(r"^failed: (.*)$", output, re.M)
        if not failed:
            raise Failed(f"no failure: {self.requester.describe()}")
        return failed.group(1)

    def stop(self):
        """Ends both as a program does that has nothing more to do."""
        self._make("stop")
        self.requester.expect_success(60)
        self.end_target()

    def end_target(self):
        self.ask("end")
        self.target.expect_success(60)

    def kill(self):
        self.requester.kill()
        self.target.kill()

    def _make(self, name):
        with open(os.path.join(self.directory, name), "wb"):
            pass
