#!/usr/bin/env python3
"""How the workers of a job that trains begin, leave and end, in each mode.

usage: begin_test.py MUSTER [CASE…]
"""
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


if __name__ == '__main__':
    kit.run(__name__, 2)
