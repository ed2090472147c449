# SPDX-License-Identifier: Apache-2.0
"""Memory windows, as a peer sees them: bound, written through, taken back. Arguments: the two
devices."""
import errno
import sys

from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.wr import SGE, RecvWR, SendWR
from verbs_end import ALL_ACCESS, e, pair

LENGTH = 8192
PART = (1000, 5000)  # What a window grants: offset and length.
TEXT = "through the window"


def check(is_right, what):
    if not is_right:
        sys.exit(f"windows: {what}")


class Owner:
    """The end whose memory the other one writes to, with a window on a part of it."""

    def __init__(self, end, mw_type):
        self.end = end
        self.region = MR(end.pd, LENGTH, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_MW_BIND)
        self.window = MW(end.pd, mw_type)
        self.rkey = self.window.rkey

    def __del__(self):
        self.window.close()  # Before its region.

    def bind(self, access=e.IBV_ACCESS_REMOTE_WRITE, part=PART, region=None):
        """Binds again; returns the status."""
        info = MWBindInfo(region or self.region, self.region.buf + part[0], part[1], access)
        if self.window.type == e.IBV_MW_TYPE_1:
            self.end.qp.bind_mw(self.window, MWBind(info, e.IBV_SEND_SIGNALED))
            self.rkey = self.window.rkey
            return self.end.wait().status
        request = SendWR(opcode=e.IBV_WR_BIND_MW)
        request.set_bind_wr(self.window, info)
        self.rkey = request.rkey
        self.end.qp.post_send(request)
        completion = self.end.wait()
        check(completion.status or completion.opcode == e.IBV_WC_BIND_MW, "opcode of a binding")
        return completion.status

    def take_back(self):
        request = SendWR(opcode=e.IBV_WR_LOCAL_INV)
        request.imm_data = self.rkey
        self.end.qp.post_send(request)
        completion = self.end.wait()
        check(completion.status or completion.opcode == e.IBV_WC_LOCAL_INV,
              "opcode of an invalidation")
        return completion.status

    def address(self, offset):
        return self.region.buf + offset


def write(peer, owner, address, rkey=None):
    """Has the other end WRITE; returns the status."""
    source = MR(peer.pd, len(TEXT), e.IBV_ACCESS_LOCAL_WRITE)
    source.write(TEXT, len(TEXT))
    return peer.do(e.IBV_WR_RDMA_WRITE, (source.buf, len(TEXT), source.lkey),
                   (address, owner.rkey if rkey is None else rkey))


def fresh(devices, mw_type):
    peer, end = pair(*devices)
    return peer, Owner(end, mw_type)


def expect_refusal(devices, mw_type, prepare, address, what):
    """A WRITE after `prepare` must end as a remote access error."""
    peer, owner = fresh(devices, mw_type)
    prepare(owner)
    check(write(peer, owner, address(owner)) == e.IBV_WC_REM_ACCESS_ERR, what)


def check_data(devices, mw_type):
    peer, owner = fresh(devices, mw_type)
    for round_trip in range(5):
        check(owner.bind() == e.IBV_WC_SUCCESS, f"binding {round_trip}")
        for offset in (PART[0], PART[0] + 700, sum(PART) - len(TEXT)):
            check(write(peer, owner, owner.address(offset)) == e.IBV_WC_SUCCESS, "WRITE")
            check(owner.region.read(len(TEXT), offset) == TEXT.encode(), "wrong bytes")
            owner.region.write("." * len(TEXT), len(TEXT), offset)
        if mw_type == e.IBV_MW_TYPE_2:
            check(owner.take_back() == e.IBV_WC_SUCCESS, "LOCAL_INV")


def check_refusals(devices, mw_type):
    inside = lambda owner: owner.address(PART[0])
    expect_refusal(devices, mw_type, lambda owner: None, inside, "WRITE before the binding")
    expect_refusal(devices, mw_type, Owner.bind, lambda owner: owner.address(PART[0] - 1),
                   "WRITE in front of the window")
    expect_refusal(devices, mw_type, Owner.bind,
                   lambda owner: owner.address(sum(PART) - len(TEXT) + 1), "WRITE beyond its end")
    expect_refusal(devices, mw_type, lambda owner: owner.bind(e.IBV_ACCESS_REMOTE_READ), inside,
                   "WRITE without the right")
    if mw_type == e.IBV_MW_TYPE_2:
        expect_refusal(devices, mw_type, lambda owner: (owner.bind(), owner.take_back()), inside,
                       "WRITE after LOCAL_INV")
        return
    expect_refusal(devices, mw_type, lambda owner: (owner.bind(), owner.bind(0, (0, 0))), inside,
                   "WRITE after unbinding")
    peer, owner = fresh(devices, mw_type)
    owner.bind()
    former = owner.rkey
    owner.bind()
    check(write(peer, owner, inside(owner), former) == e.IBV_WC_REM_ACCESS_ERR, "by a former key")


def check_remote_invalidation(devices):
    peer, owner = fresh(devices, e.IBV_MW_TYPE_2)
    check(owner.bind() == e.IBV_WC_SUCCESS, "binding")
    inbox = MR(owner.end.pd, 64, e.IBV_ACCESS_LOCAL_WRITE)
    owner.end.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(inbox.buf, 64, inbox.lkey)]))
    request = SendWR(opcode=e.IBV_WR_SEND_WITH_INV)
    request.imm_data = owner.rkey
    peer.qp.post_send(request)
    received = owner.end.wait()
    check(received.status == e.IBV_WC_SUCCESS and received.wc_flags & e.IBV_WC_WITH_INV and
          received.imm_data == owner.rkey, "completion of SEND with invalidate")
    check(peer.wait().status == e.IBV_WC_SUCCESS, "SEND with invalidate")
    check(write(peer, owner, owner.address(PART[0])) == e.IBV_WC_REM_ACCESS_ERR,
          "WRITE after SEND with invalidate")


def check_ownership(devices):
    """A window of type 2 is of the queue pair that bound it, one of type 1 of its domain."""
    for mw_type in (e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2):
        peer, owner = fresh(devices, mw_type)
        owner.bind()
        other_peer, other = pair(*devices)
        same_domain = type(other)(devices[1], owner.end.context, owner.end.pd)
        connector = type(other)(devices[0])
        same_domain.connect(connector)
        connector.connect(same_domain)
        expected = e.IBV_WC_SUCCESS if mw_type == e.IBV_MW_TYPE_1 else e.IBV_WC_REM_ACCESS_ERR
        check(write(connector, owner, owner.address(PART[0])) == expected, "of another queue pair")
        check(write(other_peer, owner, owner.address(PART[0])) == e.IBV_WC_REM_ACCESS_ERR,
              "of another domain")
        check(write(peer, owner, owner.address(PART[0])) == e.IBV_WC_SUCCESS, "of its domain")


def check_bad_bindings(devices):
    two = e.IBV_MW_TYPE_2
    for what, access, part, region_access in (
            ("of a region without MW_BIND", e.IBV_ACCESS_REMOTE_WRITE, PART, ALL_ACCESS),
            ("beyond the region", e.IBV_ACCESS_REMOTE_WRITE, (1, LENGTH), None),
            ("of no bytes", e.IBV_ACCESS_REMOTE_WRITE, (0, 0), None),
            ("for writing, of a region that is not", e.IBV_ACCESS_REMOTE_WRITE, PART,
             e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_MW_BIND)):
        _, owner = fresh(devices, two)
        if region_access is not None:
            owner.region = MR(owner.end.pd, LENGTH, region_access)
        check(owner.bind(access, part) == e.IBV_WC_MW_BIND_ERR, f"binding {what}")
    _, owner = fresh(devices, two)
    owner.bind()
    check(owner.bind() == e.IBV_WC_MW_BIND_ERR, "binding what is bound")
    _, owner = fresh(devices, two)
    check(owner.take_back() == e.IBV_WC_LOC_QP_OP_ERR, "LOCAL_INV of what is not bound")


def check_busy_region(devices):
    _, owner = fresh(devices, e.IBV_MW_TYPE_2)
    owner.bind()
    try:
        owner.region.close()
        check(False, "a region with a window ended")
    except PyverbsRDMAError as error:
        check(error.error_code == errno.EBUSY, f"errno {error.error_code}")
    owner.window.close()
    owner.region.close()


def check_zero_based(devices):
    peer, owner = fresh(devices, e.IBV_MW_TYPE_2)
    owner.bind(e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_ZERO_BASED)
    check(write(peer, owner, 3) == e.IBV_WC_SUCCESS, "WRITE from zero on")
    check(owner.region.read(len(TEXT), PART[0] + 3) == TEXT.encode(), "wrong bytes from zero on")
    check(write(peer, owner, PART[1]) == e.IBV_WC_REM_ACCESS_ERR, "WRITE beyond, from zero on")


def main():
    devices = sys.argv[1:3]
    for mw_type in (e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2):
        check_data(devices, mw_type)
        check_refusals(devices, mw_type)
    check_remote_invalidation(devices)
    check_ownership(devices)
    check_bad_bindings(devices)
    check_busy_region(devices)
    check_zero_based(devices)
    print("windows: right")


main()
