# SPDX-License-Identifier: Apache-2.0
"""Throughput by the number of CPUs: kernel interfaces and UDP sockets against the kernel's TCP on
the same veth pair, and NICs inside one daemon by the number of workers and of pairs of programs. A
table is measured in rounds, every cell once a round, so that a change of the machine's speed meets
all of them. For more workers than the machine has CPUs, callgrind counts instructions instead."""
import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import scale_bundle  # noqa: E402
from labs.lab import BUILD, Lab, UdpLab, VethLab, WireLab, next_port  # noqa: E402
from labs.netns import make_veth_pair  # noqa: E402
from labs.process import Process, is_listening, run, wait_until  # noqa: E402
from labs.programs import perftest_rows  # noqa: E402

MTUS = (9000, 1500)
# Name, program of perftest, bytes of a message.
TRANSFERS = (("64 KB WRITE", "ib_write_bw", 65536), ("1 MB WRITE", "ib_write_bw", 1 << 20),
             ("64 KB READ", "ib_read_bw", 65536), ("64 KB SEND", "ib_send_bw", 65536))
MANY_QUEUE_PAIRS = 8
PORT_ALONE = BUILD / "tests" / "bench" / "port_alone"
WORKERS_BENCH = BUILD / "tests" / "bench" / "workers_bench"
SIMULATED_CORES = (1, 2, 4, 8, 16)
COLUMN_GBPS, COLUMN_MESSAGES = 3, 4  # Of a row of perftest: average Gb/s, million messages/s.


class InterfaceLab(VethLab):
    """iface= with as many queues as workers."""

    def __init__(self, mtu, workers=1):
        self.workers = workers
        super().__init__(mtu, "--workers", str(workers))

    def _port(self, _number):
        return f"iface=eth0,queues={self.workers}" if self.workers > 1 else "iface=eth0"


class BareLab(Lab):
    """A veth pair without daemons."""

    def __init__(self, mtu):
        self.mtu = mtu
        super().__init__()

    def _build(self):
        self.a, self.b = self._add_namespace(), self._add_namespace()
        make_veth_pair(self.a, self.b, self.mtu)


def cpus():
    return len(os.sched_getaffinity(0))


def worker_counts():
    """1, 2, 4 ... as far as there are CPUs."""
    return [count for count in (1, 2, 4, 8, 16, 32, 64) if count <= max(2, cpus())]


def tcp_gbps(lab, seconds, streams=1):
    """iperf3 between the hosts of a lab, over the interfaces of its NICs."""
    port = next_port()
    server = Process(lab.a.namespace.command(["iperf3", "-s", "-1", "-p", port]))
    try:
        wait_until(lambda: is_listening(server.pid, port), "iperf3")
        client = ["iperf3", "-c", lab.a.address, "-p", port, "-t", seconds, "-P", streams, "-J"]
        text = run(lab.b.namespace.command(client), seconds + 30)
        return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 1e9
    finally:
        server.kill()


def alone_gbps(mtu, kind, seconds):
    """A port with nothing behind it: what a transport can come near to (programs/port_alone.cc)."""
    with closing(BareLab(mtu)) as lab:
        mac_a, mac_b = (json.loads(space.ip("-j", "link", "show", "eth0"))[0]["address"]
                        for space in (lab.a, lab.b))
        receiver = Process(lab.a.command(
            [PORT_ALONE, "receive", kind, "eth0", mac_a, mac_b, seconds + 2]))
        try:
            wait_until(lambda: "ready" in receiver.output(), "the receiving port")
            run(lab.b.command([PORT_ALONE, "send", kind, "eth0", mac_b, mac_a, seconds]),
                seconds + 30)
            return float(receiver.expect_success(30).split()[-2])
        finally:
            receiver.kill()


def pairs_row(lab, program, size, seconds, pairs=1, *flags):
    """`pairs` pairs of a perftest program at once: the sums of their Gb/s and of their million
    messages a second."""
    words = [program, "-F", "-s", size, "-D", seconds, "--report_gbits", *flags]
    ports = [next_port() for _ in range(pairs)]
    with ExitStack() as stack:
        def start(host, port, *more):
            started = host.start(*words, "-d", host.device, "-x", host.gid_index(), "-p", port,
                                 *more)
            stack.callback(started.kill)
            return started

        servers = [start(lab.a, port) for port in ports]
        for server, port in zip(servers, ports):
            wait_until(lambda: lab.a.is_listening(server, port), "a listener")
        clients = [start(lab.b, port, lab.server_address) for port in ports]
        rows = [perftest_rows(client.expect_success(seconds + 60))[-1] for client in clients]
    return sum(row[COLUMN_GBPS] for row in rows), sum(row[COLUMN_MESSAGES] for row in rows)


class Table:
    """Cells by name, with their values of all rounds."""

    def __init__(self, title, unit):
        self.title, self.unit = title, unit
        self.cells = {}  # (row, column): values

    def add(self, row, column, value):
        self.cells.setdefault((row, column), []).append(value)

    def median(self, row, column):
        return statistics.median(self.cells[row, column])

    def rows(self):
        return list(dict.fromkeys(row for row, _ in self.cells))

    def columns(self):
        return list(dict.fromkeys(column for _, column in self.cells))

    def markdown(self, rival=None):
        """`rival`: the column or row that others are divided by."""
        lines = [f"### {self.title}, {self.unit}", "",
                 "| | " + " | ".join(map(str, self.columns())) + " |",
                 "|---|" + "---|" * len(self.columns())]
        for row in self.rows():
            cells = [self._cell(row, column, rival) for column in self.columns()]
            lines.append(f"| {row} | " + " | ".join(cells) + " |")
        return "\n".join([*lines, ""])

    def _cell(self, row, column, rival):
        values = self.cells.get((row, column))
        if not values:
            return ""
        text = f"{statistics.median(values):.2f}"
        if len(values) > 1:
            text += f" ({min(values):.2f} to {max(values):.2f})"
        against = next((place for place in ((row, rival), (rival, column)) if place in self.cells),
                       None)
        if against is None or against == (row, column):
            return text
        return f"{text}, **{self.median(row, column) / self.median(*against):.2f}**"


def measure_interfaces(options):
    """Two daemons on a veth pair, in turns with iperf3 on the same pair."""
    many = min(4, cpus())
    kinds = {"iface=": InterfaceLab, "udp=": UdpLab}
    for mtu in MTUS:
        table = Table(f"veth, MTU {mtu}, one queue pair, against iperf3", "Gb/s")
        wide = Table(f"veth, MTU {mtu}, {MANY_QUEUE_PAIRS} queue pairs, 64 KB WRITE", "Gb/s")
        for _ in range(options.rounds):
            for kind, make in kinds.items():
                with closing(make(mtu)) as lab:
                    table.add(kind, "iperf3", tcp_gbps(lab, options.seconds))
                    for name, program, size in TRANSFERS:
                        gbps, _ = pairs_row(lab, program, size, options.seconds)
                        table.add(kind, name, gbps)
                table.add(kind, "the port alone",
                          alone_gbps(mtu, kind.rstrip("="), options.seconds))
            for workers in sorted({1, many}):
                with closing(InterfaceLab(mtu, workers)) as lab:
                    row = f"iface=, queues={workers}"
                    wide.add(row, "iperf3", tcp_gbps(lab, options.seconds, many))
                    gbps, _ = pairs_row(lab, "ib_write_bw", 65536, options.seconds, 1, "-q",
                                        str(MANY_QUEUE_PAIRS))
                    wide.add(row, "uroce", gbps)
        yield table, "iperf3"
        yield wide, "iperf3"


def measure_workers(options):
    """One daemon, whose two NICs are joined inside it."""
    by_bytes = Table("inside one daemon, 64 KB WRITE, sum of all pairs of programs", "Gb/s")
    by_messages = Table("inside one daemon, 64 B WRITE, sum of all pairs of programs", "M/s")
    for _ in range(options.rounds):
        for workers in worker_counts():
            with closing(WireLab("--workers", str(workers))) as lab:
                row = f"{workers} worker{'s' if workers > 1 else ''}"
                kinds = [(f"{pairs} pair{'s' if pairs > 1 else ''}", pairs, ())
                         for pairs in worker_counts()]
                many = ("-q", str(MANY_QUEUE_PAIRS))
                for column, pairs, flags in [*kinds,
                                             (f"1 pair, {MANY_QUEUE_PAIRS} queue pairs", 1, many)]:
                    gbps, _ = pairs_row(lab, "ib_write_bw", 65536, options.seconds, pairs, *flags)
                    by_bytes.add(row, column, gbps)
                    _, messages = pairs_row(lab, "ib_write_bw", 64, options.seconds, pairs, *flags)
                    by_messages.add(row, column, messages)
    yield by_bytes, "1 worker"
    yield by_messages, "1 worker"


def instructions_of_message(workers, placement):
    """The instructions that all workers run for one WRITE of 64 B, counted by callgrind in one
    thread that runs a turn of each worker after the other: a simulated core for each worker.
    `placement`: whether the ends of a connection are on one worker ("own") or on two ("across")."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "callgrind.out"
        printed = run(
            ["valgrind", "--tool=callgrind", "--collect-atstart=no",
             "--toggle-collect=uroce::datapath::Worker::RunOnce*",
             f"--callgrind-out-file={profile}", WORKERS_BENCH, "turns", workers, placement],
            timeout_s=600)
        messages = int(re.search(r"(\d+) messages", printed)[1])
        counted = int(re.search(r"^(?:summary|totals): (\d+)", profile.read_text(), re.M)[1])
    return counted / messages


def measure_cores(_options):
    """One worker and more, whatever the CPUs. The load is always the same, so that one round of
    counting is enough."""
    if not WORKERS_BENCH.exists() or not shutil.which("valgrind"):
        print("instructions are not counted: that needs valgrind and workers_bench\n", flush=True)
        return
    table = Table("one simulated core for each worker, 64 B WRITE", "instructions of a message")
    for workers in SIMULATED_CORES:
        row = f"{workers} worker{'s' if workers > 1 else ''}"
        table.add(row, "both ends on one worker", instructions_of_message(workers, "own"))
        if workers > 1:
            table.add(row, "ends on two workers", instructions_of_message(workers, "across"))
    yield table, "1 worker"


PARTS = {"interfaces": measure_interfaces, "workers": measure_workers, "cores": measure_cores}


def machine():
    """What the machine is, in one line."""
    fields = {}
    text = run(["lscpu", "-J"])
    for entry in json.loads(text)["lscpu"]:
        fields[entry["field"].rstrip(":")] = entry.get("data")
    return (f"{fields.get('Model name')}, {cpus()} of {os.cpu_count()} CPUs, "
            f"L3 {fields.get('L3 cache', fields.get('L3', '?'))}, "
            f"{fields.get('NUMA node(s)', '1')} NUMA node(s), Linux {platform.release()}, "
            f"load {os.getloadavg()[0]:.1f}")


def plot(tables, path):
    """Bars of the medians, a plot for each table, by gnuplot. The name's end says which format."""
    terminal = "pngcairo" if path.suffix == ".png" else "svg dynamic background rgb 'white'"
    script = [f"set terminal {terminal} size 900,{360 * len(tables)}",
              f"set output '{path}'", f"set multiplot layout {len(tables)},1",
              "set style data histograms", "set style fill solid 0.8", "set yrange [0:*]",
              "set key outside right top", "set grid ytics"]
    for number, table in enumerate(tables):
        rows, columns = table.rows(), table.columns()
        lines = ["\t".join(["-", *(f'"{row}"' for row in rows)])]
        for column in columns:
            medians = [f"{table.median(row, column):.3f}" if (row, column) in table.cells else "NaN"
                       for row in rows]
            lines.append("\t".join([f'"{column}"', *medians]))
        script += [f"$data{number} << EOD", *lines, "EOD", f"set title '{table.title}'",
                   f"set ylabel '{table.unit}'",
                   f"plot for [i=2:{len(rows) + 1}] $data{number} using i:xtic(1) "
                   "title columnheader(i)"]
    subprocess.run(["gnuplot"], input="\n".join(script), text=True, check=True)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, prog="run-scale")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--only", choices=list(PARTS))
    parser.add_argument("--plot", type=Path, metavar="FILE",
                        help="also draw, FILE.svg or FILE.png; needs gnuplot")
    parser.add_argument("--bundle", type=Path, metavar="DIRECTORY",
                        help="measure nothing: make a folder that runs on another machine")
    options = parser.parse_args(arguments)
    if options.plot and not shutil.which("gnuplot"):
        parser.error("--plot needs gnuplot (apt-get install gnuplot-nox)")
    return options


def main(arguments):
    options = parse(arguments)
    if options.bundle:
        return scale_bundle.make(ROOT, options.bundle)
    print(f"## uroce on {machine()}\n\nMedians of {options.rounds} rounds of {options.seconds} s a "
          "cell (least to most), **ratio**\n", flush=True)
    tables = []
    for name, measure in PARTS.items():
        if options.only in (None, name):
            for table, rival in measure(options):
                print(table.markdown(rival), flush=True)
                tables.append(table)
    if options.plot:
        plot(tables, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
