#!/usr/bin/env python3
"""Whatever happens to workers, agents, the orchestrator, its disk and the network between hosts: training ends with
the bits of one undisturbed worker, each sample counted once, and never stands still for longer than it may.

A failure names its seed and how to run that one alone. MUSTER_TEST_FULL=1 runs three large ones; with SOAK=SECONDS
as well, fresh ones for so long.

usage: [SEED=n] [SOAK=SECONDS] chaos_test.py MUSTER [CASE…]
"""
import os
import random
import time

import chaos
import elastic
import hosts
import kit

STEPS, EVENTS_N = (10000, 60) if kit.FULL else (1200, 14)


def seeds():
    if 'SEED' in os.environ:
        yield int(os.environ['SEED'])
    elif 'SOAK' in os.environ:
        until = time.monotonic() + float(os.environ['SOAK'])
        while time.monotonic() < until:
            yield random.SystemRandom().randrange(1 << 31)
    else:
        yield from range(3) if kit.FULL else (1,)


def replay(seed):
    return f'{"MUSTER_TEST_FULL=1 " if kit.FULL else ""}SEED={seed} make test ONLY=e2e_chaos'


def demand_no_long_stall(job, run):
    found = chaos.stalls(job, run)
    told = ', '.join(f'{one.took_s:.2f} s ({kind}, before step {one.step}, may be {one.bound_s} s)'
                     for kind, one in chaos.longest(found).items())
    late_s = sum(late for _, late in run.metronome.late)
    print(f'# longest stalls: {told}; the machine was late by {late_s:.2f} s in all', flush=True)
    long = [one for one in found if one.took_s > one.bound_s]
    assert not long, f'stalls longer than they may be: {long}'


def chaos_changes_nothing(seed):
    with hosts.World() as world:
        disk = world.journal_disk()
        model = elastic.trainer(STEPS, '--sleep-us', '1000', '--digest-every', '7', samples=777,
                                *(('--count', '20000') if seed % 3 == 2 else ()))
        job = chaos.Training(world, model, '--max-restarts', '1000', nnodes='1:5', limit=0, serve=kit.LAPSING)
        run = chaos.Chaos(job, seed, disk, silent=kit.FULL, events_n=EVENTS_N, nodes=4)
        try:
            run.run(model.steps)
            names = run.alive()
            kit.wait_until(lambda: all(job.nodes[name].ended() for name in names), 'all had ended',
                           chaos.BOUND_S + STEPS / 50)
            found = job.ends_well(*names)
            print(f'# seed {seed}: {len(run.done)} events, results of {len(found.generations)} generations: '
                  f'{", ".join(event for event, *_ in run.done)}', flush=True)
            demand_no_long_stall(job, run)
        except Exception as error:
            error.add_note(f'{replay(seed)}\nwhat happened: {run.done}')
            raise
        finally:
            run.metronome.over.set()


def test_a_stall_is_measured_from_the_last_event_and_by_what_was_going_on():
    class Job:
        commits = staticmethod(lambda: {1: 0, 2: 1, 3: 8, 4: 20, 5: 60})
        allowed_at = staticmethod({2: 0, 3: 0, 4: 15, 5: 0}.get)

    class Run:
        times = [3, 30]
        spans = [['away', 22, 30], ['cut', 40, None]]
        metronome = chaos.Metronome()
    Run.metronome.late = [(50, 0.5)]
    found = [(one.step, one.kind, one.took_s, one.bound_s) for one in chaos.stalls(Job, Run)]
    assert found == [(2, 'calm', 1, 4), (3, 'calm', 2, 4), (3, 'calm', 5, 4), (4, 'calm', 5, 4),
                     (5, 'away', 10, float('inf')), (5, 'cut', 29.5, hosts.SILENCE_S + 4)], found


def test_chaos_changes_nothing():
    for seed in seeds():
        chaos_changes_nothing(seed)


if __name__ == '__main__':
    hosts.enter()
    kit.run(__name__)
