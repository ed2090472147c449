# SPDX-License-Identifier: Apache-2.0
"""The programs that users bring: rdma-core's examples, perftest, and verbs_check."""
import os
import pathlib
import tempfile

from labs.lab import PATIENT_CLOCK, VERBS_CHECK, find_list, next_port
from labs.process import Failed, wait_until

# A script of a shell: a ping-pong between the two NICs of a daemon, on the network of this machine.
PING_PONG = """
port=$((20000 + $$ % 10000))
ibv_rc_pingpong -d uroce0 -g 1 -c -p $port & server=$!
for _ in $(seq 300); do
  ibv_rc_pingpong -d uroce1 -g 1 -c -p $port 127.0.0.1 && wait $server && exit
  sleep 0.1
done
kill $server
exit 1"""


def pingpong(lab, *flags, version=4, timeout_s=60, service="rc"):
    """ibv_rc_pingpong, or another service's, between the hosts; returns both outputs."""
    port = next_port()

    def program(host):
        return [f"ibv_{service}_pingpong", "-d", host.device, "-g", host.gid_index(version),
                "-p", port, *flags]

    outputs = lab.run_pair(program(lab.a), [*program(lab.b), lab.server_address], port, timeout_s)
    for output in outputs:
        if "invalid data" in output or "bytes in" not in output:
            raise Failed(f"ibv_{service}_pingpong {flags}: {output}")
    return outputs


def extended_pingpong(lab, *flags):
    """ibv_xsrq_pingpong between the hosts, which looks at no byte and says nothing but success."""
    port = next_port()

    def program(host):
        return ["ibv_xsrq_pingpong", "-d", host.device, "-g", host.gid_index(), "-p", port, *flags]

    for output in lab.run_pair(program(lab.a), [*program(lab.b), lab.server_address], port):
        if "success" not in output:
            raise Failed(f"ibv_xsrq_pingpong {flags}: {output}")


def pingpong_with_losses(lab, *flags, timeout_s=60):
    """The same over a network that loses packets. The two ends do not say goodbye to each other:
    when the ACK of the very last message is lost, the end that has all it wants has left, and the
    other one's retries end in vain. Then, and only then, it is run again."""
    for _ in range(5):
        try:
            return pingpong(lab, *flags, timeout_s=timeout_s)
        except Failed as error:
            one_end_is_done = str(error).count(" iters in ") == 1
            if not one_end_is_done or "retry counter exceeded" not in str(error):
                raise
    raise Failed(f"ibv_rc_pingpong {flags}: five times its last message was not acknowledged")


def perftest(lab, tool, *flags, version=4, timeout_s=90):
    """A perftest program between the hosts; returns the client's rows of numbers."""
    port = next_port()

    def program(host):
        return [tool, "-d", host.device, "-x", host.gid_index(version), "-p", port, "-F", *flags]

    _, output = lab.run_pair(program(lab.a), [*program(lab.b), lab.server_address], port,
                             timeout_s, PATIENT_CLOCK)
    rows = perftest_rows(output)
    if not rows:
        raise Failed(f"{tool} {flags} printed no numbers:\n{output}")
    return rows


def endless_writes(test, lab, *flags, tool="ib_write_bw", server_prefix=()):
    """A tool of perftest from one host to the other that is under way, and ends when it fails or is
    killed, at the latest with the test; returns server and client. `server_prefix`: what starts the
    server, as another user perhaps."""
    port = next_port()

    def program(host):
        return [tool, "-d", host.device, "-x", host.gid_index(), "-p", port, "-F",
                "--run_infinitely", "-D", 1, *flags]

    def has_sent():
        return any(qp["device"] == lab.b.device and qp["sent_packets"] > 100
                   for qp in find_list(lab.b.dump("qp")))

    server = lab.a.start(*server_prefix, *program(lab.a))
    test.addCleanup(server.kill)
    wait_until(lambda: lab.a.is_listening(server, port), "a listener")
    client = lab.b.start(*program(lab.b), lab.server_address)
    test.addCleanup(client.kill)
    wait_until(lambda: not client.running() or has_sent(), "traffic")
    return server, client


def perftest_rows(output):
    """Lines of numbers: bytes, iterations, and what the tool measures."""
    rows = []
    for line in output.splitlines():
        words = line.split()
        try:
            row = [float(word) for word in words]
        except ValueError:
            continue
        if len(row) >= 4:
            rows.append(row)
    return rows


def ucx_perftest(lab, transport, test, *flags, timeout_s=90):
    """ucx_perftest over one transport of UCX between the hosts; the client must print a result."""
    port = next_port()

    def program(host):
        return ["env", f"UCX_TLS={transport},self", f"UCX_NET_DEVICES={host.device}:1",
                "ucx_perftest", "-p", port]

    _, output = lab.run_pair(program(lab.a),
                             [*program(lab.b), lab.server_address, "-t", test, *flags], port,
                             timeout_s)
    if "Final:" not in output:
        raise Failed(f"ucx_perftest {test} over {transport} printed no result:\n{output}")


class DataCheck:
    """verbs_check with an end on each host, in two processes. `ongoing`: they send until `finish`
    is called, however fast the machine is. `prefix`: what starts them, as another user perhaps.
    Each end computes from the seed what the other one sends."""

    def __init__(self, lab, *flags, version=4, ongoing=False, prefix=()):
        self._lab = lab
        self._exchange = tempfile.TemporaryDirectory(prefix="uroce-e2e-", dir=lab.exchange_root)
        os.chmod(self._exchange.name, 0o777)
        self._enough = pathlib.Path(self._exchange.name, "enough")
        if ongoing:
            flags = (*flags, "--ops", 1, "--until", lab.a.seen(self._enough))

        def program(host, role):
            return [*prefix, host.seen(VERBS_CHECK), "--role", role,
                    "--exchange", host.seen(self._exchange.name),
                    "--device-a", lab.a.device, "--device-b", lab.b.device,
                    "--gid-a", lab.a.gid_index(version), "--gid-b", lab.b.gid_index(version),
                    "--seed", own_seed, *flags]

        own_seed = seed()
        self._ends = [lab.a.start(*program(lab.a, 0)), lab.b.start(*program(lab.b, 1))]

    def wait_for_end_on(self, host, timeout_s=60):
        """Waits until the program of this host has ended; returns its exit status."""
        return self._ends[0 if host is self._lab.a else 1].wait(timeout_s)

    def finish(self, timeout_s=180):
        """Waits for both ends, which must find all data right; returns their outputs."""
        try:
            self._enough.touch()
            return [end.expect_success(timeout_s) for end in self._ends]
        except Failed as error:
            raise Failed(f"{error}\n-- the other end: "
                         f"{self._ends[0].output()}{self._ends[1].output()}") from None
        finally:
            self.kill()

    def kill(self):
        for end in self._ends:
            end.kill()
        self._exchange.cleanup()


def data_check(lab, *flags, version=4, timeout_s=180):
    """verbs_check with an end on each host, in two processes; returns their outputs."""
    return DataCheck(lab, *flags, version=version).finish(timeout_s)


def faults_of(host):
    """How many packets the faults of its port have dropped, repeated or put out of order."""
    return sum(value for name, value in host.counters().items()
               if name.startswith(("fault_receive.", "fault_transmit."))
               and name.endswith((".dropped", ".duplicated", ".reordered")))


def check_with_faults(lab, host, *flags, rounds=20, version=4):
    """verbs_check, again and again until the port of `host` has made a fault meanwhile."""
    before = faults_of(host)
    for _ in range(rounds):
        data_check(lab, *flags, "--deadline", 60, version=version)
        if faults_of(host) > before:
            return
    raise Failed(f"no fault in {rounds} rounds of verbs_check {flags}")


def data_check_in_one_process(lab, *flags, timeout_s=180):
    """verbs_check with both ends in one program: only where one daemon has both NICs."""
    return lab.a.run(VERBS_CHECK, "--device-a", lab.a.device, "--device-b", lab.b.device,
                     "--gid-a", lab.a.gid_index(), "--gid-b", lab.b.gid_index(), *flags,
                     timeout_s=timeout_s)


def seed():
    """A new one for each run; it is printed by what fails. UROCE_E2E_SEED replays."""
    return int(os.environ.get("UROCE_E2E_SEED", str(int.from_bytes(os.urandom(3), "little"))))


def results_of_modes(run_in, modes):
    """What equal_results prints in each mode of UROCE_MR, as `run_in(mode)` returns it, by mode.
    Its transfers depend on the kinds of memory that there are. Other programs take huge pages and
    give them back meanwhile: then all modes run again."""
    for _ in range(10):
        results = {mode: run_in(mode) for mode in modes}
        if len({result.partition("\n")[0] for result in results.values()}) == 1:
            return results
    raise Failed(f"each time other kinds of memory, the last time {results}")
