"""The same for torchrun: a killed worker, a killed node, and what is left with a kill every 20 s."""
import statistics
import time

from control.process import wait_for
from recovery.torch_cluster import DEFAULT, NODES, TUNED, TorchCluster

REST_S = 1
LEAST_TIMES = 100
VICTIM = NODES - 1


def kill_one(cluster, whole):
    """ms until the others have done their next step."""
    everyone = list(range(NODES))
    time.sleep(REST_S)
    before = [log.pid for log in cluster.wait_training(everyone)]
    killed_ns = cluster.kill_node(VICTIM) if whole else cluster.kill_worker(VICTIM)
    logs = cluster.wait_training(everyone[:-1] if whole else everyone, before)
    if whole:
        cluster.start_node(VICTIM)
    return (max(log.steps[0].ns for log in logs if log.node != str(VICTIM)) - killed_ns) / 1e6


def undisturbed(cluster, seconds):
    """Steps a second."""
    cluster.wait_training(range(NODES))
    time.sleep(seconds)
    now_ns = time.monotonic_ns()
    logs = cluster.wait_training(range(NODES))
    ns = [step.ns for step in logs[0].steps if now_ns - seconds * 1e9 < step.ns <= now_ns]
    return (len(ns) - 1) / ((ns[-1] - ns[0]) / 1e9)


def goodput(report, cluster, name, kills, every_s):
    """All nodes are there all the time, as only workers are killed. Each step that rank 0 did
    counts, also those that a real script would do again from its last checkpoint."""
    rate = undisturbed(cluster, 2)
    start_ns = time.monotonic_ns()
    for i in range(kills):
        while time.monotonic_ns() < start_ns + i * every_s * 1e9:
            time.sleep(0.01)
        cluster.kill_worker(VICTIM)
    end_ns = start_ns + int(kills * every_s * 1e9)
    wait_for('the last seconds', lambda: time.monotonic_ns() > end_ns, 0.05)
    steps = sum(start_ns < step.ns <= end_ns for log in cluster.marks.read().logs.values()
                for step in log.steps if step.rank == 0)
    report.add(f'goodput: {name}, a worker killed every {every_s} s',
               100 * steps / (rate * (end_ns - start_ns) / 1e9), '%', kills=kills, steps=steps,
               steps_a_second=rate)


def report_kind(report, name, ours_ms, found):
    for what, times in found.items():
        report.add_all(f'{what}: {name}: next step done', times, 'ms')
        if what in ours_ms:
            goal = {'least': LEAST_TIMES} if 'tuned' in name else {}
            report.add(f'{what}: {name}, as a multiple of ours',
                       statistics.median(times) / ours_ms[what], 'times', **goal)


def run_tuned(report, folder, port, shape, version, ours_ms, workers_n, nodes_n, goodput_n):
    name = f'torchrun {version}, tuned'
    cluster = TorchCluster(folder, port, shape, TUNED)
    try:
        found = {'worker killed': [kill_one(cluster, False) for _ in range(workers_n)],
                 'node killed': [kill_one(cluster, True) for _ in range(nodes_n)]}
        report_kind(report, name, ours_ms, found)
        goodput(report, cluster, name, goodput_n, 20)
    finally:
        cluster.close()


def run_default(report, folder, ports, shape, version, ours_ms):
    """Once each, both at the same time: they do little but wait."""
    name = f'torchrun {version}, as it comes'
    clusters = []
    try:
        for i in range(2):
            clusters.append(TorchCluster(f'{folder}-{i}', ports(), shape, DEFAULT))
        for cluster in clusters:
            cluster.wait_training(range(NODES))
        before = [[log.pid for log in c.wait_training(range(NODES))] for c in clusters]
        killed_ns = [clusters[0].kill_worker(VICTIM), clusters[1].kill_node(VICTIM)]
        found = {}
        for what, cluster, nodes, old, at_ns in zip(
                ('worker killed', 'node killed'), clusters, (range(NODES), range(NODES - 1)),
                before, killed_ns):
            logs = cluster.wait_training(nodes, old)
            found[what] = [(max(log.steps[0].ns for log in logs if log.node != str(VICTIM))
                            - at_ns) / 1e6]
        report_kind(report, name, ours_ms, found)
    finally:
        for cluster in clusters:
            cluster.close()
