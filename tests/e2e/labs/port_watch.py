# SPDX-License-Identifier: Apache-2.0
"""What a program sees of its port while the network around it changes."""
import re

from labs.lab import BUILD
from labs.process import Failed, wait_until

PORT_WATCH = BUILD / "tests" / "e2e" / "port_watch"


class PortWatch:
    """port_watch on the device of a host. `gids` maps indices to (address, ifindex)."""

    def __init__(self, host):
        self._process = host.start(PORT_WATCH, host.device)
        try:
            wait_until(lambda: self.state, "the first look at the port")
        except Failed:
            self.close()
            raise

    def close(self):
        self._process.kill()

    def events(self, kind=""):
        """How many events whose text holds `kind` there were."""
        return len(re.findall(rf"^event .*{kind}.*\n", self._process.output(), re.M))

    @property
    def state(self):
        """Of the port, as of the last event."""
        states = re.findall(r"^port (\S+) mtu \d+\n", self._process.output(), re.M)
        return states[-1] if states else None

    @property
    def gids(self):
        text = self._process.output()
        end = text.rindex("\nport ") + 1
        begin = max(text.rfind("\nport ", 0, end - 1), text.rfind("\nevent ", 0, end)) + 1
        found = re.findall(r"^gid (\d+) (\S+) ifindex (\d+)\n", text[begin:end], re.M)
        return {int(index): (gid, int(ifindex)) for index, gid, ifindex in found}

    def index_of(self, address):
        """The index of an IPv4 or IPv6 address, or None."""
        wanted = f"::ffff:{address}" if "." in address else address
        return next((index for index, (gid, _) in self.gids.items() if gid == wanted), None)

    def wait_for(self, address):
        return wait_until(lambda: self.index_of(address), f"a GID {address}")

    def wait_without(self, address):
        wait_until(lambda: self.index_of(address) is None, f"no GID {address} any more")
