# SPDX-License-Identifier: Apache-2.0
"""Two daemons on the ends of a memif, either of which can be killed and started again."""
from lab import Daemon, Host, Lab, find_list
from process import wait_until

ADDRESSES = {"server": 1, "client": 2}


class MemifLab(Lab):
    """`a` is on the server's end, `b` on the client's."""

    def __init__(self, *arguments, options=""):
        self.arguments = arguments
        self.options = options
        super().__init__()

    def _build(self):
        self.namespace = self._add_namespace()
        self.server_address = "127.0.0.1"
        self.a = self._add_host("server")
        self.b = self._add_host("client")
        self.wait_link("up")

    def port(self, role):
        number = ADDRESSES[role]
        return (f"name=uroce0,dev=net_memif0;role={role};socket={self.directory}/memif.sock"
                f"{self.options},ip=10.0.0.{number}/24+fd00::{number}/64")

    def _add_host(self, role):
        daemon = self._add_daemon(self.namespace, "--port", self.port(role), *self.arguments)
        number = ADDRESSES[role]
        return Host(self.namespace, daemon, "uroce0", f"10.0.0.{number}", f"fd00::{number}")

    def kill(self, host):
        """As a crash does: nothing is cleaned up."""
        host.daemon.process.kill()
        self.daemons.remove(host.daemon)

    def restart(self, host):
        role = "server" if host is self.a else "client"
        host.daemon = Daemon(self.namespace, f"{self.directory}/again-{role}",
                             ["--port", self.port(role), *self.arguments])
        self.daemons.append(host.daemon)
        host.forget_gids()

    def wait_link(self, state, *hosts):
        for host in hosts or (self.a, self.b):
            wait_until(lambda host=host: link_of(host) == state, f"a link that is {state}")


def link_of(host):
    return find_list(host.dump("devices"))[0]["link"]
