#!/usr/bin/env python3
"""Which samples counted? Reads what workers wrote into the folder MUSTER_AUDIT, and says what is wrong.

    slice TERM STEP SLICE id id id…   this worker gives that slice to a reduce of that term
    commit TERM STEP                  this worker saw the step committed, by the reduce of that one

A term is a generation ("3"), or a further round of it ("3.1"). A step counts by the reduce whose result was
committed. So for each step: everyone who committed it names
the same term; in that term each slice was given exactly once; all slices together are the
step's batch. And over the steps of an epoch every sample is there exactly once.

usage: audit.py FOLDER --samples N --global-batch N [--slices 8] [--steps N]
"""
import argparse
import collections
import glob
import os
import sys

FAULTS_SHOWN = 20


class Log:
    """All files of a folder."""

    def __init__(self):
        self.slices = collections.defaultdict(list)  # (generation, step, slice): [(file, ids)]
        self.commits = collections.defaultdict(lambda: collections.defaultdict(list))
        # step: {generation: [file]}
        self.bad = []

    def line(self, file, text):
        words = text.split()
        try:
            generation, _, further = words[1].partition('.')
            term = (int(generation), int(further)) if further else int(generation)
            numbers = [int(word) for word in words[2:]]
            if words[0] == 'slice' and len(numbers) >= 2:
                step, piece, *ids = numbers
                self.slices[term, step, piece].append((file, ids))
            elif words[0] == 'commit' and len(numbers) == 1:
                self.commits[numbers[0]][term].append(file)
            else:
                self.bad.append(f'{file}: not a line of an audit: {text!r}')
        except (ValueError, IndexError):
            self.bad.append(f'{file}: not a line of an audit: {text!r}')

    def file(self, name, text):
        """A line without its end was being written when its worker died: it counts as not written."""
        for one in text.split('\n')[:-1]:
            self.line(name, one)


def read(folder):
    log = Log()
    for path in sorted(glob.glob(os.path.join(folder, '*.log'))):
        with open(path, encoding='ascii') as file:
            log.file(os.path.basename(path), file.read())
    return log


class Walk:
    """How a run goes through its data. Steps count from 1, epochs and samples from 0."""

    def __init__(self, samples, batch, slices=8):
        self.samples = samples
        self.batch = batch
        self.slices = slices
        self.per_epoch = -(-samples // batch)

    def epoch(self, step):
        return (step - 1) // self.per_epoch

    def step_samples(self, step):
        first = (step - 1) % self.per_epoch * self.batch
        return min(self.batch, self.samples - first)

    def slice_samples(self, step, piece):
        n = self.step_samples(step)
        return n * (piece + 1) // self.slices - n * piece // self.slices


class Result:
    def __init__(self):
        self.faults = []
        self.steps = 0
        self.generations = set()  # whose results count
        self.lost = 0
        self.repeated = 0


def result_generation(step, committed, result):
    """The generation whose reduce counts; None if nobody can tell."""
    if len(committed) > 1:
        told = '; '.join(f'{generation} by {", ".join(files)}'
                         for generation, files in sorted(committed.items()))
        result.faults.append(f'step {step} was committed from different generations: {told}')
    for generation, files in committed.items():
        twice = [file for file, n in collections.Counter(files).items() if n > 1]
        if twice:
            result.faults.append(f'step {step} was committed twice by {", ".join(twice)}')
    return next(iter(committed), None) if len(committed) == 1 else None


def step_ids(log, walk, step, generation, result):
    """The samples that the step was made of."""
    found = []
    for piece in range(walk.slices):
        given = log.slices.get((generation, step, piece), [])
        if not given and walk.slice_samples(step, piece) == 0:
            continue  # Nobody needs to say that there is nothing.
        if not given:
            result.faults.append(f'step {step}: nobody gave slice {piece} in generation {generation}')
        elif len(given) > 1:
            result.faults.append(f'step {step}: slice {piece} was given {len(given)} times in generation '
                                 f'{generation}: by {", ".join(file for file, _ in given)}')
        for file, ids in given:
            if len(ids) != walk.slice_samples(step, piece):
                result.faults.append(f'step {step}: slice {piece} of {file} has {len(ids)} samples, '
                                     f'not {walk.slice_samples(step, piece)}')
            found += ids
    strange = {key[2] for key in log.slices if key[:2] == (generation, step)} - set(range(walk.slices))
    if strange:
        result.faults.append(f'step {step}: there are no slices {sorted(strange)}')
    return found


def check_epoch(walk, epoch, counts, steps, result):
    """counts: how often each sample counted in these steps, which are the epoch's first ones."""
    beyond = [i for i in counts if not 0 <= i < walk.samples]
    if beyond:
        result.faults.append(f'epoch {epoch}: there are no samples {sorted(beyond)[:10]}')
    again = {i: n for i, n in counts.items() if n > 1}
    result.repeated += sum(n - 1 for n in again.values())
    if again:
        result.faults.append(f'epoch {epoch}: counted more than once: '
                             f'{", ".join(f"{i} ({n} times)" for i, n in sorted(again.items())[:10])}')
    want = sum(walk.step_samples(step) for step in steps)
    lost = want - len(counts)
    result.lost += max(lost, 0)
    if lost:
        missing = sorted(set(range(walk.samples)) - set(counts))[:10] if want == walk.samples else []
        result.faults.append(f'epoch {epoch}: {len(counts)} different samples counted, not {want}; '
                             f'missing: {missing if missing else "not known which"}')


def check(log, walk, steps):
    """Were steps 1 … `steps` committed, and each sample in them once?"""
    result = Result()
    result.faults += log.bad
    epochs = collections.defaultdict(collections.Counter)
    for step in range(1, steps + 1):
        if step not in log.commits:
            result.faults.append(f'step {step} was never committed')
            continue
        result.steps += 1
        generation = result_generation(step, log.commits[step], result)
        if generation is not None:
            result.generations.add(generation[0] if isinstance(generation, tuple) else generation)
            epochs[walk.epoch(step)].update(step_ids(log, walk, step, generation, result))
    for step in sorted(set(log.commits) - set(range(1, steps + 1))):
        result.faults.append(f'step {step} was committed: the run has only {steps}')
    for epoch in range(walk.epoch(steps) + 1 if steps else 0):
        first = epoch * walk.per_epoch + 1
        of_it = range(first, min(first + walk.per_epoch, steps + 1))
        check_epoch(walk, epoch, epochs[epoch], of_it, result)
    return result


def demand(folder, walk, steps):
    """Fails with all that is wrong; gives what was found otherwise."""
    result = check(read(folder), walk, steps)
    told = '\n  '.join(result.faults[:FAULTS_SHOWN])
    assert not result.faults, f'{len(result.faults)} faults in the audit:\n  {told}'
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('folder')
    parser.add_argument('--samples', type=int, required=True)
    parser.add_argument('--global-batch', type=int, required=True)
    parser.add_argument('--slices', type=int, default=8)
    parser.add_argument('--steps', type=int, help='as many as were committed, if it is not given')
    args = parser.parse_args()
    log = read(args.folder)
    steps = max(log.commits, default=0) if args.steps is None else args.steps
    result = check(log, Walk(args.samples, args.global_batch, args.slices), steps)
    for fault in result.faults:
        print(fault, file=sys.stderr)
    print(f'steps={result.steps} generations={len(result.generations)} lost={result.lost} '
          f'repeated={result.repeated} faults={len(result.faults)}')
    return 1 if result.faults or not steps else 0


if __name__ == '__main__':
    sys.exit(main())
