# SPDX-License-Identifier: Apache-2.0
"""The folder that tests/gpu/run --bundle makes: uroce as tools/dist links it, the programs of this
folder, libibverbs, and the scripts. It needs Linux on x86-64, a glibc as new as that of the machine
that made it, and python3; a GPU with its driver, and PyTorch for NCCL."""
import shutil
import sys
from pathlib import Path

SCRIPTS = ("tests/gpu/run", "tests/gpu/measure.py", "tests/gpu/bundle.py",
           "tests/gpu/nccl_ranks.py")
PROGRAMS = ("memory_kinds", "staged_bandwidth", "transfers")
DRIVER = "libcuda.so.1"

START = """#!/bin/sh
# Measures with what this folder holds; see README of uroce, tests/gpu.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" UROCE_BUILD=build
export UROCE_BUNDLE=1
exec "$here/tests/gpu/run" "$@"
"""


def make(root, folder):
    """Makes the folder, which must not be there yet. Returns the exit status."""
    sys.path.insert(0, str(root / "tests" / "bench"))
    import scale_bundle  # pylint: disable=import-outside-toplevel
    folder.mkdir(parents=True)
    scale_bundle.unpack_dist(root, folder)
    built = Path("build", "tests", "gpu")
    (folder / "lib").mkdir()
    (folder / built).mkdir(parents=True)
    for name in (*PROGRAMS, DRIVER):
        shutil.copy(root / built / name, folder / built / name)
    for library in scale_bundle.libraries_of(root / built / PROGRAMS[0]):
        shutil.copy(library, folder / "lib" / library.name)
    for name in SCRIPTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name)
    start = folder / "run"
    start.write_text(START, encoding="utf-8")
    start.chmod(0o755)
    print(f"made {folder}; there: ./run [--driver test]")
    return 0
