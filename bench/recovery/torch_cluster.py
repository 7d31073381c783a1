"""torchrun's side: three nodes whose workers are torch_paced.py.

All on this machine, with the c10d rendezvous in the first node, which is never killed: the job would
not outlive it. A survivor's worker fails by itself in its next all-reduce; then its torchrun
meets the others again."""
import os
import subprocess
import time

from control import torchrun
from control.process import Failed, alive, children, end, environment, kill, wait_for
from recovery.marks import Marks

HERE = os.path.dirname(os.path.abspath(__file__))
NODES = 3
# Every time-out that can be set, and as it comes. Its keep-alive (3 of 5 s) can't be set.
TUNED = ('tuned', {'last_call_timeout': 1}, 0.1)
DEFAULT = ('default', {'timeout': 900}, 5)


class TorchCluster:
    """Nodes "0" … "2"."""

    def __init__(self, folder, port, shape, kind):
        os.makedirs(folder)
        self.folder = folder
        self.port = port
        self.shape = shape
        self.kind = kind
        self.marks = Marks(f'{folder}/marks')
        self.agents = {}
        for node in range(NODES):
            self.start_node(node)
            if node == 0:
                time.sleep(3)  # So that it is the one that hosts the rendezvous.

    def script(self, node):
        """What its worker is."""
        return [f'{HERE}/torch_paced.py', self.marks.folder, str(node), *self.shape.arguments()]

    def start_node(self, node):
        _, conf, interval = self.kind
        conf = ','.join(f'{key}={value}' for key, value in conf.items())
        with open(f'{self.folder}/agent-{node}.log', 'a', encoding='utf-8') as log:
            self.agents[node] = subprocess.Popen(
                [torchrun.PYTHON, '-m', 'torch.distributed.run', '--nnodes', f'1:{NODES}',
                 '--nproc_per_node', '1', '--rdzv_backend', 'c10d', '--rdzv_id', 'bench',
                 '--rdzv_endpoint', f'localhost:{self.port}', '--rdzv_conf', conf,
                 '--max_restarts', '100', '--monitor_interval', str(interval),
                 '--redirects', torchrun.STREAMS, '--tee', torchrun.STREAMS, *self.script(node)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                env=environment(self.folder, PYTHONWARNINGS='ignore', OMP_NUM_THREADS='1',
                                GLOO_SOCKET_IFNAME='lo', TMPDIR=self.folder))

    def check(self):
        for node, agent in self.agents.items():
            if agent.poll() is not None:
                raise Failed(f'torchrun of node {node} ended; see {self.folder}')

    def training(self, nodes, other_than=()):
        """The logs of these nodes, if all of them do steps together in processes other than
        those."""
        self.check()
        newest = self.marks.read().newest()
        logs = [newest.get(str(node)) for node in nodes]
        if all(log is not None and log.steps and log.pid not in other_than and alive(log.pid)
               and log.steps[-1].world == len(logs) for log in logs):
            return logs
        return None

    def wait_training(self, nodes, other_than=()):
        return wait_for(f'torchrun trains on {len(nodes)} nodes',
                        lambda: self.training(nodes, other_than), 0.02)

    def kill_worker(self, node):
        """ns at which it was killed."""
        return kill(self.marks.read().newest()[str(node)].pid)

    def kill_node(self, node):
        """The whole node at once."""
        agent = self.agents.pop(node)
        pids = children(agent.pid)
        killed_ns = kill(agent.pid)
        for pid in pids:
            if alive(pid):
                kill(pid)
        agent.wait()
        return killed_ns

    def close(self):
        for agent in self.agents.values():
            agent.terminate()
        for agent in self.agents.values():
            end(agent)
        for log in self.marks.read().logs.values():
            if alive(log.pid):
                kill(log.pid)
        self.marks.close()
