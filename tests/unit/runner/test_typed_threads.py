"""Typed values are read from many threads, also classes that nobody has read before: msgspec 0.22 alone dies on these."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import dataclasses, sys, threading
from typing import Literal
import msgspec
from ktdeval.typed import decode_json, from_plain

sys.setswitchinterval(1e-6)
for number in range(80):
    inner = dataclasses.make_dataclass("Inner", [("z", int, 0), ("w", "str | None", None)])
    outer = dataclasses.make_dataclass("Outer", [("a", int, 0), ("b", tuple[inner, ...], ()), ("c", Literal["x", "y"], "x")])
    whole = msgspec.defstruct("Whole", [("outer", outer), ("more", tuple[outer, ...], ())])
    start, found = threading.Barrier(6), []

    def read(place, start=start, found=found, whole=whole):
        start.wait()
        value = [{"outer": {"a": place, "b": [{"z": 1}]}}]
        made = from_plain(value, list[whole], "x") if place % 2 else [decode_json(b'{"outer": {"a": %d}}' % place, whole, "x")]
        found.append(made[0].outer.a)

    threads = [threading.Thread(target=read, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3, 4, 5], found
"""


def test_new_classes_are_read_by_many_threads_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
