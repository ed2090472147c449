# SPDX-License-Identifier: Apache-2.0
"""The folder that run-scale --bundle makes: uroce as tools/dist links it, perftest, iperf3, their
libraries but those of glibc, and the scripts that measure. It needs Linux on x86-64, a glibc as new
as that of the machine that made it, python3, iproute2, util-linux and root."""
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

PROGRAMS = ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ibv_devinfo", "iperf3")
PORT_ALONE = Path("tests", "bench", "port_alone")
SCRIPTS = ("tests/bench/run-scale", "tests/bench/scale.py", "tests/bench/scale_bundle.py",
           "tests/e2e/labs")
# Each machine must take its own: they belong to its dynamic linker.
OF_GLIBC = re.compile(r"(libc|libm|libdl|libpthread|librt|libresolv|ld-linux-x86-64)\.so\.\d")

START = """#!/bin/sh
# Runs the measurement with what this folder holds; see README of uroce, tests/bench.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export PATH="$here/bin:$PATH" LD_LIBRARY_PATH="$here/lib" UROCE_BUILD=build UROCE_BUNDLE=1
exec "$here/tests/bench/run-scale" "$@"
"""


def libraries_of(program):
    """Paths of the shared libraries that a program loads."""
    text = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [Path(path) for path in re.findall(r"=> (/\S+)", text)
            if not OF_GLIBC.match(Path(path).name)]


def unpack_dist(root, folder):
    """Links and unpacks uroce, and gives the daemon and the tool the places of a build folder."""
    with tempfile.TemporaryDirectory() as made:
        subprocess.run([root / "tools" / "dist", "--output", made], check=True)
        archive = next(Path(made).glob("*.tar.zst"))
        subprocess.run(["tar", "--zstd", "-xf", archive, "-C", folder], check=True)
    for place in ("nic/uroced", "tools/uroce"):
        link = folder / "build" / place
        program = next(folder.glob(f"uroce-*/*bin/{link.name}"))
        link.parent.mkdir(parents=True)
        link.symlink_to(Path("..", "..", program.relative_to(folder)))


def copy_program(program, place, folder):
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, place)
    for library in libraries_of(program):
        shutil.copy(library, folder / "lib" / library.name)


def copy_programs(root, folder):
    for name in PROGRAMS:
        copy_program(shutil.which(name), folder / "bin" / name, folder)
    copy_program(root / "build" / PORT_ALONE, folder / "build" / PORT_ALONE, folder)


def copy_scripts(root, folder):
    for name in SCRIPTS:
        source, copy = root / name, folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)


def make(root, folder):
    """Makes the folder, which must not be there yet. Returns the exit status."""
    folder.mkdir(parents=True)
    for name in ("bin", "lib"):
        (folder / name).mkdir()
    unpack_dist(root, folder)
    copy_programs(root, folder)
    copy_scripts(root, folder)
    start = folder / "run"
    start.write_text(START, encoding="utf-8")
    start.chmod(0o755)
    print(f"made {folder}; there, as root: ./run [--rounds N] [--plot FILE]")
    return 0
