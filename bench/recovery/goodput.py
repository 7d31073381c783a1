"""Nodes die and come back all the time: how much of what was there was put to use?

A node is there from when its agent is started until it is killed. What so many nodes can do is
measured undisturbed, in the same run; steps committed, by that, is the goodput."""
import statistics
import time

from recovery.cluster import Cluster, step_s

NODES = 3
LEAST = 95


class Presence:
    """For how long how many nodes were there."""

    def __init__(self, nodes_n):
        self.nodes_n = nodes_n
        self.since_ns = self.start_ns = time.monotonic_ns()
        self.seconds = {NODES - 1: 0.0, NODES: 0.0}

    def change(self, by, at_ns):
        self.seconds[self.nodes_n] += (at_ns - self.since_ns) / 1e9
        self.since_ns = at_ns
        self.nodes_n += by

    def possible(self, rates):
        """Steps that they could have done. rates: steps a second, by number of nodes."""
        return sum(rates[nodes_n] * seconds for nodes_n, seconds in self.seconds.items())


def undisturbed(cluster, nodes_n, rest_s):
    """Steps a second."""
    logs, _ = cluster.settled(nodes_n, rest_s)
    now_ns = time.monotonic_ns()
    return 1 / step_s(logs, now_ns - int(rest_s * 0.9e9), now_ns)


def sleep_until(ns):
    time.sleep(max(0, ns - time.monotonic_ns()) / 1e9)


def churn(cluster, presence, cycles, cycle_s):
    """Each cycle: one is killed at once, and comes back after half of it."""
    for i in range(cycles):
        victim = i % NODES
        begin_ns = presence.start_ns + int(i * cycle_s * 1e9)
        sleep_until(begin_ns)
        presence.change(-1, cluster.kill_node(victim))
        sleep_until(begin_ns + int(cycle_s * 0.5e9))
        presence.change(+1, time.monotonic_ns())
        cluster.start_node(victim)
    end_ns = presence.start_ns + int(cycles * cycle_s * 1e9)
    sleep_until(end_ns)
    presence.change(0, end_ns)
    return end_ns


def measure(cluster, cycles, cycle_s):
    """Rates are measured before and after: a machine may be slower for a while."""
    rest_s = min(2, cycle_s)
    few = [undisturbed(cluster, NODES - 1, rest_s)]
    cluster.start_node(NODES - 1)
    all_of_them = [undisturbed(cluster, NODES, rest_s)]
    presence = Presence(NODES)
    end_ns = churn(cluster, presence, cycles, cycle_s)
    done = sum(presence.start_ns < ns <= end_ns
               for ns in cluster.marks.read().commits().values())
    all_of_them.append(undisturbed(cluster, NODES, rest_s))
    cluster.kill_node(NODES - 1)
    few.append(undisturbed(cluster, NODES - 1, rest_s))
    return done, presence, {NODES - 1: statistics.mean(few), NODES: statistics.mean(all_of_them)}


def run(report, programs, folder, counts, shape, cycles, cycle_s):
    cluster = Cluster(programs, folder, shape, NODES, NODES - 1)
    try:
        done, presence, rates = measure(cluster, cycles, cycle_s)
    finally:
        cluster.close()
    counts.add(cluster)
    possible = presence.possible(rates)
    report.add(f'goodput: a node killed every {cycle_s:g} s and back {cycle_s / 2:g} s later',
               100 * done / possible, '%', least=LEAST, cycles=cycles, steps=done,
               possible=possible, steps_a_second=rates[NODES],
               steps_a_second_of_2=rates[NODES - 1])
