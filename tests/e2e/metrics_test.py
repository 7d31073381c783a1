#!/usr/bin/env python3
"""The numbers of training: what the trainers of a job name shows wherever the job does, goes on when rank 0
or the orchestrator dies, and training waits for none of it.

usage: metrics_test.py MUSTER [CASE…]
"""
import os
import re

import kit
import web

TRAINER = os.path.join(os.path.abspath(os.environ.get('E2E_PROGRAMS', '.')), 'trainer')
GAUGE = 'muster_job_metric{job="default",name="loss"}'


def start(orchestrator, *names, steps):
    job = orchestrator.job(nnodes='1:3', mode='inprocess')
    args = ('--steps', str(steps), '--samples', '1000', '--global-batch', '32', '--sleep-us', '2000')
    nodes = {}
    for name in names:
        nodes[name] = job.node(name, script=TRAINER, args=args)
        nodes[name].wait_log('in job ')
    return job, nodes


def seen(job):
    """The step that the newest numbers are of; 0: there are none."""
    return ((job.status() or {}).get('metrics') or {}).get('step', 0)


def reached(job, step):
    return kit.wait_until(lambda: seen(job) >= step and seen(job), f'the numbers of step {step} were there')


def test_the_numbers_of_a_job_are_in_its_status_its_events_and_its_metrics():
    with kit.World() as world:
        orchestrator = web.serve(world, *kit.SERVE)
        with orchestrator.web.stream('/v1/jobs/default/events?follow=1') as nothing:
            assert nothing.status == 404
        job, nodes = start(orchestrator, 'a', 'b', steps=100000)
        reached(job, 5)
        with orchestrator.web.stream('/v1/jobs/default/events') as stream:
            first = stream.until_kind('metrics', n=2).json()
            assert first['metrics']['step'] == first['value'] > 0, first
            assert isinstance(first['metrics']['loss'], float), first
            assert re.search(r"job 'default': step \d+: loss [-\d.]", first['text']), first
        assert isinstance(orchestrator.web.get('/v1/jobs/default')['metrics']['loss'], float)
        assert GAUGE in orchestrator.web.metrics()
        line = orchestrator.say('status')
        assert re.search(r'^  step \d+: loss [-\d.]', line, re.M), line
        orchestrator.say('shutdown', 'default')
        assert [node.wait() for node in nodes.values()] == [0, 0]


def test_the_numbers_of_the_last_step_are_the_last_that_are_told():
    with kit.World() as world:
        orchestrator = web.serve(world, *kit.SERVE)
        job, nodes = start(orchestrator, 'a', 'b', steps=60)
        assert [node.wait() for node in nodes.values()] == [0, 0]
        assert reached(job, 60) == 60
        events = orchestrator.web.get('/v1/events')['events']
        told = [event['value'] for event in events if event['event'] == 'metrics']
        assert told == sorted(set(told)) and told[-1] == 60, told
        assert orchestrator.web.metrics()[GAUGE] is not None


def test_the_numbers_go_on_when_rank_0_is_killed():
    with kit.World() as world:
        orchestrator = world.orchestrator(*kit.SERVE)
        job, nodes = start(orchestrator, 'a', 'b', 'c', steps=100000)
        kit.wait_until(lambda: len(job.members()) == 3, 'all three were members')
        before = reached(job, 5)
        nodes.pop(job.members()[0]).kill9()
        reached(job, before + 20)
        orchestrator.say('shutdown', 'default')
        assert {node.wait() for node in nodes.values()} == {0}


def test_the_numbers_are_back_when_the_orchestrator_is():
    with kit.World() as world:
        orchestrator = world.orchestrator(*kit.SERVE)
        job, nodes = start(orchestrator, 'a', 'b', steps=100000)
        before = reached(job, 5)
        orchestrator.kill9()
        out = nodes['a'].out()
        kit.wait_until(lambda: nodes['a'].out().count('step=') > out.count('step=') + 20, 'training went on')
        orchestrator.restart()
        reached(job, before + 20)
        orchestrator.say('shutdown', 'default')
        assert {node.wait() for node in nodes.values()} == {0}


if __name__ == '__main__':
    kit.run(__name__, jobs=2)
