"""kill -9 of a worker of examples/torch/elastic.py, and of the same training under torchrun."""
import os
import random
import statistics
import time

from control import torchrun
from control.process import wait_for
from recovery.cluster import Cluster
from recovery.kills import NODES, REST_S, firsts_of
from recovery.shape import Shape
from recovery.torch_cluster import TUNED, TorchCluster

HERE = os.path.dirname(os.path.abspath(__file__))
LEAST_TIMES = 50
STEPS_S = 4  # Within so long some checkpoint's interval begins anywhere.


class Elastic(Cluster):
    """Whose workers run the example."""

    def script(self, node):
        return ([f'{HERE}/elastic_marked.py', self.marks.folder, str(node), '--epochs', '1000'],
                {'PYTHON_EXEC': torchrun.PYTHON, 'PYTHONPATH': self.programs['package'], 'OMP_NUM_THREADS': '1',
                 'PYTHONDONTWRITEBYTECODE': '1'})


class Saved(TorchCluster):
    """The same for torchrun, with checkpoints in its folder."""

    def script(self, node):
        return [f'{HERE}/ddp_saved.py', self.marks.folder, str(node), f'{self.folder}/checkpoint.pt']


def kill_elastic(cluster, victim, when_s):
    """ms until the others have done a step without it."""
    _, generation = cluster.settled(NODES, REST_S)
    time.sleep(when_s)
    killed_ns = cluster.kill_worker(victim)
    survivors = [node for node in range(NODES) if node != victim]
    _, firsts = wait_for('the survivors commit a step',
                         lambda: firsts_of(cluster, survivors, generation), 0.005)
    return (max(step.ns for step in firsts.values()) - killed_ns) / 1e6


def kill_saved(cluster, when_s):
    """(ms until the others have done a step that was not done before the kill, how many were lost)."""
    victim = NODES - 1
    before = [log.pid for log in cluster.wait_training(range(NODES))]
    time.sleep(REST_S + when_s)
    killed_ns = cluster.kill_worker(victim)
    last = cluster.marks.read().last_step()

    def firsts():
        logs = cluster.training(range(NODES), before)
        found = [next((step for step in log.steps if step.step > last), None) for log in logs or ()]
        return (logs, found) if found and all(found) else None

    logs, found = wait_for('torchrun is where it was', firsts, 0.02)
    ms = (max(step.ns for log, step in zip(logs, found) if log.node != str(victim)) - killed_ns) / 1e6
    return ms, last + 1 - min(log.steps[0].step for log in logs)


def run(report, programs, folder, version, ports, ours_n, theirs_n):
    chance = random.Random(1)
    cluster = Elastic(programs, f'{folder}/kills-muster', Shape(), NODES)
    try:
        ours = [kill_elastic(cluster, i % NODES, chance.uniform(0, 0.5)) for i in range(ours_n)]
    finally:
        cluster.close()
    report.add_all('worker killed: muster.torch: next step committed', ours, 'ms')
    if version is None:
        return
    cluster = Saved(f'{folder}/kills-torchrun', ports(), Shape(), TUNED)
    try:
        theirs = [kill_saved(cluster, chance.uniform(0, STEPS_S)) for _ in range(theirs_n)]
    finally:
        cluster.close()
    name = f'worker killed: torchrun {version}, tuned, a checkpoint every 50 steps'
    report.add_all(f'{name}: next step done that is new', [ms for ms, _ in theirs], 'ms',
                   steps_again=[n for _, n in theirs])
    report.add(f'{name}, as a multiple of ours',
               statistics.median(ms for ms, _ in theirs) / statistics.median(ours), 'times',
               least=LEAST_TIMES)
