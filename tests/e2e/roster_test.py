#!/usr/bin/env python3
"""Helpers in in-process mode, in real processes: found by those who train, lost and found again, and no part of
what is trained.

usage: roster_test.py MUSTER [CASE…]
"""
import os
import re
import signal
import socket

import elastic
import kit

EINVAL, EDONE, ELEFT = -2, -17, -19
LINE = re.compile(r'roster (\w+) (-?\d+) (\d+) (\w+) (\S+)$')
END = re.compile(r'roster=(\d+)$')


def told(job, name):
    """The last whole roster that a node's worker has said: [(role, number, id, standing, address)]."""
    last, coming = None, []
    for line in job.nodes[name].out().splitlines():
        one = LINE.search(line)
        if one:
            role, number, worker, standing, address = one.groups()
            coming.append((role, int(number), int(worker), standing, address))
        elif END.search(line):
            last, coming = coming, []
    return last


def helpers(job, name):
    return [one for one in told(job, name) or [] if one[3] != 'member']


def all_know(job, names, want, what):
    """Waits until each of them has been told of the same helpers, and want(them) is true; these."""
    def look():
        found = [helpers(job, name) if told(job, name) is not None else None for name in names]
        return found[0] is not None and all(one == found[0] for one in found) and want(found[0]) and [found[0]]
    return kit.wait_until(look, f'{names} knew {what}')[0]


def serves(number, after=0):
    return lambda found: len(found) == 1 and found[0][0] == 'ps' and found[0][1] == number and \
        found[0][3] == 'serving' and found[0][2] > after


def answers(address):
    host, _, port = address.rpartition(':')
    with socket.create_connection((host, int(port)), kit.LONG_S):
        return True


def training(world, *flags, steps=60, mode='inprocess', **more):
    return elastic.Training(world, elastic.trainer(steps), *flags, nnodes='2', limit=0, mode=mode,
                            serve=kit.SERVE, TRAINER_ROSTER='1', **more)


def ps(job, name, role='ps', flags=()):
    job.start(name, flags=('--role', role, *flags), TRAINER_SERVES='1')


def states(job):
    """By node: (role, state) of the helpers that the status shows."""
    return {one['node']: (one['role'], one['state']) for one in (job.job.status() or {}).get('helpers', [])}


# ---- one ps ----

def test_a_ps_is_found_killed_replaced_and_found_again():
    with kit.World() as world:
        job = training(world)
        job.start('a', 'b')
        job.made_by(2)
        ps(job, 'p')
        first, = all_know(job, 'ab', serves(0), 'a ps that serves')
        assert answers(first[4]), first
        assert states(job) == {'p': ('ps', 'serving')}, states(job)
        assert 'serving' in job.orchestrator.say('status', 'default')
        assert [one[0:2] for one in told(job, 'a') if one[3] == 'member'] == [('worker', 0), ('worker', 1)]

        job.kill_workers('p')  # Its agent starts another.
        second, = all_know(job, 'ab', serves(0, first[2]), 'the next life of the ps')
        assert answers(second[4]), second

        job.kill('p')  # Another node takes its place, and its number.
        all_know(job, 'ab', lambda found: not found, 'that there is no ps')
        ps(job, 'q')
        third, = all_know(job, 'ab', serves(0, second[2]), 'the ps of another node')
        assert third[4] != second[4] and answers(third[4]), (second, third)

        assert {size for *_, size in job.steps('a')} == {2}  # Nobody was in their generation.
        job.limit(elastic.NO_LIMIT)
        job.ends_well('a', 'b', 'q')
        assert f'refused={EINVAL}' in job.nodes['q'].out() and f'served={EDONE}' in job.nodes['q'].out()


def test_a_ps_that_stands_still_is_replaced():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(20), nnodes='1', limit=0, serve=kit.LAPSING,
                               TRAINER_ROSTER='1')
        job.start('a')
        ps(job, 'p')
        first, = all_know(job, 'a', serves(0), 'a ps that serves')
        os.kill(job.pids('p')[-1], signal.SIGSTOP)
        all_know(job, 'a', serves(0, first[2]), 'another ps')
        job.limit(elastic.NO_LIMIT)
        job.ends_well('a', 'p')


def test_a_ps_that_is_drained_leaves_and_the_job_goes_on():
    with kit.World() as world:
        job = training(world)
        job.start('a', 'b')
        ps(job, 'p')
        all_know(job, 'ab', serves(0), 'a ps that serves')
        job.nodes['p'].send(signal.SIGTERM)
        assert job.nodes['p'].wait() == 0
        assert f'served={ELEFT}' in job.nodes['p'].out()
        all_know(job, 'ab', lambda found: not found, 'that there is no ps')
        job.limit(elastic.NO_LIMIT)
        job.ends_well('a', 'b')


def test_the_roster_outlives_the_orchestrator():
    with kit.World() as world:
        job = training(world)
        job.start('a', 'b')
        job.made_by(2)
        ps(job, 'p')
        before, = all_know(job, 'ab', serves(0), 'a ps that serves')
        job.orchestrator.restart()
        kit.wait_until(lambda: states(job) == {'p': ('ps', 'serving')}, 'the orchestrator knew the ps')
        ps(job, 'e', role='evaluator')
        found = all_know(job, 'ab', lambda found: len(found) == 2 and found[1][3] == 'serving', 'an evaluator, too')
        assert found[0] == before, (found, before)
        assert all(re.search(r'roster ps 0 ', line) for line in ps_lines(job, 'a'))
        job.limit(elastic.NO_LIMIT)
        job.ends_well('a', 'b', 'p', 'e')


def ps_lines(job, name):
    return [line for line in job.nodes[name].out().splitlines() if 'roster ps' in line]


# ---- auto, and jobs that nobody trains ----

def test_in_auto_mode_the_ps_is_in_no_generation_that_counts():
    with kit.World() as world:
        job = training(world, mode='auto')
        job.start_all('a', 'b')
        ps(job, 'p')
        job.made_by(2)
        all_know(job, 'ab', serves(0), 'a ps that serves')
        assert sorted(job.job.members()) == ['a', 'b']
        job.limit(elastic.NO_LIMIT)
        job.ends_well('a', 'b', 'p')


def a_job_that_nobody_trains(mode):
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(1), nnodes='1:3', serve=kit.SERVE, mode=mode)
        job.spawn('v', TRAINER_SERVES='1')
        job.spawn('w', TRAINER_SERVES='1')
        job.spawn('c', flags=('--role', 'chief'), TRAINER_SERVES='1', TRAINER_LEADS='2')
        codes = {name: node.wait() for name, node in job.nodes.items()}
        assert set(codes.values()) == {0}, codes
        assert 'led=2' in job.nodes['c'].out()
        assert all(f'served={EDONE}' in job.nodes[name].out() for name in 'vw')


def test_a_job_of_helpers_ends_with_its_chief():
    a_job_that_nobody_trains('inprocess')


def test_a_job_of_helpers_ends_with_its_chief_in_auto_mode():
    a_job_that_nobody_trains('auto')


if __name__ == '__main__':
    kit.run(__name__, 3)
