# SPDX-License-Identifier: Apache-2.0
"""Two ranks that exchange tensors by TCP. The environment says what goes wrong: UROCE_TEST_WRONG
names an operation whose result has a wrong number; UROCE_TEST_SAYS is printed, as NCCL prints what
it does; UROCE_TEST_FAILS is a rank that fails while the other one waits."""
import json
import os
import socket
import time

from torch import Tensor

SECONDS = 20


class State:
    """The connection to the other rank."""
    rank = int(os.environ.get("RANK", 0))
    reader = None
    writer = None


class ReduceOp:
    """How to reduce."""
    SUM = "sum"
    MIN = "min"


def is_nccl_available():
    return True


def init_process_group(backend):
    assert backend == "nccl"
    print(os.environ.get("UROCE_TEST_SAYS", ""), flush=True)
    if "UROCE_TEST_FAILS" in os.environ:
        print('{"operation": "none"}', flush=True)
        if os.environ["UROCE_TEST_FAILS"] == str(State.rank):
            raise RuntimeError("NCCL error: a reason")
        time.sleep(600)
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if State.rank == 0:
        with socket.create_server(place) as listener:
            listener.settimeout(SECONDS)
            connection = listener.accept()[0]
    else:
        end = time.monotonic() + SECONDS
        while True:
            try:
                connection = socket.create_connection(place)
                break
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
    connection.settimeout(SECONDS)
    State.reader = connection.makefile("r", encoding="utf-8")
    State.writer = connection.makefile("w", encoding="utf-8")


def destroy_process_group():
    State.writer.close()
    State.reader.close()


def get_rank():
    return State.rank


def exchange(values):
    """Returns the other's numbers."""
    State.writer.write(json.dumps(values) + "\n")
    State.writer.flush()
    return json.loads(State.reader.readline())


def give(operation, result, values):
    if os.environ.get("UROCE_TEST_WRONG") == operation:
        values[-1] += 1
    result.copy_(Tensor(values))


def all_reduce(result, op=ReduceOp.SUM):
    other = exchange(result.values)
    if op == ReduceOp.MIN:
        return result.copy_(Tensor(map(min, zip(result.values, other))))
    return give("all_reduce", result, [a + b for a, b in zip(result.values, other)])


def all_gather_into_tensor(result, share):
    parts = [share.values, exchange(share.values)]
    give("all_gather", result, [value for part in (parts if State.rank == 0 else parts[::-1])
                                for value in part])


def reduce_scatter_tensor(result, whole):
    part = len(whole.values) // 2
    total = [a + b for a, b in zip(whole.values, exchange(whole.values))]
    give("reduce_scatter", result, total[State.rank * part:(State.rank + 1) * part])


class P2POp:
    """A transfer to a peer, or from there."""

    def __init__(self, operation, tensor, peer):
        assert peer == 1 - State.rank
        self.operation, self.tensor = operation, tensor


def isend():
    raise AssertionError("only in a batch")


def irecv():
    raise AssertionError("only in a batch")


class Work:
    """Done at once."""

    def wait(self):
        return True


def batch_isend_irecv(operations):
    (sent,) = [each.tensor for each in operations if each.operation is isend]
    (received,) = [each.tensor for each in operations if each.operation is irecv]
    give("send_recv", received, exchange(sent.values))
    return [Work() for each in operations]
