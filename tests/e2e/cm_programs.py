# SPDX-License-Identifier: Apache-2.0
"""Programs that connect by librdmacm: rdmacm-utils, perftest with -R, sockets over rsockets."""
from lab import find_list, next_port
from process import Failed, wait_until

LIBRSPRELOAD = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"


def ids(host):
    """What `uroce cm` knows of ids of librdmacm."""
    return find_list(host.dump("cm"))


def listens(host, port):
    """Whether a program listens on a port of librdmacm."""
    return any(entry["state"] == "LISTEN" and entry["local"].endswith(f":{port}")
               for entry in ids(host))


def run_pair(lab, server_program, client_program, port, timeout_s=60, server_ends=True):
    """Runs a server on `a` and, when it listens on `port`, its client on `b`; both must succeed. A
    server that does not end (`server_ends`) is ended. Returns their outputs."""
    server = lab.a.start(*server_program)
    client = None
    try:
        wait_until(lambda: not server.running() or listens(lab.a, port),
                   f"a listener on {port}: {' '.join(server.command)}", timeout_s=60)
        client = lab.b.start(*client_program)
        client_output = client.expect_success(timeout_s)
        if server_ends:
            return server.expect_success(timeout_s), client_output
        if not server.running():
            raise Failed(f"the server ended: {server.describe()}")
        return server.output(), client_output
    except Failed as error:
        raise Failed(f"{error}\n-- the client: {client.describe() if client else 'none'}"
                     f"\n-- the server: {server.describe()}") from None
    finally:
        server.kill()
        if client:
            client.kill()


def addresses(lab, version):
    """Where the server is, and where its client comes from."""
    if version == 4:
        return lab.a.address, lab.b.address
    return lab.a.address6, lab.b.address6


def rping(lab, *flags, version=4, count=10, persistent=False):
    port = next_port()
    to, source = addresses(lab, version)
    common = ["-a", to, "-p", port, "-C", count, "-V", *flags]
    server = ["rping", "-s", *common, *(["-P"] if persistent else [])]
    return run_pair(lab, server, ["rping", "-c", "-I", source, *common], port,
                    server_ends=not persistent)


def two_sided(lab, tool, *flags, version=4, port=None, server_ends=True, timeout_s=60):
    """A program whose client has -s SERVER and -b SOURCE."""
    to, source = addresses(lab, version)
    family = ["-f", "ip"] if version == 4 else ["-f", "ipv6"]
    if tool in ("cmtime", "udpong"):
        family = []
    where = [] if port else ["-p", next_port()]
    return run_pair(lab, [tool, "-b", to, *family, *where, *flags],
                    [tool, "-s", to, "-b", source, *family, *where, *flags],
                    port or where[1], timeout_s, server_ends)
