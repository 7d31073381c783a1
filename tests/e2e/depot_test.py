#!/usr/bin/env python3
"""Checkpoints that the orchestrator keeps: nodes come without a file of their own, and the run goes on from what
is kept there; whatever breaks on the way there costs neither bits, nor leases, nor much that is sent again.

A failure names its seed: SEED=n runs that one alone. MUSTER_TEST_FULL=1 runs all.

usage: [SEED=n] depot_test.py MUSTER [CASE…]
"""
import os
import random
import re
import signal
import subprocess
import time

import ckpt
import elastic
import kit
import web

SEED = int(os.environ['SEED']) if 'SEED' in os.environ else None
RECEIVED = 'muster_checkpoint_received_bytes_total'
GIVEN = 'muster_checkpoint_given_bytes_total'
PLACE = 'orchestrator:'


class Kept(ckpt.Saving):
    """Nodes whose checkpoints the orchestrator keeps; `kept` is where."""

    def __init__(self, world, model, *flags, serve=kit.SERVE, **more):
        port = kit.free_port()
        super().__init__(world, model, *flags, folder=PLACE, serve=(*serve, '--http', f'127.0.0.1:{port}'), **more)
        self.web = web.Web(self.orchestrator, port)
        self.kept = os.path.join(self.orchestrator.data, 'ckpt')

    def steps_kept(self):
        return ckpt.steps_in(self.kept)

    def count(self, name):
        """Since the orchestrator's last start."""
        return self.web.metrics()[name]

    def demand_intact(self):
        ckpt.demand_intact(self.kept)


def bytes_of(count):
    return 2 * 4 * count  # weights and momentum


HUGE = 12_500_000 if kit.FULL else 6_000_000


def huge(steps):
    """48 MB, or 100: 12 or 24 chunks, which take a while."""
    return elastic.trainer(steps, '--count', str(HUGE), samples=100, batch=4, slices=4)


# ---- everyone is lost ----

KILL_STEPS = 14  # from one kill to the next, or a few less


def kill_all_nodes_again_and_again(model, seed, kills_n):
    chance = random.Random(seed)
    with kit.World() as world:
        job = Kept(world, model, nnodes='2', nproc=2, limit=0)
        names, told = ('a0', 'b0'), []
        job.start(*names)
        try:
            for i in range(kills_n):
                at = i * KILL_STEPS + chance.randrange(1, 12)
                job.limit(at + 4)
                kit.wait_until(lambda at=at: job.last() >= at, f'step {at} was done')
                if chance.random() < 0.7:  # There is time to put some.
                    kit.wait_until(job.steps_kept, 'one was kept')
                time.sleep(chance.random() / 20)
                before = len(job.takeovers())
                job.kill_nodes(*names)
                names = f'a{i + 1}', f'b{i + 1}'
                job.limit(at + 4 + job.every)  # It may have saved the last that it could do.
                job.start(*names)
                told.append(f'{at}→{ckpt.went_back(job, before + 1)}')
            job.limit(elastic.NO_LIMIT)
            job.ends_the_same(*names)
        except Exception as error:
            error.add_note(f'SEED={seed}; {told}')
            raise
        assert max(job.steps_kept()) == model.steps, ckpt.names_in(job.kept)
        assert set(re.findall(r'is restored from (\S+)', job.logs())) <= {'orchestrator:/default'}
        assert not os.path.exists(os.path.join(world.dir, PLACE))
        job.demand_intact()
        print(f'# seed {seed}: {", ".join(told)}', flush=True)


def test_every_node_is_lost_again_and_again_and_new_ones_go_on_with_the_same_bits():
    kills_n = 20 if kit.FULL else 3
    steps = kills_n * KILL_STEPS + 10
    for seed in [SEED] if SEED is not None else (1, 2, 11) if kit.FULL else (1,):
        model = ckpt.large(steps) if seed < 10 else ckpt.small(steps)
        kill_all_nodes_again_and_again(model, seed, kills_n)


def test_all_workers_are_killed_and_the_orchestrator_too():
    with kit.World() as world:
        job = Kept(world, ckpt.large(30), nnodes='2', limit=0)
        job.start('a', 'b')
        job.save_upto(10, then=12)
        job.orchestrator.kill9()
        job.kill_workers()
        job.orchestrator.start()
        assert ckpt.went_back(job, 1) == 10
        job.limit(elastic.NO_LIMIT)
        job.ends_the_same()


def test_a_new_cluster_of_another_size_goes_on_from_what_is_kept_compressed_too():
    model = ckpt.large(24)
    with kit.World() as world:
        job = Kept(world, model, '--ckpt-zstd', '--rerun', nnodes='1', nproc=4, limit=0)
        job.start('a')
        job.save_upto(10, then=12)
        job.orchestrator.say('shutdown', job.job.name)
        job.kill('a')
        job.job.nproc = 2
        job.limit(elastic.NO_LIMIT)
        job.start('b')  # Another run of the same job.
        job.ends_the_same('b')
        assert set(job.restored()) == {10}, job.restored()
        job.demand_intact()


# ---- one copy ----

def test_seven_workers_cost_the_orchestrator_one_copy():
    count = 1_100_000
    with kit.World() as world:
        job = Kept(world, ckpt.large(16, count=count), nnodes='1', nproc=2, limit=0)
        job.start('a')
        job.save_upto(10, then=12)
        job.kill_nodes()
        assert job.count(GIVEN) == 0
        job.job.nproc = 7
        job.limit(elastic.NO_LIMIT)
        job.start('b')
        job.ends_the_same('b')
        assert job.restored() == [10], job.restored()
        assert len(elastic.digests(job.out())) == 7
        given = job.count(GIVEN)
        assert bytes_of(count) <= given < 1.1 * bytes_of(count), (given, bytes_of(count))


def test_what_is_kept_in_memory_is_not_fetched():
    with kit.World() as world:
        job = Kept(world, ckpt.large(24), '--keep-in-memory', nnodes='2', limit=0)
        job.start('a', 'b')
        job.save_upto(10)
        last = max(12, job.at)
        job.reach(last)
        job.kill_workers()
        kit.wait_until(lambda: job.restored(), 'it was restored')
        assert job.count(GIVEN) == 0, job.count(GIVEN)
        assert set(job.restored()) <= {last - 1, last}, (job.restored(), last)
        job.limit(elastic.NO_LIMIT)
        job.ends_the_same()
        assert job.count(GIVEN) == 0 and 'is restored from orchestrator:' not in job.logs()


def test_of_the_same_step_the_one_in_memory_is_taken():
    with kit.World() as world:
        job = Kept(world, ckpt.large(24), '--keep-in-memory', nnodes='2', limit=0)
        job.start('a', 'b')
        job.save_upto(10)  # Of step 11 nothing is computed: the newest is 10, here and there.
        job.kill_workers()
        kit.wait_until(lambda: job.restored(), 'it was restored')
        job.limit(elastic.NO_LIMIT)
        job.ends_the_same()
        assert job.count(GIVEN) == 0, job.restored()


# ---- on the way there ----

def arrived(job, step):
    """Bytes of that step's shard while it comes in; 0: it does not."""
    for name in ckpt.left_in(job.kept):
        if name.startswith(f'.step-{step:012}.'):
            try:
                return os.path.getsize(os.path.join(job.kept, 'default', name, 'shard-0000'))
            except FileNotFoundError:
                pass
    return 0


def break_in_the_middle(job, bytes_n, strike):
    """Strikes while a step is half there; (the step, what was there)."""
    for step in range(job.every, job.model.steps, job.every):
        job.limit(step)
        until = time.monotonic() + kit.LONG_S
        while step not in job.steps_kept() and time.monotonic() < until:
            if bytes_n * 4 // 10 < arrived(job, step) < bytes_n * 9 // 10:
                strike()
                if step in job.steps_kept():
                    break
                return step, arrived(job, step)
            time.sleep(0.001)
        job.wait_saved(step)
    raise AssertionError('no put was caught in the middle')


def test_an_orchestrator_that_is_killed_in_the_middle_of_a_put_gets_the_rest_of_it():
    model = huge(40)
    bytes_n = bytes_of(HUGE)
    with kit.World() as world:
        job = Kept(world, model, every=3, nnodes='2', limit=0)
        job.start('a', 'b')
        step, there = break_in_the_middle(job, bytes_n, job.orchestrator.kill9)
        job.orchestrator.start()
        job.wait_saved(step)
        assert f'step {step} is not saved' not in job.logs()
        received = job.count(RECEIVED)
        # What was on the disk is not sent again, but for what was not whole, or not answered.
        assert received <= bytes_n - there + 4 * ckpt.CHUNK, (received, there, bytes_n)
        job.demand_intact()
        job.kill_nodes()
        job.start('c', 'd')
        kit.wait_until(lambda: step in job.restored(), 'that one was restored')


def test_a_worker_that_is_killed_in_the_middle_of_a_put_costs_that_one_only():
    model = huge(13)
    with kit.World() as world:
        job = Kept(world, model, every=2, nnodes='1:2', limit=0)
        job.start('a', 'b')
        step, _ = break_in_the_middle(job, bytes_of(HUGE), lambda: job.kill_workers('a'))  # It has rank 0.
        job.limit(elastic.NO_LIMIT)
        job.ends_the_same()
        assert job.takeovers() == [], job.takeovers()
        assert max(job.steps_kept()) == model.steps, (step, ckpt.names_in(job.kept))
        assert ckpt.left_in(job.kept) == [], ckpt.left_in(job.kept)
        job.demand_intact()


def test_large_puts_cost_nobody_its_lease():
    with kit.World() as world:
        job = Kept(world, huge(6), every=2, nnodes='2', serve=kit.LAPSING)
        job.start('a', 'b')
        job.ends_the_same()
        assert len(job.saved()) >= 2, job.logs()
        assert {number for _, number, _, _ in job.steps()} == {1}, 'somebody was lost'
        assert max(job.steps_kept()) == 6, ckpt.names_in(job.kept)
        kinds = [event['event'] for event in job.orchestrator.events()]
        assert 'lost' not in kinds[:kinds.index('ended')], kinds  # Who leaves when it has ended may be in a hurry.


# ---- people, and those who leave ----

def test_a_node_that_leaves_has_one_made_and_nothing_is_lost_with_the_last():
    with kit.World() as world:
        job = Kept(world, ckpt.small(1000), '--grace', '60', every='1h', nnodes='1', limit=0)
        job.start('a')
        job.reach(5)
        job.nodes['a'].send(signal.SIGTERM)
        steps = job.step_until(job.steps_kept, 'one was kept')
        job.nodes['a'].terminate()  # Nobody comes in its place: it need not wait any longer.
        job.limit(elastic.NO_LIMIT)
        job.start('b')
        job.ends_the_same('b')
        assert job.restored() == steps, (job.restored(), steps)


def test_people_can_want_one_and_the_job_knows_of_it():
    with kit.World() as world:
        job = Kept(world, ckpt.small(1000), every='1h', nnodes='2', limit=0)
        job.start('a', 'b')
        job.reach(5)
        job.orchestrator.say('ckpt', 'save', job.job.name)
        step = job.step_until(job.steps_kept, 'one was kept')[0]
        job.wait_saved(step)
        assert {n for _, n in job.saved()} == {1}, job.saved()  # One puts it there, whoever trains.
        job.orchestrator.say('shutdown', job.job.name)
        job.limit(elastic.NO_LIMIT)
        assert [job.nodes[name].wait() for name in 'ab'] == [0, 0]


# ---- what can't be kept, or read ----

def test_without_room_it_is_said_and_training_goes_on():
    quota = str(2 * bytes_of(1_100_000) + (4 << 20))  # two, and not three
    with kit.World() as world:
        job = Kept(world, ckpt.large(30), nnodes='2', serve=(*kit.SERVE, '--ckpt-quota', quota), limit=0)
        job.start('a', 'b')
        job.save_upto(10, then=17)
        kit.wait_until(lambda: re.search(r'step 15 is not saved: .*--ckpt-quota.*saved before is kept', job.logs()),
                       'it was said, and what to do')
        job.reach(17)
        assert job.steps_kept() == [5, 10], ckpt.names_in(job.kept)
        job.demand_intact()
        job.orchestrator.say('ckpt', 'rm', PLACE, job.job.name, '5')
        job.limit(elastic.NO_LIMIT)
        kit.wait_until(lambda: len(job.steps_kept()) == 2 and job.steps_kept()[-1] > 10, 'the next had room')
        codes = [job.nodes[name].wait() for name in 'ab']  # The last one has none, and is not lost without a word.
        assert 0 not in codes and 'no worker could save the state after the last one' in job.logs(), codes


def test_the_oldest_makes_room_if_it_would_go_anyway():
    quota = str(2 * bytes_of(1_100_000) + (4 << 20))
    with kit.World() as world:
        job = Kept(world, ckpt.large(30), '--ckpt-keep', '1', nnodes='2', limit=0,
                   serve=(*kit.SERVE, '--ckpt-quota', quota))
        job.start('a', 'b')
        for step in range(5, 25, 5):
            job.save_upto(step, after=step - 5)
            assert job.steps_kept() == [s for s in (step - 5, step) if s > 0], job.steps_kept()  # two at least
        job.limit(elastic.NO_LIMIT)
        job.ends_the_same()
        assert 'is not saved' not in job.logs()


def test_of_a_damaged_one_it_is_said_and_the_one_before_is_taken():
    damages = {'a bit of the shard': lambda path: kit.flip(os.path.join(path, 'shard-0000')),
               'half a manifest': lambda path: ckpt.cut(os.path.join(path, 'manifest')),
               'half a shard': lambda path: ckpt.cut(os.path.join(path, 'shard-0000')),
               'no shard': lambda path: os.unlink(os.path.join(path, 'shard-0000'))}
    with kit.World() as world:
        job = Kept(world, ckpt.large(20), nnodes='2', limit=0)
        job.start('a', 'b')
        job.save_upto(15)
        for i, what in enumerate(damages if kit.FULL else list(damages)[:2], 1):
            job.kill_nodes()
            damages[what](ckpt.path_of(job.kept, 15))
            job.limit(14)
            job.start(f'a{i}', f'b{i}')
            kit.wait_until(lambda i=i: job.restored() == [10] * i, f'it was restored: {what}')
            said = job.logs(f'a{i}', f'b{i}')
            assert re.search(r"checkpoint: step 15 can't be restored: .+", said), (what, said)
            job.limit(15)
            kit.wait_until(lambda i=i: [s for s, _ in job.saved()].count(15) > i, 'there was a new one')
            job.demand_intact()  # The new one of step 15 has taken its place.
        job.limit(elastic.NO_LIMIT)
        job.ends_the_same(f'a{i}', f'b{i}')


def test_if_what_is_kept_cannot_be_read_the_run_does_not_begin_anew():
    with kit.World() as world:
        job = Kept(world, ckpt.large(20), nnodes='1', restarts=0)
        os.makedirs(job.kept, exist_ok=True)
        with open(os.path.join(job.kept, 'default'), 'wb'):
            pass  # no folder
        job.start('a')
        assert job.nodes['a'].wait() != 0
        assert "the checkpoints that the orchestrator keeps can't be read" in job.logs(), job.logs()
        assert job.steps() == []


def test_all_damaged_is_not_the_same_as_none():
    with kit.World() as world:
        job = Kept(world, ckpt.large(20), nnodes='1', restarts=0)
        job.limit(7)
        job.start('a')
        job.wait_saved(5)
        job.kill_nodes()
        ckpt.cut(ckpt.path_of(job.kept, 5, 'manifest'))
        before = ckpt.contents(job.kept)
        job.start('b')
        assert job.nodes['b'].wait() != 0
        assert 'there is no intact checkpoint to go on from' in job.logs('b'), job.logs('b')
        assert job.steps('b') == [] and ckpt.contents(job.kept) == before


# ---- without ----

def test_a_process_by_itself_is_told_that_it_needs_a_folder():
    done = subprocess.run([elastic.TRAINER, '--steps', '3'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=kit.LONG_S,
                          env={**os.environ, 'MUSTER_CKPT_DIR': PLACE})
    assert done.returncode != 0 and 'this process has no agent. Name a folder' in done.stdout, done


def test_what_makes_no_sense_with_it_is_refused():
    for words, said in ((['--standalone'], 'needs an orchestrator that stays'), (['--ckpt-shared'], 'leave it out')):
        done = subprocess.run([kit.MUSTER, 'run', *words, '--ckpt-dir', PLACE, 'true'], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, timeout=kit.LONG_S)
        assert done.returncode == 2 and said in done.stdout, done
    with kit.World() as world:  # The script may name it, too.
        node = world.job(mode='inprocess').node('a', '--standalone', script=elastic.TRAINER, args=('--steps', '3'),
                                MUSTER_LOG='info', TRAINER_CKPT=PLACE)
        assert node.wait() != 0
        assert 'the one inside --standalone is gone with the run' in node.log(), node.log()


if __name__ == '__main__':
    kit.run(__name__, 2)
