"""How long the others take to go on when a worker or a whole node is killed."""
import os
import subprocess
import time

from control.process import START, TERM, Failed, Serve, Stamps, alive, children, end, environment, \
    kill, wait_for

NODES = 3
REST_S = 1.1  # A life shorter than a second counts as quick, and is followed by a pause.
JOIN_REST_S = 0.5  # A moment of rest after a newcomer was taken in, before the next kill.


class Cluster:
    """An orchestrator and NODES agents, each with one worker that stamps."""

    def __init__(self, programs, folder):
        self.programs = programs
        self.folder = folder
        self.serve = Serve(programs['muster'], folder)
        self.stamps = Stamps(f'{folder}/stamps')
        self.agents = {}
        for node in range(NODES):
            self.start_agent(node)

    def start_agent(self, node):
        log = open(f'{self.folder}/agent-{node}.log', 'a', encoding='utf-8')
        with log:
            self.agents[node] = subprocess.Popen(
                [self.programs['muster'], 'run', '--nnodes', f'1:{NODES}', '--mode', 'restart',
                 '--rdzv-endpoint', self.serve.endpoint, '--token-file', self.serve.token,
                 '--node-name', f'node-{node}', '--', self.programs['stamp'], self.stamps.path,
                 str(node)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment(self.folder))

    def whole(self):
        """All nodes run in one world, each in the process of its newest stamp."""
        newest = self.stamps.newest()
        if len(newest) == NODES and all(s[4] == NODES and alive(s[2]) for s in newest.values()) \
                and sorted(s[3] for s in newest.values()) == list(range(NODES)):
            return newest
        if any(agent.poll() is not None for agent in self.agents.values()):
            raise Failed(f'an agent ended; see {self.folder}')
        return None

    def settled(self, rest_s):
        """Whole, for long enough that nothing of the last change is under way."""
        while True:
            before = wait_for('all nodes run', self.whole, 0.02)
            time.sleep(rest_s)
            if self.whole() == before:
                return before

    def close(self):
        for agent in self.agents.values():
            agent.terminate()
        for agent in self.agents.values():
            end(agent)
        self.serve.close()
        self.stamps.close()


def when_all(stamps, first, what, nodes, world):
    """When the last of the nodes stamped so for the first time; None: not all have yet."""
    times = {}
    for stamp in reversed(stamps.since(first, what)):
        if stamp[1] in nodes and (world is None or stamp[4] == world):
            times[stamp[1]] = stamp[0]
    return max(times.values()) if len(times) == len(nodes) else None


def kill_workers(cluster, times):
    """kill -9 of a worker; ms until the others' agents have acted on the generation without it:
    their workers get SIGTERM; and until these run again."""
    known, again = [], []
    for i in range(times):
        before = cluster.settled(REST_S)
        victim = i % NODES
        others = set(range(NODES)) - {victim}
        first = len(cluster.stamps)
        killed_ns = kill(before[victim][2])
        term_ns = wait_for('SIGTERM of the survivors', lambda: when_all(
            cluster.stamps, first, TERM, others, None))
        start_ns = wait_for('the survivors run again', lambda: when_all(
            cluster.stamps, first, START, others, None))
        known.append((term_ns - killed_ns) / 1e6)
        again.append((start_ns - killed_ns) / 1e6)
    return known, again


def kill_agents(cluster, times):
    """kill -9 of an agent; ms until the others' workers run again, in a world without it; and
    until its own worker is gone."""
    again, gone = [], []
    for i in range(times):
        before = cluster.settled(JOIN_REST_S)
        victim = i % NODES
        others = set(range(NODES)) - {victim}
        first = len(cluster.stamps)
        killed_ns = kill(cluster.agents[victim].pid)
        wait_for('the worker of a killed agent is gone', lambda: not alive(before[victim][2]),
                 0.0005)
        gone.append((time.monotonic_ns() - killed_ns) / 1e6)
        start_ns = wait_for('the survivors run again', lambda: when_all(
            cluster.stamps, first, START, others, NODES - 1))
        again.append((start_ns - killed_ns) / 1e6)
        cluster.agents[victim].wait()
        cluster.start_agent(victim)
    return again, gone


def kill_nodes(cluster, times):
    """kill -9 of all processes of a node, so that nobody is left to tell; ms until the others' run
    again."""
    again = []
    for i in range(times):
        before = cluster.settled(JOIN_REST_S)
        victim = i % NODES
        agent = cluster.agents[victim].pid
        first = len(cluster.stamps)
        for keeper in children(agent):
            kill(keeper)
        killed_ns = kill(agent)
        if alive(before[victim][2]):
            kill(before[victim][2])
        start_ns = wait_for('the survivors run again', lambda: when_all(
            cluster.stamps, first, START, set(range(NODES)) - {victim}, NODES - 1))
        again.append((start_ns - killed_ns) / 1e6)
        cluster.agents[victim].wait()
        cluster.start_agent(victim)
    return again


def run(report, programs, folder, workers_n, agents_n, nodes_n):
    cluster = Cluster(programs, os.path.join(folder, 'failures'))
    try:
        known, again = kill_workers(cluster, workers_n)
        report.add_all('worker killed: generation at the survivors', known, 'ms', goal=20)
        report.add_all('worker killed: survivors run again', again, 'ms')
        again, gone = kill_agents(cluster, agents_n)
        report.add_all('agent killed: survivors run again', again, 'ms', goal=300)
        report.add_all('agent killed: its own worker is gone', gone, 'ms')
        ours_ms = sorted(again)[len(again) // 2]
        report.add_all('node killed: survivors run again', kill_nodes(cluster, nodes_n), 'ms')
        return ours_ms
    finally:
        cluster.close()
