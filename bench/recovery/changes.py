"""Planned changes: how long do those who stay pause?

By the trainer's own clock: from when it asks what to do after the last step in the old generation
until it is given the first slice in the new one. Beside it what libmuster says (pause_us)."""
import statistics
import time

from recovery.cluster import Cluster, generation_of, step_s

RESIZE_GOAL_MS = 5
KUNGFU_MS = 16.5  # Published: a resize of KungFu's fake adaptive trainer, no state.
BANDWIDTH_SHARE = 0.7


class Change:
    """What one cost those who stayed, in ms: of the one who waited longest."""

    def __init__(self, logs, after):
        stayed = [log for log in logs.values()
                  if any(step.generation == after for step in log.steps)]
        self.ms = max(self.pause_ns(log, after) for log in stayed) / 1e6
        self.told_ms = max(self.first(log, after).pause_us for log in stayed) / 1e3
        self.step_ms = max(self.first(log, after).ns - self.last(log, after).ns
                           for log in stayed) / 1e6

    @staticmethod
    def first(log, after):
        """The first step that it saw committed in the new generation."""
        return next(step for step in log.steps if step.generation > after)

    @staticmethod
    def last(log, after):
        return [step for step in log.steps if step.generation <= after][-1]

    @staticmethod
    def pause_ns(log, after):
        given = next(s for s in log.slices if s.generation > after)
        return given.ns - given.asked_ns


def undisturbed_ms(cluster, nodes_n):
    """A step of so many."""
    logs, _ = cluster.settled(nodes_n, 2)
    now_ns = time.monotonic_ns()
    return step_s(logs, now_ns - 1_500_000_000, now_ns) * 1e3


def shrink(cluster, nodes_n):
    _, before = cluster.settled(nodes_n, 0.3)
    cluster.resize(nodes_n - 1)
    return Change(cluster.wait_together(nodes_n - 1, before), before)


def grow(cluster, nodes_n):
    _, before = cluster.settled(nodes_n - 1, 0.3)
    cluster.resize(nodes_n)
    return Change(cluster.wait_together(nodes_n, before), before)


def run_resize(report, programs, folder, counts, shape, times):
    """3 nodes to 2 and back. Those who left wait warm, so that growing is a join without a start."""
    shrinks, grows = [], []
    cluster = Cluster(programs, folder, shape, 3)
    try:
        cluster.wait_together(3)
        cluster.resize(2)
        of_2_ms = undisturbed_ms(cluster, 2)
        grow(cluster, 3)
        for _ in range(times):
            shrinks.append(shrink(cluster, 3))
            grows.append(grow(cluster, 3))
    finally:
        cluster.close()
    counts.add(cluster)
    report.add_all('resize 3 to 2: pause of the others', [c.ms for c in shrinks], 'ms',
                   goal=RESIZE_GOAL_MS, kungfu_ms=KUNGFU_MS)
    report.add('resize 3 to 2: pause of the others, worst', max(c.ms for c in shrinks), 'ms')
    report.add_all('resize 3 to 2: … as libmuster says', [c.told_ms for c in shrinks], 'ms')
    report.add_all('resize 3 to 2: … the first step took longer by',
                   [c.step_ms - of_2_ms for c in shrinks], 'ms', undisturbed_ms=of_2_ms)
    report.add('resize 3 to 2: KungFu (published), as a multiple of ours',
               KUNGFU_MS / statistics.median(c.ms for c in shrinks), 'times')
    report.add_all('resize 2 to 3, with the state: pause of the others', [c.ms for c in grows],
                   'ms', state_bytes=shape.state_bytes)


def join(cluster, node):
    """A fresh process on a fresh node."""
    _, before = cluster.settled(2, 0.5)
    cluster.start_node(node)
    logs = cluster.wait_together(3, before)
    return Change(logs, before)


def leave(cluster, node):
    """Away at once: that is measured elsewhere."""
    before = generation_of(cluster.wait_together(3))
    cluster.kill_node(node)
    cluster.wait_together(2, before)


def run_join(report, programs, folder, counts, shape, path, bandwidth, times):
    """bandwidth: bytes a second from one worker to another, measured in this run."""
    changes = []
    cluster = Cluster(programs, folder, shape, 3, 2, 'tcp' if path == 'tcp' else 'auto')
    try:
        step_ms = undisturbed_ms(cluster, 2)
        for _ in range(times):
            changes.append(join(cluster, 2))
            leave(cluster, 2)
    finally:
        cluster.close()
    counts.add(cluster)
    name = f'join with {shape.state_bytes / 1e6:.0f} MB of state, {path}'
    state_ms = shape.state_bytes / bandwidth * 1e3
    median_ms = statistics.median(c.ms for c in changes)
    report.add(f'{name}: a step of 2 workers', step_ms, 'ms')
    report.add(f'{name}: the state alone, by the transport', state_ms, 'ms', gb_s=bandwidth / 1e9)
    report.add_all(f'{name}: pause of the others', [c.ms for c in changes], 'ms',
                   goal=step_ms + state_ms / BANDWIDTH_SHARE)
    report.add_all(f'{name}: … as libmuster says', [c.told_ms for c in changes], 'ms')
    report.add_all(f'{name}: … the first step took longer by',
                   [c.step_ms - step_ms for c in changes], 'ms')
    report.add(f"{name}: the state's bandwidth by the transport's",
               100 * state_ms / median_ms, '%')
