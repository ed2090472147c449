# SPDX-License-Identifier: Apache-2.0
"""ATOMIC WRITE: eight bytes, aligned, of a region or a queue pair that may be written. Arguments:
the two devices."""
import sys

from pyverbs.mr import MR
from verbs_end import ALL_ACCESS, e, pair

LENGTH = 4096
VALUE = b"8 bytes!"


def check(is_right, what):
    if not is_right:
        sys.exit(f"atomic_write: {what}")


def write(devices, offset, length=len(VALUE), access=ALL_ACCESS):
    """One ATOMIC WRITE to `offset`. Returns its completion's status, and the target's bytes."""
    peer, owner = pair(*devices)
    target = MR(owner.pd, LENGTH, access)
    target.write("." * LENGTH, LENGTH)
    source = MR(peer.pd, 64, e.IBV_ACCESS_LOCAL_WRITE)
    source.write(VALUE * 2, 2 * len(VALUE))
    status = peer.do(e.IBV_WR_ATOMIC_WRITE, (source.buf, length, source.lkey),
                     (target.buf + offset, target.rkey))
    return status, target.read(LENGTH, 0)


def main():
    devices = sys.argv[1:3]
    for offset in (0, 8, LENGTH - 8):
        status, memory = write(devices, offset)
        check(status == e.IBV_WC_SUCCESS, f"status {status} at {offset}")
        expected = bytearray(b"." * LENGTH)
        expected[offset:offset + 8] = VALUE
        check(memory == bytes(expected), f"wrong bytes at {offset}")
    # Of a longer list the first eight bytes, as of other atomics.
    status, memory = write(devices, 16, length=12)
    check(status == e.IBV_WC_SUCCESS and memory[16:28] == VALUE + b"....", "of twelve bytes")
    check(write(devices, 4)[0] == e.IBV_WC_REM_INV_REQ_ERR, "misaligned")
    check(write(devices, LENGTH)[0] == e.IBV_WC_REM_ACCESS_ERR, "behind the region")
    readable = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ
    check(write(devices, 0, access=readable)[0] == e.IBV_WC_REM_ACCESS_ERR, "without the right")
    print("atomic_write: right")


main()
