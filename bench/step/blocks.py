"""Blocks of steps, elastic and bare in turn, as pairs.c wrote them."""
import os
import statistics
import subprocess

from control.process import LONG, Failed, environment

WORKERS = 2


def measure(programs, folder, path, gradient_bytes, slices, step_us, block_steps, pairs):
    """Pairs (elastic, bare) of lists of µs, of the first worker."""
    os.makedirs(folder)
    done = subprocess.run(
        [programs['muster'], 'run', '--standalone', '--mode', 'inprocess', '--nproc-per-node',
         str(WORKERS), '--', programs['pairs'], folder,
         *map(str, (WORKERS, gradient_bytes, slices, step_us, block_steps, pairs))],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        timeout=3 * LONG, text=True, env=environment(folder, MUSTER_TRANSPORT=path))
    if done.returncode != 0:
        raise Failed(f'pairs ended with {done.returncode}: {done.stdout[-2000:]}')
    with open(f'{folder}/blocks.0', encoding='ascii') as file:
        blocks = [(kind, [float(us) for us in times])
                  for kind, *times in (line.split() for line in file)]
    found = [dict(blocks[i:i + 2]) for i in range(0, len(blocks), 2)]
    if len(found) != pairs or any(set(pair) != {'elastic', 'bare'} for pair in found):
        raise Failed(f'pairs wrote {len(blocks)} blocks')
    return [(pair['elastic'], pair['bare']) for pair in found]


def report_pairs(report, name, pairs, goal):
    """What the elastic loop takes more, pair by pair; by their medians, and all in all: a median
    does not see what happens once in a hundred steps."""
    for i, kind in enumerate(('elastic', 'bare')):
        report.add_all(f'{name}: a step, {kind}', [us for pair in pairs for us in pair[i]], 'us')
    for what, mean in (('by the median step', statistics.median), ('by whole blocks',
                                                                   statistics.mean)):
        report.add_all(f'{name}: cost of commits, {what}',
                       [(mean(elastic) / mean(bare) - 1) * 100 for elastic, bare in pairs], '%',
                       **goal)
