#!/usr/bin/env python3
"""A job that is over: who comes late is told, who saw the end runs it again, and who comes while it ends waits.

usage: again_test.py MUSTER [CASE…]
"""
import json

import kit
from kit import SERVE


def runs(job, name):
    """The runs in which scripts of this node have been started."""
    return [r['run'] for r in job.reports() if r['node'] == name]


def over_without(job, a, b):
    """Both have run, b was lost, a has seen the end."""
    job.settled('a', 'b')
    b.kill9()
    job.settled('a')
    job.ends_well(a)
    kit.wait_until(lambda: job.status()['state'] == 'done', 'the run was over')


# ---- late ----

def test_one_that_was_lost_before_the_end_is_told_that_the_job_is_done():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='1:2')
        a, b = job.nodes('a', 'b')
        over_without(job, a, b)
        for node in (b, job.node('new')):
            before = runs(job, node.name)
            if node is b:
                b.start()
            assert node.wait() == 0
            said = node.log().splitlines()[-1]
            assert 'done before this node came' in said and '--rerun' in said, said
            assert runs(job, node.name) == before
        assert job.status()['run'] == 1


def test_also_by_an_orchestrator_that_was_restarted():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='1:2')
        a, b = job.nodes('a', 'b')
        over_without(job, a, b)
        orchestrator.restart()
        b.start()
        assert b.wait() == 0 and '--rerun' in b.log()
        a.start()
        assert a.wait() == 0
        assert runs(job, 'a')[-1] == 2, runs(job, 'a')


def test_one_that_insists_runs_it_again():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1:2')
        a, b = job.nodes('a', 'b')
        over_without(job, a, b)
        c = job.node('c', '--rerun')
        assert c.wait() == 0
        assert runs(job, 'c') == [2]


def test_one_that_comes_long_after_the_end_runs_it_again():
    with kit.World() as world:
        job = world.orchestrator(*SERVE, '--linger', '0').job(nnodes='1:2')
        a, b = job.nodes('a', 'b')
        over_without(job, a, b)
        c = job.node('c')
        assert c.wait() == 0
        assert runs(job, 'c') == [2]


# ---- again ----

def test_one_that_saw_the_end_runs_it_again():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1')
        a = job.node('a')
        job.settled('a')
        job.ends_well(a)
        a.start()
        assert a.wait() == 0
        assert runs(job, 'a') == [1, 2]


def test_a_job_that_failed_runs_again_as_soon_as_it_is_started():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1')
        a = job.node('a', '--max-restarts', '0')
        job.settled('a')
        job.finish(3)
        assert a.wait() == 3
        job.finish(0)
        a.start()
        assert a.wait() == 0
        assert runs(job, 'a') == [1, 2]


def ending(world):
    """The job was shut down; a has left, the script of b has yet to end."""
    orchestrator = world.orchestrator(*SERVE)
    job = orchestrator.job(nnodes='1:2')
    a = job.node('a')
    a.wait_log('in job ')
    b = job.node('b', '--grace', '300', script='deaf.py')
    job.settled('a', 'b')
    orchestrator.say('shutdown', job.name)
    assert a.wait() == 0
    return job, a, b


def test_one_that_comes_while_a_script_of_the_last_run_ends_waits_for_it():
    with kit.World() as world:
        job, a, b = ending(world)
        a.start()
        a.wait_log('is over; another begins when its last nodes have left')
        assert not b.ended() and runs(job, 'a') == [1]
        job.finish()
        assert b.wait() == 0
        assert a.wait() == 0
        assert runs(job, 'a') == [1, 2]


def test_also_if_that_is_of_its_own_name():
    with kit.World() as world:
        job, _, b = ending(world)
        again = job.node('b', script='deaf.py')
        again.wait_log('is over; another begins when its last nodes have left')
        job.finish()
        assert b.wait() == 0 and again.wait() == 0
        assert runs(job, 'b') == [1, 2]


# ---- many, one after the other ----

def test_an_orchestrator_does_more_jobs_than_it_has_places_for():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE, '--jobs-max', '3')
        jobs = [orchestrator.job(f'job{i}', nnodes='1') for i in range(7)]
        for i, job in enumerate(jobs):
            job.finish()
            assert job.node('a').wait() == 0, i
            if i == 4:
                orchestrator.restart()
        left = [json.loads(line)['job'] for line in orchestrator.say('status', '--json').splitlines()]
        assert sorted(left) == ['job4', 'job5', 'job6'], left
        late = jobs[0].node('b')
        assert late.wait() == 0 and '--rerun' in late.log()
        again = jobs[0].node('c', '--rerun')
        assert again.wait() == 0
        assert [r['run'] for r in jobs[0].reports()] == [1, 2]


def test_nodes_whose_scripts_failed_are_not_in_the_way_of_others():
    with kit.World() as world:
        job = world.orchestrator(*SERVE, '--nodes-max', '3').job(nnodes='1:2')
        a = job.node('a', '--max-restarts', '50')
        reports = job.settled('a')
        for i in range(4):
            pod = job.node(f'pod{i}', '--max-restarts', '50')
            reports = job.settled('a', f'pod{i}', after=reports[0]['generation'])
            job.finish(5, f'pod{i}@{reports[0]["generation"]}')
            reports = job.settled('a', f'pod{i}', after=reports[0]['generation'])
            assert pod.terminate() == 0, i
            reports = job.settled('a', after=reports[0]['generation'])
        job.ends_well(a)


if __name__ == '__main__':
    kit.run(__name__, jobs=2)
