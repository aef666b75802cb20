"""A simulation over two processes of JAX's distributed runtime is the simulation in one."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

SCRIPT = Path(__file__).parent / "two_processes.py"


def start(*arguments: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(process: subprocess.Popen[str]) -> dict:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err[-2000:]
    return json.loads(out.strip().splitlines()[-1])


def test_two_processes_give_what_one_gives():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    alone = answer(start(1, 0, 0))
    pair = [start(2, me, port) for me in range(2)]
    for found in map(answer, pair):
        np.testing.assert_allclose(found["w"], alone["w"], rtol=1e-10)
        np.testing.assert_allclose(found["scores"]["loss"], alone["scores"]["loss"], rtol=1e-10)
