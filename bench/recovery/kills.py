"""kill -9 of a worker and of a whole node: how soon do the others commit their next step?"""
import random
import statistics
import time

from control.process import wait_for
from recovery.cluster import Cluster, step_s

NODES = 3
REST_S = 1.1  # A life shorter than a second counts as quick, and is followed by a pause.
GOAL_MS = 50


class Kill:
    """What one cost, in ms."""

    def __init__(self, logs, firsts, killed_ns, before):
        slowest = max(firsts, key=lambda node: firsts[node].ns)
        until_ns = firsts[slowest].ns
        self.ms = (until_ns - killed_ns) / 1e6
        self.computing_ms = max(logs[node].computed_ns(killed_ns, until_ns)
                                for node in firsts) / 1e6
        again = max(firsts[node].again - before[node] for node in firsts)
        slice_ms = statistics.mean(s.until_ns - s.ns for s in logs[slowest].slices[-20:]) / 1e6
        self.again_ms = min(again * slice_ms, self.computing_ms)
        self.again_n = again


def first_step(log, after):
    """The first that was committed in a generation newer than that."""
    found = None
    for step in reversed(log.steps):
        if step.generation <= after:
            break
        found = step
    return found


def firsts_of(cluster, survivors, after):
    logs = cluster.logs()
    firsts = {node: first_step(logs[node], after) for node in survivors}
    return (logs, firsts) if all(firsts.values()) else None


def kill_one(cluster, victim, how, when):
    logs, generation = cluster.settled(NODES, REST_S)
    survivors = [node for node in range(NODES) if node != victim]
    before = {node: logs[node].steps[-1].again for node in survivors}
    time.sleep(when)
    killed_ns = how(cluster, victim)
    logs, firsts = wait_for('the survivors commit a step',
                            lambda: firsts_of(cluster, survivors, generation), 0.005)
    if victim not in cluster.agents:
        cluster.start_node(victim)
    return Kill(logs, firsts, killed_ns, before)


def report_kills(report, name, kills, goal):
    """Goals are for what is left when the slices that were computed for the lost one are taken
    away."""
    report.add_all(f'{name}: next step committed', [k.ms for k in kills], 'ms')
    report.add(f'{name}: next step committed, worst', max(k.ms for k in kills), 'ms')
    report.add_all(f'{name}: … of that, slices computed for the lost one',
                   [k.again_ms for k in kills], 'ms', slices=[k.again_n for k in kills])
    report.add_all(f'{name}: … of that, all slices computed', [k.computing_ms for k in kills],
                   'ms')
    beyond = [k.ms - k.again_ms for k in kills]
    report.add_all(f'{name}: next step committed, less slices for the lost one', beyond, 'ms',
                   **goal)
    report.add(f'{name}: next step committed, less slices for the lost one, worst', max(beyond),
               'ms', **goal)


WAYS = (('worker killed', Cluster.kill_worker, {'goal': GOAL_MS}),
        ('node killed', Cluster.kill_node, {'goal': GOAL_MS}),
        ('node killed, its keeper too', Cluster.kill_all, {}))


def run(report, programs, folder, counts, shape, times):
    """By what was killed, the median in ms."""
    chance = random.Random(6)
    medians = {}
    cluster = Cluster(programs, folder, shape, NODES)
    try:
        logs, _ = cluster.settled(NODES, 2)
        now_ns = time.monotonic_ns()
        undisturbed_s = step_s(logs, now_ns - 1_500_000_000, now_ns)
        report.add('undisturbed: a step of 3 workers', undisturbed_s * 1e3, 'ms')
        for name, how, goal in WAYS:
            kills = [kill_one(cluster, i % NODES, how, chance.uniform(0, undisturbed_s))
                     for i in range(times if goal else times // 2)]
            report_kills(report, name, kills, goal)
            medians[name] = statistics.median(k.ms for k in kills)
    finally:
        cluster.close()
    counts.add(cluster)
    return medians
