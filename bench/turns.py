"""Calls timed in turns: what the machine does meanwhile meets all of them."""
import statistics
import time

ROUND_SECONDS = 0.1


def in_turns(calls, rounds):
    """[(least, median)] of each call, in ms: in every round each of them as often as fits into a tenth of a second, once at least."""
    times = [[] for _ in calls]
    for _ in range(rounds):
        for taken, call in zip(times, calls):
            repeats, start = 0, time.perf_counter()
            while repeats == 0 or time.perf_counter() - start < ROUND_SECONDS:
                call()
                repeats += 1
            taken.append((time.perf_counter() - start) / repeats * 1e3)
    return [(min(taken), statistics.median(taken)) for taken in times]
