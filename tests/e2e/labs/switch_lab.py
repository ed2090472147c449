# SPDX-License-Identifier: Apache-2.0
"""NICs on emulated switches of one daemon, each its own host."""
import re

from labs.lab import Host, Lab, find_list
from labs.process import Failed, run, wait_until


class SwitchLab(Lab):
    """`switches` are the values of --switch. `hosts` are all NICs, `a` and `b` the first and the
    last."""

    def __init__(self, *switches, arguments=()):
        self.switches = switches
        self.arguments = arguments
        super().__init__()

    def _build(self):
        namespace = self._add_namespace()
        flags = [word for switch in self.switches for word in ("--switch", switch)]
        daemon = self._add_daemon(namespace, *flags, *self.arguments)
        count = sum(int(re.search(r"ports=(\d+)", switch).group(1)) for switch in self.switches)
        self.hosts = [Host(namespace, daemon, f"uroce{i}", f"10.0.0.{i + 1}", f"fd00::{i + 1:x}")
                      for i in range(count)]
        self.use(0, count - 1)
        wait_until(self._has_addresses, "all addresses in use")
        self.server_address = "127.0.0.1"

    def _has_addresses(self):
        """Whether no other host had them; finding out takes a while."""
        found = find_list(self.hosts[0].dump("devices"))
        return all(len(device["addresses"]) >= 2 for device in found)

    def use(self, a, b):
        """Has programs run between these two."""
        self.a, self.b = self.hosts[a], self.hosts[b]

    def set(self, *words):
        """`uroce switch set`."""
        run(self.hosts[0].uroce("switch", "set", *words))

    def port(self, name):
        """What `uroce switch` says of a port, by its name or by the NIC that it leads to."""
        for port in self.hosts[0].dump("switch")["ports"]:
            if name in (port["name"], port["leads_to"]):
                return port
        raise Failed(f"no port {name}")

    def switch(self, name):
        return next(s for s in self.hosts[0].dump("switch")["switches"] if s["name"] == name)
