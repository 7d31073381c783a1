"""The same loss of an agent under torchrun, with the same worker.

torchrun by itself does not notice that another agent died: its own workers have to fail, as a DDP
script's collectives do. So the survivors' workers are made to fail at the moment of the kill: the
best case. Then its rendezvous waits until the dead agent's keep-alive is overdue (3 of 5 s each,
which nothing can change in this version) and for late-comers (last_call_timeout: 30 s by default,
1 s is the least)."""
import os
import signal
import subprocess
import time

from control.process import START, Failed, Stamps, alive, end, environment, kill, wait_for

PYTHON = '/usr/bin/python3'  # Debian's, which has Debian's torch.
NODES = 3
TUNED = {'last_call_timeout': 1}
# Its own default does not work under Python 3.11; a mapping that leaves slot 0 alone does.
STREAMS = '1:1'


def version():
    """torch's, or None if there is none."""
    found = subprocess.run([PYTHON, '-c', 'import torch; print(torch.__version__)'],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                           text=True)
    return found.stdout.strip() if found.returncode == 0 else None


class Run:
    """NODES torchruns of one job; the first hosts the rendezvous and is not killed."""

    def __init__(self, programs, folder, port, conf, interval):
        os.makedirs(folder)
        self.folder = folder
        self.stamps = Stamps(f'{folder}/stamps')
        self.first = self.killed_ns = 0
        self.agents = []
        conf = ','.join(f'{key}={value}' for key, value in conf.items())
        for node in range(NODES):
            with open(f'{folder}/agent-{node}.log', 'w', encoding='utf-8') as log:
                self.agents.append(subprocess.Popen(
                    [PYTHON, '-m', 'torch.distributed.run', '--nnodes', f'1:{NODES}',
                     '--nproc_per_node', '1', '--rdzv_backend', 'c10d', '--rdzv_id', 'bench',
                     '--rdzv_endpoint', f'localhost:{port}', '--rdzv_conf', conf,
                     '--max_restarts', '100', '--monitor_interval', str(interval),
                     '--redirects', STREAMS, '--tee', STREAMS, '--no_python',
                     programs['stamp'], self.stamps.path, str(node)],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    env=environment(folder, PYTHONWARNINGS='ignore', OMP_NUM_THREADS='1')))
            if node == 0:
                time.sleep(3)  # So that it is the one that hosts the rendezvous.

    def whole(self, nodes, first=0):
        newest = {s[1]: s for s in self.stamps.since(first, START)
                  if s[1] in nodes and s[4] == len(nodes)}
        if len(newest) == len(nodes) and all(alive(s[2]) for s in newest.values()):
            return newest
        if any(self.agents[node].poll() is not None for node in nodes):
            raise Failed(f'a torchrun ended; see {self.folder}')
        return None

    def kill(self):
        """Kills the last agent and its worker; the others' workers fail."""
        before = wait_for('all torchruns run', lambda: self.whole(set(range(NODES))), 0.05)
        time.sleep(2)
        self.first = len(self.stamps)
        self.killed_ns = kill(self.agents[-1].pid)
        kill(before[NODES - 1][2])
        for node in range(NODES - 1):
            os.kill(before[node][2], signal.SIGUSR1)

    def again(self):
        """ms from the kill until the others run without it."""
        newest = wait_for('the survivors run again',
                          lambda: self.whole(set(range(NODES - 1)), self.first), 0.02)
        return (max(s[0] for s in newest.values()) - self.killed_ns) / 1e6

    def close(self):
        for agent in self.agents:
            end(agent)
        for stamp in self.stamps.newest().values():
            if alive(stamp[2]):
                kill(stamp[2])
        self.stamps.close()


def measure(programs, folder, ports, times):
    """All at the same time: they do nothing but wait."""
    runs = []
    try:
        for i in range(times):
            runs.append(('default', Run(programs, f'{folder}/default-{i}', ports(),
                                        {'timeout': 900}, 5)))
            runs.append(('tuned', Run(programs, f'{folder}/tuned-{i}', ports(), TUNED, 0.1)))
        for _, run in runs:
            run.kill()
        found = {'default': [], 'tuned': []}
        for kind, run in runs:
            found[kind].append(run.again())
        return found
    finally:
        for _, run in runs:
            run.close()
