#!/usr/bin/env python3
"""Whatever happens to a job, it ends with the bits of one undisturbed worker, and each sample counted
once: seeded schedules of kills, joins, drains, stops and crashes of the orchestrator.

A failure names its seed: SEED=n runs that one alone. MUSTER_TEST_FULL=1 runs all.

usage: [SEED=n] churn_test.py MUSTER [CASE…]
"""
import os

import churn
import elastic
import kit
import tap

SEED = int(os.environ['SEED']) if 'SEED' in os.environ else None
STEPS = 800 if kit.FULL else 400
SLOW = ('--sleep-us', '1000')  # What happens meets workers that compute, wait, or send.


def seeds(full, sample=()):
    if SEED is not None:
        return [SEED]
    if not kit.FULL and not sample:
        tap.skip('MUSTER_TEST_FULL=1 runs it, or SEED=n')
    return full if kit.FULL else sample


def a_schedule_changes_nothing(model, seed, **env):
    with kit.World() as world:
        job = elastic.Training(world, model, '--max-restarts', '1000', nnodes='1:5', limit=0, serve=kit.LAPSING,
                               **env)
        run = churn.Churn(job, seed)
        try:
            run.run(model.steps)
            found = job.ends_well(*run.alive())
        except Exception as error:
            error.add_note(f'SEED={seed}; what happened: {run.done}')
            raise
        print(f'# seed {seed}: {len(run.done)} events, results of {len(found.generations)} generations: '
              f'{", ".join(event for event, *_ in run.done)}', flush=True)


def model_of(seed):
    """Small and large, and epochs of any length."""
    return elastic.trainer(STEPS, *SLOW, '--digest-every', '7',
                           '--count', '500' if seed % 3 else '40000', samples=(1000, 777, 40)[seed % 3])


def test_churn_by_shared_memory_changes_nothing():
    for seed in seeds(range(100, 110), (101,)):
        a_schedule_changes_nothing(model_of(seed), seed)


def test_churn_by_tcp_changes_nothing():
    for seed in seeds(range(200, 208), (200,)):
        a_schedule_changes_nothing(model_of(seed), seed, MUSTER_TRANSPORT='tcp')


def test_churn_of_a_gradient_that_travels_in_parts_changes_nothing():
    for seed in seeds(range(500, 508), (501,)):
        count, samples = ('500', '40000', '400000')[seed % 3], (1000, 777, 40)[seed % 3]
        model = elastic.trainer(STEPS, *SLOW, '--digest-every', '7', '--parts', '7',
                                '--count', count, samples=samples)
        a_schedule_changes_nothing(model, seed, MUSTER_TRANSPORT='tcp' if seed % 2 else 'auto')


def test_churn_of_mnist_changes_nothing():
    for seed in seeds(range(300, 306)):
        a_schedule_changes_nothing(elastic.mnist(STEPS, '--sleep-ms', '8'), seed)


def test_churn_of_the_fake_trainer_changes_nothing():
    for seed in seeds(range(400, 404)):
        a_schedule_changes_nothing(elastic.fake(STEPS * 2, '--sleep-ms', '15'), seed)


if __name__ == '__main__':
    kit.run(__name__, 2)
