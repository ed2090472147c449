# SPDX-License-Identifier: Apache-2.0
"""Two ranks of NCCL on one GPU, which take each other for other machines: collectives of PyTorch,
their results and their bandwidth. Under `uroce run`: nccl_ranks.py socket|host|gpudirect. Prints a
line of JSON for each operation and size, also when a rank fails or takes too long."""
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

RANKS = 2
SIZES = (8, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20)
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "send_recv")
SECONDS = 0.3  # Of each operation and size, at least two times.
LIMIT_S = 45  # Of both ranks.
LOOK_LIMIT_S = 60  # The first import of PyTorch reads gigabytes.
LOOK = """
import torch, torch.distributed
print("" if torch.cuda.is_available() and torch.distributed.is_nccl_available() else
      f"PyTorch {torch.__version__} has no CUDA or no NCCL, or finds no GPU")
"""
NETS = {
    "socket": {"NCCL_NET": "Socket"},
    "host": {"NCCL_NET": "IB", "NCCL_NET_GDR_LEVEL": "LOC"},
    "gpudirect": {"NCCL_NET": "IB", "NCCL_NET_GDR_LEVEL": "SYS", "NCCL_NET_GDR_READ": "1",
                  "NCCL_DMABUF_ENABLE": "1"},
}
# The network that NCCL names for each of its channels, and whether some use memory of the GPU.
WAYS = {"socket": ("Socket", False), "host": ("IB", False), "gpudirect": ("IB", True)}


def missing():
    """Why NCCL cannot run here, or ""."""
    if importlib.util.find_spec("torch") is None:
        return "no PyTorch"
    try:
        look = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=LOOK_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"importing PyTorch takes more than {LOOK_LIMIT_S} s"
    lines = (look.stdout if look.returncode == 0 else look.stderr).strip().splitlines()
    return lines[-1] if lines else ""


def environment(net, rank, port):
    """NCCL_GIN_TYPE=2: NCCL 2.28 crashes in its start with NICs that are not mlx5."""
    others = {name: its for name, its in os.environ.items() if not name.startswith("NCCL_")}
    return {**others, **NETS[net], "NCCL_HOSTID": f"host{rank}", "NCCL_GIN_TYPE": "2",
            "NCCL_IB_HCA": f"=uroce{rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,NET", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "RANK": str(rank), "WORLD_SIZE": str(RANKS)}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def await_ranks(ranks):
    """Until both have ended, one has failed, or the time is over."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and any(rank.poll() is None for rank in ranks):
        if any(rank.poll() for rank in ranks):
            time.sleep(1)  # The other one may say why.
            return
        time.sleep(0.05)


def run_both(net):
    """Returns the exit statuses, None for a rank that was ended, and what each rank printed."""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        paths = [os.path.join(directory, str(rank)) for rank in range(RANKS)]
        ranks = []
        try:
            for rank, path in enumerate(paths):
                with open(path, "wb") as output:
                    ranks.append(subprocess.Popen([sys.executable, "-B", __file__, net, "rank"],
                                                  env=environment(net, rank, port),
                                                  stdout=output, stderr=subprocess.STDOUT))
            await_ranks(ranks)
            statuses = [rank.poll() for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
        texts = []
        for path in paths:
            with open(path, encoding="utf-8", errors="replace") as output:
                texts.append(output.read())
    return statuses, texts


def what_nccl_says(text):
    """`GPU Direct RDMA Enabled for HCA`: the adapter reaches memory of the GPU. Only a channel `via
    NET/IB/0/GDRDMA` uses that."""
    return sorted(set(re.findall(r"NCCL version \S+|Using network \w+|"
                                 r"GPU Direct RDMA \w+ for (?:HCA|GPU)|"
                                 r"via NET/\w+/\d+(?:\(\d+\))?(?:/GDRDMA)?", text)))


def check_way(net, text):
    """The exit status; 1: NCCL took another way than that of `net`."""
    ways = re.findall(r"via NET/(\w+)/\d+(?:\(\d+\))?(/GDRDMA)?", text)
    network, uses_gdr = WAYS[net]
    if {way[0] for way in ways} == {network} and any(way[1] for way in ways) == uses_gdr:
        return 0
    found = ", ".join(sorted("NET/" + "".join(way) for way in set(ways))) or "no channel"
    print(f"NCCL did not go by {net}, but by {found}", file=sys.stderr)
    return 1


def start_both(net):
    """Runs both ranks; prints what rank 0 found, and what NCCL says of its way."""
    statuses, texts = run_both(net)
    for line in texts[0].splitlines():
        if line.startswith("{"):
            print(line)
    print(json.dumps({"note": ", ".join(what_nccl_says("".join(texts)))}))
    if statuses == [0] * RANKS:
        return check_way(net, "".join(texts))
    for rank, (status, text) in enumerate(zip(statuses, texts)):
        end = f"status {status}" if status is not None else f"{LIMIT_S} s, or the other failed"
        said = "\n".join(line for line in text.splitlines() if not line.startswith("{"))
        print(f"rank {rank}: {end}: {said[-1000:].strip()}", file=sys.stderr)
    return 1


class Rank:
    """The operations. Values are small whole numbers, so that sums are exact."""

    def __init__(self):
        import torch  # pylint: disable=import-outside-toplevel
        import torch.distributed as dist  # pylint: disable=import-outside-toplevel
        self.torch, self.dist = torch, dist
        torch.cuda.set_device(0)
        dist.init_process_group("nccl")
        self.rank = dist.get_rank()

    def values(self, count, rank):
        return (self.torch.arange(count, device="cuda", dtype=self.torch.float32) % 251) + rank

    def prepare(self, operation, size):
        """Returns (what to repeat, whether the result is right, share of the bytes on the bus)."""
        torch, dist, rank = self.torch, self.dist, self.rank
        count = max(size // 4, RANKS)
        part = count // RANKS
        mine = self.values(count, rank)
        total = self.values(count, 0) + self.values(count, 1)
        if operation == "all_reduce":
            result = mine.clone()

            def reduce_again():
                result.copy_(mine)
                dist.all_reduce(result)
            return reduce_again, lambda: torch.equal(result, total), 2 * (RANKS - 1) / RANKS
        if operation == "all_gather":
            result = torch.zeros(part * RANKS, device="cuda")
            wanted = torch.cat([self.values(part, each) for each in range(RANKS)])
            share = mine[:part].contiguous()
            return (lambda: dist.all_gather_into_tensor(result, share),
                    lambda: torch.equal(result, wanted), (RANKS - 1) / RANKS)
        if operation == "reduce_scatter":
            result = torch.zeros(part, device="cuda")
            whole = mine[:part * RANKS].contiguous()
            return (lambda: dist.reduce_scatter_tensor(result, whole),
                    lambda: torch.equal(result, total[rank * part:(rank + 1) * part]),
                    (RANKS - 1) / RANKS)
        result = torch.zeros(count, device="cuda")

        def exchange():
            works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, 1 - rank),
                                            dist.P2POp(dist.irecv, result, 1 - rank)])
            for work in works:
                work.wait()
        return exchange, lambda: torch.equal(result, self.values(count, 1 - rank)), 1.0

    def agree(self, value):
        """The least of a number over all ranks."""
        tensor = self.torch.tensor([float(value)], device="cuda")
        self.dist.all_reduce(tensor, op=self.dist.ReduceOp.MIN)
        return tensor.item()

    def measure(self, operation, size):
        repeat, is_right, share = self.prepare(operation, size)
        repeat()
        right = is_right()
        self.torch.cuda.synchronize()
        begin = time.monotonic()
        repeat()
        self.torch.cuda.synchronize()
        times = max(2, min(200, int(SECONDS / max(time.monotonic() - begin, 1e-6))))
        times = int(self.agree(times))
        self.torch.cuda.synchronize()
        begin = time.monotonic()
        for _ in range(times):
            repeat()
        self.torch.cuda.synchronize()
        each = (time.monotonic() - begin) / times
        right = self.agree(right and is_right()) == 1
        if self.rank == 0:
            print(json.dumps({"operation": operation, "bytes": size, "right": right,
                              "seconds": each, "busbw_gbps": 8e-9 * size * share / each}),
                  flush=True)
        return right

    def run(self):
        results = [self.measure(operation, size) for operation in OPERATIONS for size in SIZES]
        self.dist.destroy_process_group()
        return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(Rank().run() if sys.argv[2:] == ["rank"] else start_both(sys.argv[1]))
