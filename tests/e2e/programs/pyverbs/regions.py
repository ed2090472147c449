# SPDX-License-Identifier: Apache-2.0
"""Regions that change, come on demand or lie in device memory, as a peer sees them. Arguments: the
two devices."""
import ctypes
import mmap
import sys

from pyverbs.device import DM, AllocDmAttr
from pyverbs.mr import DMMR, MR
from pyverbs.pd import PD
from verbs_end import ALL_ACCESS, e, pair

PAGE = 4096


def address_of(memory):
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def check(is_right, what):
    if not is_right:
        sys.exit(f"regions: {what}")


def write(a, b_region, text, address=None):
    """Has `a` WRITE `text` to the other end's region; returns the status."""
    source = MR(a.pd, len(text), e.IBV_ACCESS_LOCAL_WRITE)
    source.write(text, len(text))
    remote = b_region.buf if address is None else address
    return a.do(e.IBV_WR_RDMA_WRITE, (source.buf, len(text), source.lkey),
                (remote, b_region.rkey))


def check_reregistration(devices):
    a, b = pair(*devices)
    first, second = mmap.mmap(-1, PAGE), mmap.mmap(-1, 2 * PAGE)
    region = MR(b.pd, PAGE, ALL_ACCESS, address=address_of(first))
    rkey = region.rkey
    check(write(a, region, "before", address_of(first)) == 0, "WRITE before")
    region.rereg(flags=e.IBV_REREG_MR_CHANGE_TRANSLATION, addr=address_of(second), length=2 * PAGE)
    check(region.rkey == rkey, "the key changed")
    check(write(a, region, "after", address_of(second) + PAGE) == 0, "WRITE to the new place")
    check(second[PAGE:PAGE + 5] == b"after" and first[:6] == b"before", "wrong bytes")
    region.rereg(flags=e.IBV_REREG_MR_CHANGE_PD, pd=PD(b.context))
    check(write(a, region, "no", address_of(second)) == e.IBV_WC_REM_ACCESS_ERR, "of another PD")
    a, b = pair(*devices)
    region = MR(b.pd, PAGE, ALL_ACCESS, address=address_of(first))
    region.rereg(flags=e.IBV_REREG_MR_CHANGE_ACCESS, access=e.IBV_ACCESS_LOCAL_WRITE)
    check(write(a, region, "no", address_of(first)) == e.IBV_WC_REM_ACCESS_ERR, "without the right")


def check_on_demand(devices):
    a, b = pair(*devices)
    # All of the address space: what is mapped after the registration is reached, too.
    region = MR(b.pd, 0, ALL_ACCESS | e.IBV_ACCESS_ON_DEMAND, implicit=True)
    memory = mmap.mmap(-1, PAGE)
    check(write(a, region, "on demand", address_of(memory)) == 0, "WRITE on demand")
    check(memory[:9] == b"on demand", "wrong bytes on demand")
    check(write(a, region, "nowhere", PAGE) != 0, "WRITE to memory that is not there")


def check_device_memory(devices):
    a, b = pair(*devices)
    with DM(b.context, AllocDmAttr(length=64)) as memory:
        region = DMMR(b.pd, 32, ALL_ACCESS | e.IBV_ACCESS_ZERO_BASED, memory, 16)
        check(write(a, region, "device memory...", 0) == 0, "WRITE to device memory")
        check(memory.copy_from_dm(16, 16) == b"device memory...", "wrong bytes in device memory")
        check(write(a, region, "beyond..", 32) == e.IBV_WC_REM_ACCESS_ERR, "WRITE beyond its end")
        region.close()


for test in (check_reregistration, check_on_demand, check_device_memory):
    test(sys.argv[1:3])
print("regions: right")
