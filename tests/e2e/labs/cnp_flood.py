# SPDX-License-Identifier: Apache-2.0
"""CNPs that no congestion has caused, sent from a namespace to a NIC."""
import os

from labs import roce
from labs.lab import BUILD
from labs.process import Process

FLOOD = BUILD / "tests" / "e2e" / "flood"


def mac_of(namespace):
    return namespace.ip("-o", "link", "show", "eth0").split("link/ether ")[1].split()[0]


class CnpFlood:
    """From `source` to the NIC of `target`, in turn for each of `qpns`, as if `address` had sent
    them. Without `per_second` as fast as it can."""

    def __init__(self, lab, source, target, address, qpns, seconds, per_second=None):
        own, other = mac_of(source.namespace), mac_of(target.namespace)
        path = os.path.join(lab.directory, "cnps")
        with open(path, "w", encoding="ascii") as file:
            for qpn in qpns:
                frame = roce.frame_v4(own, other, address, target.address, roce.cnp(qpn))
                file.write(frame.hex() + "\n")
        self.process = Process(source.namespace.command(
            [FLOOD, "eth0", path, seconds, per_second or 10**9]))

    def running(self):
        return self.process.running()

    def kill(self):
        self.process.kill()
