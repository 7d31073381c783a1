#!/usr/bin/env python3
"""Scripts that fail with exit code 1 because a peer was killed (scripts/chain.py) spend nobody's restarts: with
--max_restarts 0 all survivors go on.

usage: peers_test.py MUSTER [CASE…]
"""
import os
import signal

import kit
from kit import LAPSING

PATIENT = (*LAPSING, *kit.PATIENCE)  # Nothing here depends on whether a lease lapses.


def start(job, *names):
    return {name: job.node(name, '--max_restarts', '0', script='chain.py') for name in names}


def generation_of(reports):
    return reports[0]['generation']


def settled(job, nodes, after=0):
    def look():
        ended = {name: node.process.returncode for name, node in nodes.items() if node.ended()}
        assert not ended, f'gave up: {ended}'
        return job.complete(tuple(nodes), after)

    kit.wait_until(look, f'{tuple(nodes)} ran scripts in a generation after {after}')
    return job.settled(*nodes, after=after)


def test_kill_9_of_a_script_whose_peers_then_fail_is_survived_by_all():
    with kit.World() as world:
        job = world.orchestrator(*PATIENT).job(nnodes='3')
        nodes = start(job, 'a', 'b', 'c')
        reports = settled(job, nodes)
        for n in range(30 if kit.FULL else 3):
            os.kill(reports[n % 3]['pid'], (signal.SIGKILL, signal.SIGSEGV)[n % 2])
            reports = settled(job, nodes, generation_of(reports))
        job.finish()
        assert [node.wait() for node in nodes.values()] == [0, 0, 0]


def test_kill_9_of_one_of_several_scripts_of_a_node_is_survived_by_all():
    with kit.World() as world:
        job = world.orchestrator(*PATIENT).job(nnodes='2', nproc=2)
        nodes = start(job, 'a', 'b')
        reports = settled(job, nodes)
        for n in range(30 if kit.FULL else 2):
            os.kill(reports[3 * n % 4]['pid'], signal.SIGKILL)
            reports = settled(job, nodes, generation_of(reports))
        job.finish()
        assert [node.wait() for node in nodes.values()] == [0, 0]


def test_kill_9_of_an_agent_is_survived_by_the_others():
    with kit.World() as world:
        job = world.orchestrator(*LAPSING).job(nnodes='1:3')
        nodes = start(job, 'a', 'b', 'c')
        reports = settled(job, nodes)
        for n in range(30 if kit.FULL else 2):
            name = reports[n % 3]['node']
            nodes.pop(name).kill9()
            reports = settled(job, nodes, generation_of(reports))
            nodes.update(start(job, f'x{n}'))
            reports = settled(job, nodes, generation_of(reports))
        job.finish()
        assert {node.wait() for node in nodes.values()} == {0}


def test_a_node_that_is_drained_costs_the_others_nothing():
    with kit.World() as world:
        orchestrator = world.orchestrator(*LAPSING)
        job = orchestrator.job(nnodes='1:3')
        nodes = start(job, 'a', 'b', 'c')
        reports = settled(job, nodes)
        for name in ('a', 'b'):
            orchestrator.say('drain', name)
            assert nodes.pop(name).wait() == 0
            reports = settled(job, nodes, generation_of(reports))
        job.finish()
        assert nodes['c'].wait() == 0


if __name__ == '__main__':
    kit.run(__name__, jobs=4)
