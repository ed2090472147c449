# SPDX-License-Identifier: Apache-2.0
"""One end of a reliable connection by pyverbs, for the programs beside."""
try:
    import pyverbs.enums as e
except ImportError:  # Its name since rdma-core 59.
    import pyverbs.libibverbs_enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

GID_INDEX = 1  # The IPv4 address of a lab's NIC.
ALL_ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ |
              e.IBV_ACCESS_REMOTE_ATOMIC)


class End:
    """A queue pair with what it needs; context and PD may be given."""

    def __init__(self, device, context=None, pd=None):
        self.context = context or Context(name=device)
        self.pd = pd or PD(self.context)
        self.cq = CQ(self.context, 16)
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq,
                                         cap=QPCap(8, 8, 1, 1)), QPAttr(port_num=1))

    def connect(self, peer):
        attributes = QPAttr(port_num=1)
        attributes.qp_access_flags = ALL_ACCESS
        self.qp.to_init(attributes)
        attributes.path_mtu = e.IBV_MTU_1024
        attributes.dest_qp_num = peer.qp.qp_num
        attributes.max_dest_rd_atomic = attributes.max_rd_atomic = 4
        attributes.min_rnr_timer = 12
        route = GlobalRoute(dgid=peer.context.query_gid(1, GID_INDEX), sgid_index=GID_INDEX)
        attributes.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
        self.qp.to_rtr(attributes)
        attributes.timeout = 14
        attributes.retry_cnt = attributes.rnr_retry = 7
        self.qp.to_rts(attributes)

    def do(self, opcode, sge, remote):
        """One request of `sge` (address, length, lkey) on `remote` (address, rkey); returns the
        status of its completion."""
        request = SendWR(opcode=opcode, num_sge=1, sg=[SGE(*sge)], send_flags=e.IBV_SEND_SIGNALED)
        request.set_wr_rdma(remote[1], remote[0])
        self.qp.post_send(request)
        return self.wait().status

    def wait(self):
        """The next completion."""
        while True:
            count, completions = self.cq.poll()
            if count:
                return completions[0]


def pair(device_a, device_b):
    """Two ends, connected."""
    ends = End(device_a), End(device_b)
    ends[0].connect(ends[1])
    ends[1].connect(ends[0])
    return ends
