# SPDX-License-Identifier: Apache-2.0
"""Network namespaces of this run, and a veth pair between two of them."""
import os
import pathlib
import re
import subprocess

from labs.process import Process, wait_until

PREFIX = "uroce-e2e-"
_count = 0


def ip(*arguments):
    done = subprocess.run(["ip", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def _is_stale(name):
    owner = re.fullmatch(PREFIX + r"(\d+)-\d+", name)
    return owner is not None and not os.path.exists(f"/proc/{owner.group(1)}")


def remove_stale():
    """Namespaces whose maker was killed before it could clean up."""
    for line in ip("netns", "list").splitlines():
        name = line.split()[0]
        if _is_stale(name):
            # Another run may have removed it in the meantime.
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


class Namespace:
    """A namespace with `lo` up. Named after this process, so that stale ones can be told."""

    def __init__(self):
        global _count
        _count += 1
        self.name = f"{PREFIX}{os.getpid()}-{_count}"
        ip("netns", "add", self.name)
        self._holder = self._hold_mounts()
        self.ip("link", "set", "lo", "up")
        # Addresses may be used at once, without waiting whether another host has them too.
        self.run(["sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/default/dad_transmits"])

    def ip(self, *arguments):
        return ip("-n", self.name, *arguments)

    def _hold_mounts(self):
        """A process with a /sys that shows the namespace. `ip netns exec` would mount one for each
        command, whose end waits 30 ms for the end of the mount."""
        holder = Process(["ip", "netns", "exec", self.name, "sleep", "infinity"])
        Process.started.discard(holder)  # No program under test, whose state a failure tells.
        comm = pathlib.Path(f"/proc/{holder.pid}/comm")
        wait_until(lambda: not holder.running() or comm.read_text(encoding="ascii") == "sleep\n",
                   "the mounts of a namespace")
        return holder

    def command(self, words):
        """`words` as a command that runs in the namespace, with a /sys that shows it."""
        return ["nsenter", f"--target={self._holder.pid}", "--mount", "--net",
                f"--wdns={os.getcwd()}", *map(str, words)]

    def run(self, words):
        subprocess.run(self.command(words), check=True, stdin=subprocess.DEVNULL)

    def remove(self):
        if self._holder:
            self._holder.kill()
        ip("netns", "del", self.name)


class BareNamespace(Namespace):
    """Its programs keep the mounts of this process. A mount that goes waits until every thread has
    left what RCU guards in the kernel: `ip netns exec` hung for minutes where threads of nice 19
    did not get to run."""

    def _hold_mounts(self):
        return None

    def command(self, words):
        return ["nsenter", f"--net=/run/netns/{self.name}", *map(str, words)]


def make_veth_pair(a, b, mtu):
    """eth0 in both namespaces, up, with the addresses 10.0.0.1 and .2, fd00::1 and ::2."""
    a.ip("link", "add", "eth0", "mtu", mtu, "type", "veth", "peer", "name", "eth0", "mtu", mtu,
         "netns", b.name)
    for host, namespace in ((1, a), (2, b)):
        namespace.ip("addr", "add", f"10.0.0.{host}/24", "dev", "eth0")
        namespace.ip("addr", "add", f"fd00::{host}/64", "dev", "eth0")
        namespace.ip("link", "set", "eth0", "up")
    # The kernel asks for IPv6 neighbours by its link-local address, and tries again only after 1 s.
    for namespace in (a, b):
        wait_until(lambda space=namespace: has_usable_addresses(space), "a link-local address")


def has_usable_addresses(namespace):
    addresses = namespace.ip("-6", "addr", "show", "eth0")
    return "scope link" in addresses and "tentative" not in addresses
