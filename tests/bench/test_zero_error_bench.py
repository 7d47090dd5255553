"""Solving time of the zero-error question by points, bits and engine.

Run with ``make bench``; a minute or two. Instances of the reduction class, one planted and one certified
without an answer for each size; every engine alone, with a limit. CPU seconds, one core; ``-`` where an
engine refuses, ``>`` where it was stopped.
"""

import time

import pytest

import ceiling
from ceiling.certify.exact import ENGINES
from ceiling.certify.reduction import Instance, certified_no, planted_yes
from ceiling.problem import InputError, Status

SIZES = (16, 24, 40, 60, 100, 200)
BITS = (10, 20, 40)
WORK = 3.0
"""Deterministic seconds of CP-SAT."""


def solving(instance: Instance, engine: str) -> str:
    """CPU seconds, or why there are none; a wrong answer fails."""
    start = time.process_time()
    try:
        answer = ceiling.zero_error(instance.points, None, instance.s, engine, work=WORK)
    except InputError:
        return "-"
    spent = time.process_time() - start
    if answer.status == Status.UNKNOWN:
        return "-" if answer.stopped_by == "memory" else f"> {spent:.1f}"
    assert answer.status == ("yes" if instance.zero_error else "no")
    return f"{spent:.3f}"


def test_solving_time():
    ceiling.zero_error([1, 2, 3, 4], None, 2, "cp-sat")  # loads OR-tools
    engines = ("auto", *ENGINES)
    print(f"\n{'m':>4} {'bits':>4} {'answer':<13}" + "".join(f"{engine:>20}" for engine in engines))
    for m in SIZES:
        for bits in BITS:
            for instance in (planted_yes(m, bits, 0), certified_no(m, bits, 0)):
                answer = f"{'yes' if instance.zero_error else 'no'} {instance.reason}"
                times = "".join(f"{solving(instance, engine):>20}" for engine in engines)
                print(f"{m:>4} {bits:>4} {answer:<13}{times}")


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("engine", ["auto", "cp-sat", "meet-in-the-middle"])
def test_random_no(engine, benchmark):
    """24 points of 40 bits, none equal: about the longest that CP-SAT decides in seconds."""
    points = [(j * 0x9E3779B97F4A7C15 + 1) ** 3 % 2**40 for j in range(24)]
    points[0] += sum(points) % 2
    answer = benchmark.pedantic(
        ceiling.zero_error, args=(points, None, 12, engine), rounds=3, warmup_rounds=1
    )
    assert answer.status in ("yes", "no")
