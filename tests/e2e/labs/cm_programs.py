# SPDX-License-Identifier: Apache-2.0
"""Programs that connect by librdmacm: rdmacm-utils, perftest with -R, fio, UCX, sockets over
rsockets."""
from pathlib import Path

from labs.lab import find_list, next_port
from labs.process import Failed, run, wait_until

LIBRSPRELOAD = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"


def ids(host):
    """What `uroce cm` knows of ids of librdmacm."""
    return find_list(host.dump("cm"))


def listens(host, port):
    """Whether a program listens on a port of librdmacm."""
    return any(entry["state"] == "LISTEN" and entry["local"].endswith(f":{port}")
               for entry in ids(host))


# What rping's event thread says when the main thread, whose work is done, closes the channel before
# this thread asks for its next event. It then ends the process with status 255.
LATE_EVENT_THREAD = "rdma_get_cm_event: Bad file descriptor"


def run_pair(lab, server_program, client_program, port, timeout_s=60, server_ends=True):
    """Runs a server on `a` and, when it listens on `port`, its client on `b`; both must succeed. A
    server that does not end (`server_ends`) is ended. Returns their outputs."""
    server = lab.a.start(*server_program)
    client = None
    try:
        wait_until(lambda: not server.running() or listens(lab.a, port),
                   f"a listener on {port}: {' '.join(server.command)}", timeout_s=60)
        client = lab.b.start(*client_program)
        if client.wait(timeout_s) == 255 and client.output().strip() == LATE_EVENT_THREAD:
            client_output = ""
        else:
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


def connect_on_one_host(lab, at, to):
    """A server that listens at `at`, and a client of `to`, which names no source."""
    port = next_port()
    common = ["ucmatose", "-f", "ipv6" if ":" in at else "ip", "-p", port]
    return run_pair(lab, [*common, "-b", at], [*common, "-s", to], port)


def two_sided(lab, tool, *flags, version=4, port=None, server_ends=True, timeout_s=60):
    """A program whose client has -s SERVER and -b SOURCE."""
    to, source = addresses(lab, version)
    family = ["-f", "ip"] if version == 4 else ["-f", "ipv6"]
    if tool == "cmtime":
        family = []
    where = [] if port else ["-p", next_port()]
    return run_pair(lab, [tool, "-b", to, *family, *where, *flags],
                    [tool, "-s", to, "-b", source, *family, *where, *flags],
                    port or where[1], timeout_s, server_ends)


def groups_of(host):
    """Multicast groups that the host's NIC is in."""
    return [group for device in host.dump("devices")["devices"] if device["name"] == host.device
            for group in device["groups"]]


def mckey(lab, groups):
    """Ten datagrams from `b` to a program of `a` in each of `groups`, all at a time: mckey takes
    its time before it sends. Each receiver must get them all, and every sender ends well."""
    receivers, senders = [], []
    try:
        for source, there, group in groups:
            receivers.append(lab.a.start("mckey", "-m", group, "-b", there))
            wait_until(lambda its=group: its in groups_of(lab.a), f"a receiver in {group}")
            senders.append(lab.b.start("mckey", "-s", "-m", group, "-b", source))
        for program in (*senders, *receivers):
            if "data transfers complete" not in program.expect_success(60):
                raise Failed(program.describe())
    finally:
        for program in (*receivers, *senders):
            program.kill()


def perftest_by_cm(lab, tool, *flags):
    """A perftest program that connects by librdmacm. It does so twice, and its server listens again
    for the second time: a client that is faster is refused (reason 8: no listener), and crashes.
    Then, and only then, it is run again."""
    for _ in range(5):
        port = next_port()
        program = [tool, "-R", "-p", port, "-F", *flags]
        try:
            return run_pair(lab, program, [*program, lab.a.address], port, timeout_s=90)
        except Failed as error:
            if "RDMA_CM_EVENT_REJECTED; error: 8" not in str(error):
                raise
    raise Failed(f"{tool} {flags}: five times its client was faster than its server")


def fio(lab, verb):
    """8 MB by fio's engine. What is sent is verified by the receiver, by checksums in each block;
    the engine verifies nothing of RDMA WRITE and READ. A sender does not wait for receives: there
    is one for each block from the start."""
    port = next_port()
    verified = ["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"]
    check = verified if verb == "send" else []
    common = [f"--port={port}", "--bs=64k", "--size=8m", *check]
    server = ["--name=server", "--ioengine=rdma", "--rw=read", "--iodepth=128",
              f"--verb={'recv' if verb == 'send' else verb}"]
    client = ["--name=client", "--ioengine=rdma", "--rw=write", "--iodepth=8", f"--verb={verb}",
              f"--hostname={lab.a.address}", *(["--do_verify=0"] if check else [])]
    return run_pair(lab, ["fio", *server, *common], ["fio", *client, *common], port)


UCX_EXAMPLE = "/usr/share/doc/libucx-dev/examples/ucp_client_server.c"


def build_ucx_example(directory):
    """UCX's own example of a client that connects to a socket address, from its package. Its client
    closes by force as soon as the last message has left, which may cut that message off; here the
    client waits until the server has received it, for the file that RECEIVED names."""
    text = Path(UCX_EXAMPLE).read_text(encoding="utf-8")
    for before, statement in (
            ("/* Close the endpoint to the client */", 'close(creat(getenv("RECEIVED"), 0600));'),
            ("/* Close the endpoint to the server */",
             'while (access(getenv("RECEIVED"), F_OK)) ucp_worker_progress(ucp_worker);')):
        if text.count(before) != 1:
            raise Failed(f"{UCX_EXAMPLE} has not one line {before}")
        text = text.replace(before, statement)
    source, program = Path(directory, "example.c"), Path(directory, "ucp_client_server")
    source.write_text("#include <fcntl.h>\n" + text, encoding="utf-8")
    run(["cc", "-O1", "-w", "-iquote", Path(UCX_EXAMPLE).parent, source, "-o", program, "-lucp",
         "-lucs", "-lm"], 60)
    return program


def ucx(lab, example, kind, *environment, count=10):
    """`count` messages of a kind, "tag", "am" or "stream", from a client on `b`."""
    port = next_port()
    received = Path(f"{example}-{port}")
    if kind == "am":  # Its server takes two messages that arrive together for one: no wait for all.
        received.touch()
    program = ["env", *environment, f"RECEIVED={received}", example, "-p", port, "-c", kind,
               "-i", count, "-s", 5000]
    server_output, client_output = run_pair(lab, program, [*program, "-a", lab.a.address], port,
                                            server_ends=False)
    if f"iteration #{count}" not in client_output:
        raise Failed(f"{client_output}\n-- the server: {server_output}")
