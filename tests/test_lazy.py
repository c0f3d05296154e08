"""Properties that are worked out once, by threads that do not wait for each other's."""

from __future__ import annotations

import os
import signal
import threading
from time import sleep

import pytest

from lancekit._lazy import cached_property


class Slow:
    def __init__(self, *gates: threading.Event) -> None:
        self.gates = gates
        self.asked = 0

    @cached_property
    def value(self) -> object:
        """What takes a while."""
        self.asked += 1
        for gate in self.gates:
            assert gate.wait(20)
        return object()


def test_it_is_worked_out_once() -> None:
    one = Slow()
    assert one.value is one.value
    assert one.asked == 1
    assert Slow().value is not one.value
    assert Slow.value.__doc__ == "What takes a while."


def test_nobody_waits_for_another_object() -> None:
    gate = threading.Event()
    slow = Slow(gate)
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert Slow().value  # while the thread is at its own
    gate.set()
    thread.join()


def test_of_threads_that_work_at_once_one_is_first() -> None:
    gate, found = threading.Event(), []
    slow = Slow(gate)
    threads = [threading.Thread(target=lambda: found.append(slow.value)) for _ in range(3)]
    for thread in threads:
        thread.start()
    while slow.asked < 3:
        sleep(0.001)
    gate.set()
    for thread in threads:
        thread.join()
    assert slow.value in found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_wait() -> None:
    gate = threading.Event()
    slow = Slow(gate)
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    while not slow.asked:
        sleep(0.001)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if Slow().value else 1)
    gate.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
