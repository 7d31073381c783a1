#!/usr/bin/env python3
"""How the workers of a job that trains begin, leave and end, in each mode.

usage: begin_test.py MUSTER [CASE…]
"""
import os
import re
import sys
import time

import elastic
import kit


def ends(job, *names):
    codes = {name: job.nodes[name].wait() for name in names or job.nodes}
    assert set(codes.values()) == {0}, codes


def ends_with_the_digest(job, size):
    """Each of so many workers has trained to the end once, and has the bits of one alone."""
    ends(job)
    assert elastic.digests(job.out()) == [elastic.trainer(20).alone()] * size, elastic.digests(job.out())


# ---- restart mode ----

def test_in_restart_mode_trainers_that_are_killed_find_each_other_again():
    """Each starts when its own end is known, so there may be several generations in a row, and another start of a
    worker in each: it listens where its generation says."""
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(20), mode='restart', nnodes='1', nproc=3, limit=0)
        job.start('a')
        job.reach(3)
        job.kill_workers('a')
        kit.wait_until(lambda: job.whole(1) == 3 and max(job.steps())[1] > 1, 'they had begun again')
        job.limit(elastic.NO_LIMIT)
        ends_with_the_digest(job, 3)


def test_in_restart_mode_a_trainer_that_does_not_heed_sigterm_takes_no_part_in_the_next_generation():
    """Its successor has its name there. It has a checkpoint to go on from, and would."""
    model = elastic.trainer(20)
    with kit.World() as world:
        job = elastic.Training(world, model, '--grace', '1', '--ckpt-dir', world.dir, '--ckpt-every', '2',
                               mode='restart', nnodes='2', limit=0)
        model.args = ('--ignore-signal=TERM', model.program, *model.args)
        model.program = '/usr/bin/env'
        job.start('a', 'b')
        job.reach(3)
        job.nodes['a'].wait_log('step 2 is saved')
        job.kill_workers('a')
        job.nodes['b'].wait_log('generation 2: rank 1 of 2 (node b')
        job.limit(elastic.NO_LIMIT)
        ends_with_the_digest(job, 2)
        assert 'goes on' not in job.nodes['b'].log(), 'it did'


# ---- leaving ----

def goes_on_with(job, *names):
    job.limit(5)
    kit.wait_until(lambda: 'left=5' in job.out(), 'one had left')
    job.step_until(lambda: job.whole(job.at) == len(names), f'{names} went on')
    job.limit(elastic.NO_LIMIT)


def test_whoever_leaves_in_the_middle_has_left_and_the_others_go_on():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(40), serve=elastic.TOGETHER, nnodes='1:3', limit=4)
        job.start('a', 'b')
        job.start('c', TRAINER_LEAVE='5')
        goes_on_with(job, 'a', 'b')
        assert job.nodes['c'].wait() == 0
        job.ends_well('a', 'b')
        assert len(job.pids('a') + job.pids('b') + job.pids('c')) == 3, 'nobody was started again'
        assert [e['node'] for e in job.orchestrator.events(kind='drained')] == ['c']
        assert not job.orchestrator.events(kind='lost')


def test_a_slot_that_exits_with_0_in_the_middle_is_not_missed():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(40), nnodes='1', nproc=2, limit=4)
        job.start('a', TRAINER_EXIT='5', TRAINER_SLOT='1')
        goes_on_with(job, 'a')
        job.ends_well('a')
        assert len(job.pids('a')) == 2, 'nobody was started again'


def test_a_job_that_all_have_left_has_ended_and_says_so():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(40), nnodes='1:2', serve=elastic.TOGETHER, limit=4)
        job.start('a', 'b', TRAINER_LEAVE='5')
        job.reach(4)
        job.start('c')  # One too many: it waits, and is not to begin all over.
        kit.wait_until(lambda: 'c' in job.job.waiting(), 'c waited')
        job.limit(elastic.NO_LIMIT)
        ends(job)
        status = job.job.status()
        assert (status['state'], status['why'], status['step']) == ('done', 'all its workers have left', 5), status
        assert job.last() == 5, 'somebody began it again'


def test_a_job_whose_scripts_do_nothing_ends():
    with kit.World() as world:
        job = world.orchestrator(*kit.SERVE).job(nnodes='1:2', mode='inprocess')
        nodes = [job.node(name, script='/bin/true') for name in 'ab']
        assert [node.wait() for node in nodes] == [0, 0]
        kit.wait_until(lambda: job.status()['state'] == 'done', 'the job had ended')
        assert job.status()['why'] == 'all its workers have left'


# ---- auto ----

def test_in_auto_mode_trainers_that_join_late_are_never_started_again():
    """What comes before mu_join() may take long, and others come meanwhile."""
    model = elastic.trainer(40)
    with kit.World() as world:
        gate = os.path.join(world.dir, 'gate')
        job = elastic.Training(world, model, '--silence', '1', mode='auto', nnodes='1:3', limit=0)
        wrapped = elastic.Model('/bin/sh', 1000, 32, 40)
        wrapped.args = ('-c', f'until [ -e {gate} ]; do sleep 0.05; done; exec "$0" "$@"', model.program, *model.args)
        job.model = wrapped
        job.start('a')
        kit.wait_until(lambda: job.job.members() == ['a'], 'a had begun')
        job.start('b')
        kit.wait_until(lambda: job.job.members() == ['a', 'b'], 'they had begun together')
        assert job.job.status()['mode'] == 'auto'
        with open(gate, 'w', encoding='ascii'):
            pass
        job.made_by(2)
        assert job.job.status()['mode'] == 'inprocess'
        job.start('c')
        job.made_by(3)
        job.model = model
        job.limit(elastic.NO_LIMIT)
        job.ends_well()
        assert [len(job.pids(name)) for name in 'abc'] == [1, 1, 1], 'one was started again'


LIBRARY = os.path.join(os.path.dirname(kit.MUSTER), 'src', 'train', 'libmuster.so')
LOADS = """
import ctypes, os, sys, time
library, gate, *trainer = sys.argv[1:]
ctypes.CDLL(library)
print(f"pid={os.getpid()}", flush=True)
while not os.path.exists(gate):
    time.sleep(0.05)
os.execv(trainer[0], trainer)
"""


def test_a_script_that_has_loaded_libmuster_is_not_started_again_before_it_joins():
    """Neither for a loss nor, though it has long been silent, for one that comes."""
    model = elastic.trainer(40)
    with kit.World() as world:
        gate = os.path.join(world.dir, 'gate')
        job = elastic.Training(world, model, '--silence', '1', mode='auto', nnodes='1:3', limit=0)
        job.model = elastic.Model(sys.executable, 1000, 32, 40)
        job.model.args = ('-c', LOADS, LIBRARY, gate, model.program, *model.args)
        for name in 'ab':
            job.start(name)
        kit.wait_until(lambda: job.job.members() == ['a', 'b'], 'they had begun together')
        kit.wait_until(lambda: job.pids('a') and job.pids('b'), 'both had loaded the library')
        job.kill('b')
        job.nodes.pop('b')
        kit.wait_until(lambda: job.job.members() == ['a'], 'b was missed')
        job.start('c')
        time.sleep(2)  # c may wait for ever for a's silence: that it is not broken is shown by the pids.
        assert job.job.status()['mode'] == 'auto'
        with open(gate, 'w', encoding='ascii'):
            pass
        job.made_by(2)
        job.model = model
        job.limit(elastic.NO_LIMIT)
        job.ends_well()
        assert [len(set(job.pids(name))) for name in 'ac'] == [1, 1], 'one was started again'


# ---- too many ----

WAITS = 'echo pid=$$; read -r line < "$0"'  # Until there is a line for it: a thousand that look again and again cost too much.


def open_gate(path, n):
    """So many scripts may end. The caller holds it open until they have: otherwise the kernel forgets the lines."""
    gate = os.open(path, os.O_RDWR)
    os.write(gate, b'\n' * n)
    return gate


def test_a_node_with_which_more_workers_would_train_than_can_is_refused_and_a_spare_waits():
    """At most 1,024 can. Those that are there are real processes, and none of them is to notice."""
    sizes = [64] * 15 + [32]
    with kit.World() as world:
        job = world.orchestrator(*kit.SERVE).job(nnodes='17', mode='inprocess')
        fifo = os.path.join(world.dir, 'gate')
        os.mkfifo(fifo)

        def start(name, workers_n):
            return job.node(name, '--nproc-per-node', str(workers_n), script='/bin/sh', args=('-c', WAITS, fifo))

        def begun():
            found = [re.findall(r'pid=(\d+)', node.out()) for node in nodes]
            return found if [len(pids) for pids in found] == sizes else None

        nodes = [start(f'n{i}', workers_n) for i, workers_n in enumerate(sizes)]
        began = kit.wait_until(begun, 'all had begun')
        late = start('late', 33)
        kit.wait_until(lambda: late.ended() or 'in job ' in late.log(), 'there was an answer')
        assert late.ended(), 'there is one worker too many'
        assert late.wait() == 1
        assert "with 33 more (node 'late') there would be more workers than the 1024 that can" in late.log()
        assert begun() == began and 'late' not in job.waiting()

        sizes.append(32)  # The last that there is room for; whoever comes now is one node too many, and waits.
        nodes.append(start('last', 32))
        began += [kit.wait_until(begun, 'the last had begun')[-1]]
        spare = start('spare', 1)
        kit.wait_until(lambda: 'spare' in job.waiting(), 'the spare waited')

        gate = open_gate(fifo, sum(sizes) + 1)
        codes = [node.wait() for node in [*nodes, spare]]
        os.close(gate)
        assert set(codes) == {0}, codes
        assert begun() == began, 'one was started again'


if __name__ == '__main__':
    kit.run(__name__, 2)
