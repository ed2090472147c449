# SPDX-License-Identifier: Apache-2.0
"""Two NICs under test and the hosts that see them: joined by the in-process wire of one daemon, or
one daemon each in two network namespaces with a veth pair between."""
import os
import re
import shutil
import tempfile
from pathlib import Path

from labs.netns import Namespace, make_veth_pair, remove_stale
from labs.process import (
    Failed, Process, is_listening, json_of, run, run_status, wait_until, where_threads_wait)

ROOT = Path(__file__).resolve().parents[3]
E2E = ROOT / "tests" / "e2e"
BUILD = ROOT / os.environ.get("UROCE_BUILD", "build")
UROCED = BUILD / "nic" / "uroced"
UROCE = BUILD / "tools" / "uroce"
VERBS_CHECK = BUILD / "tests" / "e2e" / "verbs_check"
# Has perftest sleep where it would compare two clocks for a fifth of a second.
PATIENT_CLOCK = BUILD / "tests" / "e2e" / "patient_clock.so"
LONG = bool(os.environ.get("UROCE_E2E_LONG"))

# Starts a program as the user nobody, without any capability.
UNPRIVILEGED = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                "--bounding-set=-all", "--inh-caps=-all")


def preload(name):
    """Starts a program with a library of programs/preloaded."""
    return "env", f"LD_PRELOAD={BUILD}/tests/e2e/{name}.so"


_next_port = 20000


def use_ports_from(first):
    """Has next_port go on there: tests that run beside each other have their own ports."""
    global _next_port
    _next_port = first


def next_port():
    """A TCP port that no other program of this run uses."""
    global _next_port
    _next_port += 1
    return _next_port


class Daemon:
    """One uroced in a namespace, with its own socket. `prefix` is how it is started, `owner`
    the user who has the socket's directory."""

    def __init__(self, namespace, directory, arguments, prefix=(), owner=0):
        self.socket = f"{directory}/uroced.sock"
        os.makedirs(directory, exist_ok=True)
        os.chown(directory, owner, owner)
        self.process = Process(namespace.command(
            [*prefix, UROCED, "--socket", self.socket, "--no-huge", *arguments]))
        try:
            wait_until(self._is_ready, f"{self.socket}")
        except Failed as error:
            self.process.kill()
            raise Failed(f"{error}\n{self.process.describe()}") from None

    def _is_ready(self):
        """Its socket is there earlier: programs may connect while it opens its ports."""
        if not self.process.running():
            raise Failed("uroced ended")
        return "ready, socket" in self.process.output()

    def stop(self):
        """Ends it; a daemon that crashed, or does not end cleanly, is a failure."""
        if not self.process.running():
            raise Failed(f"uroced had ended: {self.process.describe()}")
        status = self.process.stop()
        if status:
            raise Failed(f"uroced ended with {status}: {self.process.describe()}")


class Host:
    """Where programs run, with the NIC that they use."""

    def __init__(self, namespace, daemon, device, address, address6):
        self.namespace = namespace
        self.daemon = daemon
        self.device = device
        self.address = address
        self.address6 = address6
        self._gids = None

    def uroce(self, *arguments):
        return self.namespace.command([UROCE, "--socket", self.daemon.socket, *arguments])

    def verbs(self, *program):
        """A program as it runs on the daemon's devices."""
        return self.uroce("run", "--", *program)

    def start(self, *program, preload=None):
        words = self.verbs(*program)
        return Process(["env", f"LD_PRELOAD={preload}", *words] if preload else words)

    def run(self, *program, timeout_s=60):
        return run(self.verbs(*program), timeout_s)

    def is_listening(self, program, port):
        """Whether `program`, which `start` returned, or another listens on a TCP port here."""
        return is_listening(program.pid, port)

    def seen(self, path):
        """A path as programs on this host know it."""
        return path

    def dump(self, what):
        """What `uroce WHAT` knows. The socket is a file: no namespace is needed."""
        return json_of([UROCE, "--socket", self.daemon.socket, what, "--json"])

    def counters(self):
        """All counters of this host's device, nested ones folded into dotted names."""
        for device in find_list(self.dump("stat")):
            if device.get("name", device.get("device")) == self.device:
                return flatten(device)
        raise Failed(f"no counters of {self.device}")

    def forget_gids(self):
        """Has gid_index look again: addresses changed."""
        self._gids = None

    def gid_index(self, version=4):
        """Index of the RoCE v2 GID of this host's address, from ibv_devinfo."""
        if self._gids is None:
            text = self.run("ibv_devinfo", "-v", "-d", self.device)
            self._gids = re.findall(r"GID\[\s*(\d+)\]:\s*(\S+?)(?:,\s*RoCE v2)", text)
        wanted = f"::ffff:{self.address}" if version == 4 else self.address6
        for index, gid in self._gids:
            if gid == wanted:
                return int(index)
        raise Failed(f"no GID {wanted} on {self.device}: {self._gids}")


def find_list(dump):
    """The list in a JSON dump: itself, or its first member that is one."""
    if isinstance(dump, list):
        return dump
    return next((value for value in dump.values() if isinstance(value, list)), [])


def flatten(value, prefix=""):
    if not isinstance(value, dict):
        return {prefix: value}
    flat = {}
    for key, inner in value.items():
        flat.update(flatten(inner, f"{prefix}.{key}" if prefix else key))
    return flat


class Lab:
    """Two hosts, `a` and `b`. Ends with `close`, which fails when a daemon had died."""

    mtu = 0
    exchange_root = None  # Where both hosts see files; None: anywhere.
    make_namespace = Namespace
    daemon_prefix = ()
    daemon_owner = 0  # The user who has the sockets' directories.
    are_namespaces_ours = True  # and stale ones are removed

    def __init__(self):
        if self.are_namespaces_ours:
            remove_stale()
        self.directory = tempfile.mkdtemp(prefix="uroce-e2e-")
        self.namespaces = []
        self.daemons = []
        try:
            self._build()
        except BaseException:
            self.tear_down()
            raise

    def _build(self):
        raise NotImplementedError

    def _add_namespace(self):
        namespace = self.make_namespace()
        self.namespaces.append(namespace)
        return namespace

    def _add_daemon(self, namespace, *arguments):
        daemon = Daemon(namespace, f"{self.directory}/{len(self.daemons)}", arguments,
                        self.daemon_prefix, self.daemon_owner)
        self.daemons.append(daemon)
        return daemon

    def forget_gids(self):
        for host in (self.a, self.b):
            host.forget_gids()

    def tcp_address(self, _host):
        """Where programs that meet by TCP find a server of this host."""
        return self.server_address

    def tear_down(self):
        """Ends all, whatever its state. May be called again."""
        for daemon in self.daemons:
            daemon.process.kill()
        while self.namespaces:
            self.namespaces.pop().remove()
        shutil.rmtree(self.directory, ignore_errors=True)

    def close(self):
        try:
            for daemon in self.daemons:
                daemon.stop()
        finally:
            self.tear_down()

    def run_pair(self, server_program, client_program, port, timeout_s=60, preload=None):
        """Runs a server on `a` and, when it listens on `port`, its client on `b`; both must
        succeed. Returns their outputs."""
        server = self.a.start(*server_program, preload=preload)
        client = None
        try:
            wait_until(lambda: not server.running() or self.a.is_listening(server, port),
                       f"a listener on {port}: {' '.join(server.command)}", timeout_s=60)
            client = self.b.start(*client_program, preload=preload)
            client.at_hang = server.at_hang = lambda: self._describe_hang(server)
            try:
                client_output = client.expect_success(timeout_s)
                return server.expect_success(timeout_s), client_output
            except Failed as error:
                raise Failed(f"{error}\n-- the client: {client.describe()}"
                             f"\n-- the server: {server.describe()}") from None
        finally:
            server.kill()
            if client:
                client.kill()

    def _describe_hang(self, server):
        """What of the daemons helps to find why a pair does not end."""
        its = where_threads_wait(server.pid) if server.running() else "it has ended"
        dumps = [run_status(host.uroce(what))[1] for host in (self.a, self.b)
                 for what in ("qp", "cq", "cm", "stat")]
        return "\n".join(["", f"-- the server's threads: {its}", *dumps])


class WireLab(Lab):
    """One daemon, two NICs on its in-process wire, which `keys` of --wire say more of."""

    def __init__(self, *arguments, keys=()):
        self.arguments = arguments
        self.keys = keys
        super().__init__()

    def _build(self):
        namespace = self._add_namespace()
        daemon = self._add_daemon(
            namespace, "--wire",
            ",".join(["uroce0=10.0.0.1/24+fd00::1/64", "uroce1=10.0.0.2/24+fd00::2/64",
                      *self.keys]), *self.arguments)
        self.a = Host(namespace, daemon, "uroce0", "10.0.0.1", "fd00::1")
        self.b = Host(namespace, daemon, "uroce1", "10.0.0.2", "fd00::2")
        self.server_address = "127.0.0.1"


class VethLab(Lab):
    """Two daemons on the ends of a veth pair."""

    def __init__(self, mtu, *arguments, device="net_iface;iface=eth0"):
        self.mtu = mtu
        self.device = device
        self.arguments = arguments
        super().__init__()

    def _build(self):
        spaces = [self._add_namespace(), self._add_namespace()]
        make_veth_pair(*spaces, self.mtu)
        hosts = []
        for number, namespace in enumerate(spaces, 1):
            daemon = self._add_daemon(
                namespace, "--port", f"name=uroce0,{self._port(number)}", *self.arguments)
            hosts.append(Host(namespace, daemon, "uroce0", f"10.0.0.{number}", f"fd00::{number}"))
        self.a, self.b = hosts
        self.server_address = "10.0.0.1"

    def _port(self, _number):
        return f"dev={self.device}"


class UdpLab(VethLab):
    """The same by UDP sockets. The daemons run as the user nobody, without any capability."""

    daemon_prefix = UNPRIVILEGED
    daemon_owner = 65534

    def __init__(self, mtu, *arguments, place="eth0"):
        """`place`: an interface or addresses, in which {} is the number of the host."""
        self.place = place
        super().__init__(mtu, *arguments)

    def _add_daemon(self, namespace, *arguments):
        os.chmod(self.directory, 0o711)
        return super()._add_daemon(namespace, *arguments)

    def _port(self, number):
        return f"udp={self.place.format(number, number)}"


class MixedLab(UdpLab):
    """`a` is the daemon of the user nobody by UDP sockets; `b` is one with all rights by iface=."""

    def _port(self, number):
        return super()._port(number) if number == 1 else "iface=eth0"

    def _add_daemon(self, namespace, *arguments):
        if self.daemons:
            self.daemon_prefix, self.daemon_owner = (), 0
        return super()._add_daemon(namespace, *arguments)


__all__ = ["BUILD", "LONG", "PATIENT_CLOCK", "ROOT", "UNPRIVILEGED", "UROCE", "UROCED",
           "VERBS_CHECK", "Daemon", "Host", "Lab", "MixedLab", "UdpLab", "VethLab", "WireLab",
           "find_list", "flatten", "next_port", "run", "run_status", "use_ports_from"]
