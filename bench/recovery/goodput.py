"""Nodes die and come back all the time: how much of what was there was put to use?

A node is there from when its agent is started until it is killed. What so many nodes can do is
measured undisturbed, in the same run; steps committed, by that, is the goodput."""
import time

from recovery.cluster import Cluster, step_s

NODES = 3
LEAST = 95


class Presence:
    """How many nodes were there, and what they could have done."""

    def __init__(self, rates, nodes_n):
        self.rates = rates  # steps a second, by number of nodes
        self.nodes_n = nodes_n
        self.since_ns = self.start_ns = time.monotonic_ns()
        self.possible = 0.0

    def change(self, by, at_ns):
        self.possible += self.rates[self.nodes_n] * (at_ns - self.since_ns) / 1e9
        self.since_ns = at_ns
        self.nodes_n += by


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


def run(report, programs, folder, counts, shape, cycles, cycle_s):
    cluster = Cluster(programs, folder, shape, NODES, NODES - 1)
    try:
        rest_s = min(2, cycle_s)
        rates = {NODES - 1: undisturbed(cluster, NODES - 1, rest_s)}
        cluster.start_node(NODES - 1)
        rates[NODES] = undisturbed(cluster, NODES, rest_s)
        presence = Presence(rates, NODES)
        end_ns = churn(cluster, presence, cycles, cycle_s)
        done = sum(presence.start_ns < ns <= end_ns
                   for ns in cluster.marks.read().commits().values())
    finally:
        cluster.close()
    counts.add(cluster)
    report.add(f'goodput: a node killed every {cycle_s:g} s and back {cycle_s / 2:g} s later',
               100 * done / presence.possible, '%', least=LEAST, cycles=cycles, steps=done,
               possible=presence.possible, steps_a_second=rates[NODES],
               steps_a_second_of_2=rates[NODES - 1])
