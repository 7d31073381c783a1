"""Workers of another numeric kind: found by what they say of themselves, or by what they compute."""
import re

import elastic
import kit


def test_one_of_another_numeric_kind_is_refused_and_disturbs_nobody():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(300), '--max-restarts', '0', nnodes='1:3', limit=0,
                               MUSTER_NUMERICS_EXTRA='torch 1')
        job.start('a', 'b')
        job.made_by(2)
        job.start('c', MUSTER_NUMERICS_EXTRA='torch 2')
        job.step_until(job.nodes['c'].ended, 'it had ended')
        assert job.nodes['c'].wait() != 0
        said = job.nodes['c'].out()
        assert 'status=-18' in said and 'extra: here torch 2 / there torch 1' in said, said
        job.limit(elastic.NO_LIMIT)
        job.ends_well('a', 'b')
        assert all(size <= 2 for sizes in job.worlds().values() for size in sizes), job.worlds()


def test_with_numerics_warn_it_is_taken_in_and_says_so():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(300), nnodes='1:3', limit=0, MUSTER_NUMERICS_EXTRA='torch 1')
        job.start('a', 'b')
        job.made_by(2)
        job.start('c', flags=('--numerics', 'warn'), MUSTER_NUMERICS_EXTRA='torch 2')
        job.made_by(3)
        assert 'extra: here torch 2 / there torch 1' in job.nodes['c'].log(), job.nodes['c'].log()
        job.limit(elastic.NO_LIMIT)
        job.ends_well('a', 'b', 'c')


def stopped_for_gradients(job, *names):
    """All of them have ended and say why: with MU_EDIVERGED, or because the job has failed, if they heard
    of that before they found out."""
    codes = [job.nodes[name].wait() for name in names]
    assert 0 not in codes, codes
    found = re.findall(r'failed=mu_next status=(-20|-15) why=(.*)', job.out())
    assert len(found) == len(names) and all('different gradients' in why for _, why in found), job.out()[-2000:]
    assert '-20' in [status for status, _ in found], found
    assert not elastic.digests(job.out())
    return [why for _, why in found]


def test_a_newcomer_that_rounds_otherwise_is_found_before_its_first_step_counts():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(1000, '--digest-every', '0'), nnodes='1:3', limit=0)
        job.start('a', 'b')
        job.made_by(2)
        job.start('c', TRAINER_ROUND='1')
        job.trickle_until(lambda: 'failed=' in job.out(), 'somebody had stopped')
        job.limit(elastic.NO_LIMIT)
        why = stopped_for_gradients(job, 'a', 'b', 'c')
        assert all(re.search(r"others: n3\.0#1 \(rank 2\)$|odd one is n3\.0#1 \(node 'c'\)", text) for text in why), why
        assert all(size <= 2 for sizes in job.worlds().values() for size in sizes), job.worlds()


def test_a_worker_that_begins_to_round_otherwise_is_found_by_a_check_slice():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(400, '--digest-every', '0', '--check-every', '5'),
                               nnodes='2')
        job.start('a')
        job.start('b', TRAINER_ROUND='21')
        stopped_for_gradients(job, 'a', 'b')
        assert max(job.steps())[0] == 24, max(job.steps())


if __name__ == '__main__':
    kit.run(__name__, 2)
