"""Steps of muster.torch and of DistributedDataParallel, in turn."""
import os
import socket
import statistics
import subprocess

from control.process import LONG, Failed, environment, end

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = '/usr/bin/python3'
WORKERS = 2
SKIPPED = 5  # Of the first steps of a process: buffers are made, buckets ordered.
GOAL = {'least': 1.0}
NAMES = {'cnn': 'CNN of the example, batch 256', 'mlp': 'MLP of 25 M parameters, batch 64'}
MUSTER_2, MUSTER_8, GLOO = 'muster.torch, 2 slices', 'muster.torch, 8 slices', 'DDP on gloo'
DDP_MUSTER = 'DDP on muster'
# Name, script, what it is given.
CONTESTANTS = ((MUSTER_2, 'step_muster.py', '2'), (GLOO, 'step_ddp.py', 'gloo'),
               (MUSTER_8, 'step_muster.py', '8'), (DDP_MUSTER, 'step_ddp.py', 'muster'))


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def start(command, folder, log, **env):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                            env=environment(folder, PYTHON_EXEC=PYTHON, OMP_NUM_THREADS='1',
                                            PYTHONDONTWRITEBYTECODE='1', **env))


def commands(programs, script, arguments):
    """(command, variables) of each process."""
    command = [f'{HERE}/{script}', *arguments]
    if 'gloo' not in arguments:
        return [([programs['muster'], 'run', '--standalone', '--mode', 'inprocess', '--max-restarts',
                  '0', '--nproc-per-node', str(WORKERS), '--', *command],
                 {'PYTHONPATH': programs['package']})]
    port = str(free_port())
    return [([PYTHON, *command], {'RANK': str(rank), 'WORLD_SIZE': str(WORKERS), 'MASTER_PORT': port,
                                  'MASTER_ADDR': '127.0.0.1', 'GLOO_SOCKET_IFNAME': 'lo'})
            for rank in range(WORKERS)]


def one(programs, folder, model, script, what, steps):
    """µs of each step."""
    out = f'{folder}/times'
    with open(f'{folder}/log', 'w+', encoding='utf-8') as log:
        running = [start(command, folder, log, **env) for command, env in
                   commands(programs, script, [model, what, str(steps + SKIPPED + 1), out])]
        try:
            codes = [process.wait(5 * LONG) for process in running]
        finally:
            for process in running:
                end(process)
        if any(codes):
            log.seek(0)
            raise Failed(f'{script} {model} {what} ended with {codes}: {log.read()[-2000:]}')
    with open(out, encoding='ascii') as file:
        return [float(us) for us in file.read().split()][SKIPPED:]


def run(report, programs, folder, model, steps, turns):
    os.makedirs(folder)
    found = {name: [] for name, _, _ in CONTESTANTS}
    for turn in range(turns):
        order = CONTESTANTS if turn % 2 == 0 else CONTESTANTS[::-1]
        for name, script, what in order:
            found[name].append(one(programs, folder, model, script, what, steps))
    for name, blocks in found.items():
        report.add_all(f'{NAMES[model]}: a step, {name}', [us / 1e3 for us in sum(blocks, [])], 'ms')
    for name, goal in ((MUSTER_2, GOAL), (MUSTER_8, {}), (DDP_MUSTER, {})):
        report.add_all(f'{NAMES[model]}: {GLOO}, by {name}',
                       [statistics.median(theirs) / statistics.median(ours)
                        for theirs, ours in zip(found[GLOO], found[name])], 'times', **goal)
