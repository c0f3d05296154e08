"""Time and randomness of commits."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and randomness, passed as an argument so that tests are reproducible."""

    now_ns: Callable[[], int] = time.time_ns
    elapsed: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: random.Random = field(default_factory=random.Random)
