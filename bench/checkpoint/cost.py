"""What saving costs a training that has other work to do: blocks of steps with a save, and without."""
import statistics

from checkpoint import trainer
from control.process import Failed

WORKERS, SLICES = 2, 8


def run(report, programs, folder, size, step_ms, block_steps, pairs):
    lines = trainer.run(programs, folder, WORKERS, 'cost', size, step_ms * 1000 * WORKERS // SLICES, block_steps,
                        pairs)
    blocks = [(kind, [int(us) / 1e3 for us in times]) for kind, *times in lines]
    found = [dict(blocks[i:i + 2]) for i in range(0, len(blocks), 2)]
    if len(found) != pairs or any(set(pair) != {'with', 'without'} for pair in found):
        raise Failed(f'saves wrote {len(blocks)} blocks')
    name = f'{size / 1e6:.0f} MB, {WORKERS} workers, {block_steps} steps of {step_ms} ms'
    for kind in ('with', 'without'):
        report.add_all(f'{name}: a step, {kind} a save in them', [ms for pair in found for ms in pair[kind]], 'ms')
    report.add_all(f'{name}: cost of a save', [(statistics.mean(pair['with']) / statistics.mean(pair['without']) - 1)
                                               * 100 for pair in found], '%', goal=3.5)
