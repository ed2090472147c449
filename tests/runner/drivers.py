# SPDX-License-Identifier: Apache-2.0
"""Daemons under test have the drivers of DPDK that the package uroced depends on and recommends.
A machine that builds has all 128, and a daemon that loads them computes half as long again at its
start."""
import ctypes
import glob
import re
import shutil
import subprocess
from pathlib import Path

from progress import ROOT

CLONE_NEWNS = 0x20000
BUSES = ("bus_pci", "bus_vdev")


def names_of_package():
    """As debian/rules has them."""
    rules = (ROOT / "debian" / "rules").read_text(encoding="utf-8")
    lists = re.findall(r"^(?:port_)?drivers = (.*)$", rules, re.M)
    return [*BUSES, *" ".join(lists).split()]


class DriversOfPackage:
    """Copies of them in a folder, which `use` mounts in place of DPDK's folder: for this process
    and those that it starts, in a namespace of mounts. Does nothing where DPDK has no such folder,
    as one that was built by hand."""

    def __init__(self, copies):
        self._copies = copies
        self._places = glob.glob("/usr/lib/*/dpdk/pmds-*")
        shutil.rmtree(copies, ignore_errors=True)
        copies.mkdir(parents=True)
        for name in names_of_package():
            for place in self._places:
                for path in map(Path, glob.glob(f"{place}/librte_{name}.so*")):
                    shutil.copy2(path, copies / path.name, follow_symlinks=False)

    def use(self):
        if len(self._places) == 1 and ctypes.CDLL(None).unshare(CLONE_NEWNS) == 0:
            subprocess.run(["mount", "--make-rslave", "/"], check=True)
            subprocess.run(["mount", "--bind", self._copies, self._places[0]], check=True)
