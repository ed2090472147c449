# SPDX-License-Identifier: Apache-2.0
"""Programs with the driver of CUDA for tests, and its words (tests/gpu/README.md)."""
import mmap
import os
import struct

from labs.lab import BUILD
from labs.process import Process

DRIVER = BUILD / "tests" / "gpu"
MEMORY_KINDS = DRIVER / "memory_kinds"
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
