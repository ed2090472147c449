# SPDX-License-Identifier: Apache-2.0
"""Two daemons on the ends of a memif: `a` is its server, `b` its client."""
from labs.port_lab import PortLab

SERVER = 1  # Number of the port.


class MemifLab(PortLab):
    def __init__(self, *arguments, options=""):
        super().__init__([f"net_memif0;role={role};socket=DIR/memif.sock{options}"
                          for role in ("server", "client")], mtu=None, arguments=arguments)
