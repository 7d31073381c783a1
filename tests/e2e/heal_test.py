#!/usr/bin/env python3
"""A worker's state goes wrong: with --heal, and most of them alike, all go back to what all had, in the same
processes, and the run ends with the bits of an undisturbed one. Otherwise it ends, and says why.

A failure names its seed: SEED=n runs that one alone. MUSTER_TEST_FULL=1 runs all.

usage: [SEED=n] heal_test.py MUSTER [CASE…]
"""
import os
import random
import re

import ckpt
import elastic
import kit
import mounts

SEED = int(os.environ['SEED']) if 'SEED' in os.environ else None
HEALED = re.compile(r'healed: all have gone back to step (\d+): after step (\d+) the states of the workers '
                    r'differed; the odd one is (n\d+\.\d+#\d+) \(node \'(\w+)\'\)')
GONE = re.compile(r'checkpoint: step (\d+) is taken away: the states of the workers differed')


class Healing(ckpt.Saving):
    def __init__(self, *args, **more):
        super().__init__(*args, limit=0, **more)

    def healed(self):
        """(step that it went back to, step after which they differed, node of the odd one), each time."""
        return [(int(back), int(at), node) for back, at, _, node in HEALED.findall(self.orchestrator.log())]

    def wait_healed(self, n=1):
        return kit.wait_until(lambda: self.healed() if len(self.healed()) >= n else None, f'it healed {n} times')

    def taken_away(self):
        return sorted({int(step) for step in GONE.findall(self.logs())})

    def demand_same_processes(self, **workers):
        found = {name: len(self.pids(name)) for name in self.nodes}
        assert found == workers, found

    def fails(self, *texts):
        """All nodes end with an error, and the job says why."""
        codes = [self.nodes[name].wait() for name in self.nodes]
        assert 0 not in codes, codes
        assert not elastic.digests(self.out())
        status = self.job.status()
        assert status['state'] == 'failed', status
        assert all(text in status['why'] for text in texts), status['why']
        return status['why']


def model(steps, *args, digest=5):
    return elastic.trainer(steps, '--digest-every', str(digest), *args)


# ---- it heals ----

def test_three_workers_on_two_machines_go_back_and_end_with_the_same_bits():
    with kit.World() as world, ckpt.new_folder() as there:
        job = Healing(world, model(60), '--heal', every=10, nnodes='2')
        job.start('a', flags=('--nproc-per-node', '2'), before=mounts.host(world, 1))
        job.start('b', folder=there, before=mounts.host(world, 2), TRAINER_CORRUPT='22', TRAINER_CORRUPT_TIMES='1')
        job.save_upto(20, then=elastic.NO_LIMIT)
        job.ends_the_same()
        assert job.healed() == [(20, 25, 'b')], job.healed()
        assert len(elastic.digests(job.out())) == 3
        job.demand_same_processes(a=2, b=1)
        events = job.orchestrator.events(kind='healed')
        assert len(events) == 1 and events[0]['value'] == 20 and "node 'b'" in events[0]['reason'], events
        assert {step for step, generation, _, _ in job.steps() if generation == 1} == set(range(1, 26))
        assert {step for step, generation, _, _ in job.steps() if generation == 2} == set(range(21, 61))
        assert set(job.restored()) == {20}, job.restored()


def test_what_the_odd_one_saved_is_never_used():
    """It is rank 0, which writes what is saved on its host. All are killed as soon as the job has gone back, and
    then there is another orchestrator, which knows of nothing."""
    trained = elastic.trainer(60, '--digest-every', '0')
    with ckpt.new_folder() as folder:
        with kit.World() as world:
            job = Healing(world, trained, '--heal', every=10, nnodes='3', folder=folder)
            job.start('a', TRAINER_CORRUPT='28', TRAINER_CORRUPT_TIMES='1')
            job.start('b', 'c')
            job.save_upto(20, then=25)
            job.orchestrator.stop()  # Nobody goes back before they are kept from saving that step once more.
            job.limit(elastic.NO_LIMIT)
            kit.wait_until(lambda: job.logs().count('step 31 is not committed') == 3, 'all stopped')
            job.limit(20)
            job.orchestrator.cont()
            job.wait_healed()
            assert job.healed() == [(20, 30, 'a')], job.healed()
            job.kill_workers()
            job.limit(25)
            assert 30 not in ckpt.steps_in(folder), ckpt.steps_in(folder)
            assert job.taken_away() in ([30], []), job.taken_away()  # It may not have been there yet.
            assert ckpt.went_back(job, 1) == 20
            job.kill_nodes()
            assert max(ckpt.steps_in(folder)) == 20, ckpt.steps_in(folder)
        with kit.World() as world:
            job = Healing(world, trained, '--heal', every=10, nnodes='2', folder=folder)
            job.start('a', 'b')
            job.limit(elastic.NO_LIMIT)
            job.ends_the_same()
            assert job.healed() == [] and min(job.steps())[0] == 21


def test_the_orchestrator_is_away_when_states_differ():
    with kit.World() as world:
        job = Healing(world, model(60), '--heal', every=10, nnodes='3')
        job.start('a', 'b')
        job.start('c', TRAINER_CORRUPT='22', TRAINER_CORRUPT_TIMES='1')
        job.save_upto(20, then=24)
        job.reach(24)
        job.orchestrator.kill9()
        job.limit(elastic.NO_LIMIT)
        kit.wait_until(lambda: job.logs().count('step 26 is not committed') == 3, 'all stopped')
        job.orchestrator.start()
        job.ends_the_same()
        assert job.healed() == [(20, 25, 'c')], job.healed()
        job.demand_same_processes(a=1, b=1, c=1)


def test_what_the_orchestrator_keeps_is_gone_back_to():
    with kit.World() as world:
        job = Healing(world, model(60, digest=0), '--heal', every=10, nnodes='3', folder='orchestrator:')
        job.start('a', TRAINER_CORRUPT='28', TRAINER_CORRUPT_TIMES='1')
        job.start('b', 'c')
        job.save_upto(20, then=elastic.NO_LIMIT)
        job.ends_the_same()
        assert job.healed() == [(20, 30, 'a')], job.healed()
        job.demand_same_processes(a=1, b=1, c=1)


def test_what_is_kept_in_memory_is_not_gone_back_to_if_it_is_newer():
    with kit.World() as world:
        job = Healing(world, model(50), '--heal', '--keep-in-memory', every=10, nnodes='3')
        job.start('a', TRAINER_CORRUPT='22', TRAINER_CORRUPT_TIMES='1')
        job.start('b', 'c')
        job.save_upto(20, then=elastic.NO_LIMIT)
        job.ends_the_same()
        assert job.healed() == [(20, 25, 'a')], job.healed()
        job.demand_same_processes(a=1, b=1, c=1)


def heal_by_chance(seed):
    chance = random.Random(seed)
    nodes = 'abcde'[:chance.randrange(3, 6)]
    odd = chance.choice(nodes)
    every, digest = chance.randrange(3, 12), chance.randrange(0, 8)
    at = chance.randrange(every * 2, 40)
    times = chance.randrange(1, 4)
    with kit.World() as world:
        job = Healing(world, model(60, digest=digest), '--heal', '--ckpt-keep', str(chance.randrange(1, 4)),
                      every=every, nnodes=str(len(nodes)))
        try:
            for name in nodes:
                wrong = {'TRAINER_CORRUPT': str(at), 'TRAINER_CORRUPT_TIMES': str(times)} if name == odd else {}
                job.start(name, **wrong)
            job.save_upto(every, then=elastic.NO_LIMIT)
            job.ends_the_same()
            assert len(job.healed()) == times and all(node == odd for _, _, node in job.healed()), job.healed()
            assert all(back < at <= found for back, found, _ in job.healed()), job.healed()
            job.demand_same_processes(**{name: 1 for name in nodes})
        except Exception as error:
            error.add_note(f'SEED={seed}: {nodes}, {odd} at {at}, {times} times, saves every {every}, '
                           f'digests every {digest}; {job.healed()}')
            raise


def test_whoever_goes_wrong_whenever_the_bits_stay_the_same():
    for seed in [SEED] if SEED is not None else range(1, 21) if kit.FULL else (1, 2):
        heal_by_chance(seed)


# ---- it does not ----

def test_of_two_workers_nobody_can_tell_who_is_right():
    with kit.World() as world:
        job = Healing(world, model(60), '--heal', every=10, nnodes='2')
        job.start('a')
        job.start('b', TRAINER_CORRUPT='22')
        job.save_upto(20, then=elastic.NO_LIMIT)
        job.fails('after step 25 the states of the workers differ', "it can't heal: no more than half")
        assert job.healed() == []


def test_without_heal_the_job_ends():
    with kit.World() as world:
        job = Healing(world, model(60), every=10, nnodes='3')
        job.start('a', 'b')
        job.start('c', TRAINER_CORRUPT='22')
        job.save_upto(20, then=elastic.NO_LIMIT)
        why = job.fails('after step 25 the states of the workers differ', 'n3.0#1')
        assert 'heal' not in why, why
        assert 20 in ckpt.steps_in(job.folder)


def test_without_a_checkpoint_the_job_ends_and_says_so():
    with kit.World() as world:
        job = elastic.Training(world, model(60), '--heal', nnodes='3')
        job.start('a', 'b')
        job.start('c', TRAINER_CORRUPT='22')
        assert 0 not in [job.nodes[name].wait() for name in 'abc']
        why = job.job.status()['why']
        assert 'n3.0#1' in why and "it can't heal: there is no checkpoint" in why, why


def test_a_worker_that_goes_wrong_each_time_ends_the_job():
    with kit.World() as world:
        job = Healing(world, model(60), '--heal', every=10, nnodes='3')
        job.start('a', 'b')
        job.start('c', TRAINER_CORRUPT='22')
        job.save_upto(20, then=elastic.NO_LIMIT)
        job.fails("node 'c'", 'it went back 3 times, and did not get past step 25')
        assert job.healed() == [(20, 25, 'c')] * 3, job.healed()
        job.demand_same_processes(a=1, b=1, c=1)


if __name__ == '__main__':
    mounts.enter()
    kit.run(__name__, 2)
