# SPDX-License-Identifier: Apache-2.0
"""A program that lets another process use its protection domain and region: the other one sends
from memory that it has never mapped. Arguments: the two devices."""
import ctypes
import mmap
import subprocess
import sys

from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from verbs_end import ALL_ACCESS, End, e

TEXT = "bytes of another process"


def make(device_a, device_b):
    memory = mmap.mmap(-1, 4096)
    memory[:len(TEXT)] = TEXT.encode()
    context = Context(name=device_a)
    pd = PD(context)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    region = MR(pd, 4096, ALL_ACCESS, address=address)
    return subprocess.run(
        [sys.executable, __file__, device_a, device_b, str(context.cmd_fd), str(pd.handle),
         str(region.handle), str(address)], pass_fds=[context.cmd_fd], check=False).returncode


def use(device_a, device_b, cmd_fd, pd_handle, mr_handle, address):
    context = Context(cmd_fd=cmd_fd)
    pd = PD(context, handle=pd_handle)
    region = MR(pd, handle=mr_handle)
    a, b = End(device_a, context, pd), End(device_b)
    a.connect(b)
    b.connect(a)
    target = MR(b.pd, 64, ALL_ACCESS)
    status = a.do(e.IBV_WR_RDMA_WRITE, (address, len(TEXT), region.lkey), (target.buf, target.rkey))
    received = target.read(len(TEXT), 0)
    region.unimport()
    if status or received != TEXT.encode():
        sys.exit(f"share: status {status}, received {received}")
    print("share: right")


if len(sys.argv) == 3:
    sys.exit(make(*sys.argv[1:]))
use(*sys.argv[1:3], *map(int, sys.argv[3:]))
