"""An orchestrator and nodes with one worker each, which is paced.c; all on this machine."""
import os
import statistics
import subprocess
import time

from control.process import Failed, Serve, alive, children, end, environment, kill, wait_for
from recovery.marks import Marks


class Cluster:
    """Nodes "0", "1", … The journal is on disk, and every sample is audited."""

    def __init__(self, programs, folder, shape, nodes_max, nodes_n=None, transport='auto'):
        self.programs = programs
        self.folder = folder
        self.shape = shape
        self.nodes_max = nodes_max
        self.transport = transport
        self.serve = Serve(programs['muster'], folder)
        self.marks = Marks(f'{folder}/marks')
        self.audit = f'{folder}/audit'
        os.makedirs(self.audit)
        self.agents = {}
        for node in range(nodes_max if nodes_n is None else nodes_n):
            self.start_node(node)

    def script(self, node):
        """What its worker is, and its variables."""
        return ([self.programs['paced'], self.marks.folder, str(node), *self.shape.arguments()],
                {'MUSTER_AUDIT': self.audit, 'MUSTER_TRANSPORT': self.transport})

    def start_node(self, node):
        command, variables = self.script(node)
        with open(f'{self.folder}/agent-{node}.log', 'a', encoding='utf-8') as log:
            self.agents[node] = subprocess.Popen(
                [self.programs['muster'], 'run', '--nnodes', f'1:{self.nodes_max}',
                 '--mode', 'inprocess', '--rdzv-endpoint', self.serve.endpoint,
                 '--token-file', self.serve.token, '--node-name', f'node-{node}', '--', *command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment(self.folder, **variables))

    def resize(self, nodes):
        """The wish is kept when this returns."""
        done = subprocess.run([self.programs['muster'], 'resize', str(nodes), '--endpoint',
                               self.serve.endpoint, '--token-file', self.serve.token],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=environment(self.folder), check=False,
                              text=True)
        if done.returncode != 0:
            raise Failed(f'muster resize {nodes}: {done.stdout}')

    def logs(self):
        """By node, of those whose worker lives."""
        for node, agent in self.agents.items():
            if agent.poll() is not None:
                raise Failed(f'the agent of node {node} ended; see {self.folder}')
        found = {int(node): log for node, log in self.marks.read().newest().items()}
        return {node: log for node, log in found.items() if alive(log.pid)}

    def together(self, nodes_n, after=0):
        """The logs of those who did their last step in one generation, newer than `after`, of so
        many; None: not yet."""
        logs = {node: log for node, log in self.logs().items()
                if log.steps and log.steps[-1].world == nodes_n}
        newest = max((log.steps[-1].generation for log in logs.values()), default=0)
        logs = {node: log for node, log in logs.items() if log.steps[-1].generation == newest}
        return logs if len(logs) == nodes_n and newest > after else None

    def wait_together(self, nodes_n, after=0):
        return wait_for(f'{nodes_n} nodes train together',
                        lambda: self.together(nodes_n, after), 0.01)

    def settled(self, nodes_n, rest_s):
        """Together for so long that nothing of the last change is under way; their generation."""
        while True:
            before = generation_of(self.wait_together(nodes_n))
            time.sleep(rest_s)
            logs = self.together(nodes_n)
            if logs and generation_of(logs) == before:
                return logs, before

    def kill_worker(self, node):
        """ns at which it was killed."""
        return kill(self.logs()[node].pid)

    def kill_node(self, node, *others):
        """Its agent and its worker. The keeper is left, and tells; unless it is one of the
        others."""
        worker = self.logs()[node].pid
        agent = self.agents.pop(node)
        killed_ns = time.monotonic_ns()
        for pid in (*others, agent.pid, worker):
            try:
                kill(pid)
            except ProcessLookupError:
                pass  # The keeper was faster.
        agent.wait()
        return killed_ns

    def kill_all(self, node):
        """So that nobody is left to tell."""
        return self.kill_node(node, *children(self.agents[node].pid))

    def close(self):
        """Nobody is to hand over anything: they are killed, and their keepers see to the rest."""
        pids = [log.pid for log in self.marks.read().logs.values()]
        for agent in self.agents.values():
            agent.kill()
        for agent in self.agents.values():
            end(agent)
        wait_for('the workers are gone', lambda: not any(alive(pid) for pid in pids))
        self.marks.close()
        self.serve.close()


def generation_of(logs):
    return next(iter(logs.values())).steps[-1].generation


def step_s(logs, from_ns, to_ns):
    """How long a step took in that time: by worker, then their mean."""
    means = []
    for log in logs.values():
        ns = [step.ns for step in log.steps if from_ns <= step.ns <= to_ns]
        if len(ns) > 1:
            means.append((ns[-1] - ns[0]) / 1e9 / (len(ns) - 1))
    if not means:
        raise Failed('no steps were done in that time')
    return statistics.mean(means)
