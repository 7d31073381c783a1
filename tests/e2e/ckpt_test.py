#!/usr/bin/env python3
"""Checkpoints, in real processes: whoever is lost, the run goes on from the newest one that is intact, and ends
with the bits of an undisturbed run; and a save that fails harms nothing.

A failure names its seed: SEED=n runs that one alone. MUSTER_TEST_FULL=1 runs all.

usage: [SEED=n] ckpt_test.py MUSTER [CASE…]
"""
import os
import random
import re
import shutil
import time

import ckpt
import elastic
import kit
import mounts

SEED = int(os.environ['SEED']) if 'SEED' in os.environ else None


def seeds(full, sample):
    if SEED is not None:
        return [SEED]
    return full if kit.FULL else sample


# ---- everyone is lost ----

KILL_STEPS = 14  # from one kill to the next, or a few less


def kill_all_again_and_again(model, seed, kills_n, **more):
    chance = random.Random(seed)
    with kit.World() as world:
        job = ckpt.Saving(world, model, limit=0, **more)
        job.start('a', 'b', 'c')
        told = []
        try:
            for i in range(kills_n):
                at = i * KILL_STEPS + chance.randrange(1, 12)
                job.limit(at + 4)
                kit.wait_until(lambda at=at: job.last() >= at, f'step {at} was done')
                time.sleep(chance.random() / 20)
                before = len(job.takeovers())
                job.kill_workers()
                job.limit(at + 4 + job.every)  # It may have saved the last that it could do.
                told.append(f'{at}→{ckpt.went_back(job, before + 1)}')
            job.limit(elastic.NO_LIMIT)
            job.ends_the_same()
        except Exception as error:
            error.add_note(f'SEED={seed}; {told}')
            raise
        assert ckpt.left_in(job.folder) == [], ckpt.left_in(job.folder)
        print(f'# seed {seed}: {", ".join(told)}', flush=True)


def test_all_workers_are_killed_at_any_moment_and_the_bits_stay_the_same():
    kills_n = 20 if kit.FULL else 3
    steps = kills_n * KILL_STEPS + 10
    for seed in seeds((1, 2, 3, 11, 12), (1,)):
        model = ckpt.large(steps) if seed < 10 else ckpt.small(steps)
        kill_all_again_and_again(model, seed, kills_n, nnodes='3' if seed % 2 else '1:3')


def test_every_node_is_lost_and_new_ones_go_on():
    with kit.World() as world:
        job = ckpt.Saving(world, ckpt.large(24), nnodes='1:3', limit=0)
        job.start('a', 'b', 'c')
        job.save_upto(15)
        job.reach(17)
        job.kill_nodes()
        job.limit(elastic.NO_LIMIT)
        job.start('d', 'e')
        assert ckpt.went_back(job, 1) == 15
        job.ends_the_same('d', 'e')


def test_what_was_saved_while_the_orchestrator_was_away_is_gone_on_from():
    """It last heard of a checkpoint that has made place for newer ones since."""
    with kit.World() as world:
        job = ckpt.Saving(world, ckpt.large(30), '--ckpt-keep', '1', nnodes='1:2', serve=kit.LAPSING, limit=0)
        job.start('a', 'b')
        job.save_upto(15)
        job.orchestrator.kill9()
        job.limit(20)
        job.step_on(lambda: ckpt.steps_in(job.folder) == [20], 'step 20 was saved, and no other was left', 24)
        job.kill_nodes()
        job.orchestrator.start()
        job.limit(elastic.NO_LIMIT)
        job.start('c', 'd')
        # Nobody could tell it that they are dead; and it has to miss them first.
        kit.wait_until(lambda: job.orchestrator.ask('takeover', 'default')[0] == 0, 'it was taken over')
        assert ckpt.went_back(job, 1) == 20
        job.ends_the_same('c', 'd')


# ---- the cluster is ended, and there is another one ----

def part_of_a_run(folder, model, nodes, nproc, back, upto, **more):
    """A cluster that goes on from step `back`, and is lost when it has saved step `upto`."""
    with kit.World() as world:
        job = ckpt.Saving(world, model, folder=folder, nnodes=str(nodes), nproc=nproc, limit=back, **more)
        job.start(*[f'n{i}' for i in range(nodes)])
        job.save_upto(upto, after=back)
        job.reach(upto + 1)
        if back:
            assert job.first_after(1) == back + 1 and set(job.restored()) == {back}, job.restored()
            assert f'generation 1 starts from step {back}\n' in job.logs()


def end_of_a_run(folder, model, nodes, nproc, back, **more):
    """… or goes on to the end."""
    with kit.World() as world:
        job = ckpt.Saving(world, model, folder=folder, nnodes=str(nodes), nproc=nproc, limit=back, **more)
        job.start(*[f'n{i}' for i in range(nodes)])
        job.save_upto(model.steps - 1, after=back, then=elastic.NO_LIMIT)
        job.ends_the_same()
        assert len(elastic.digests(job.out())) == nodes * nproc
        assert job.first_after(1) == (back + 1 if back < model.steps else 0), job.first_after(1)
        assert set(job.restored()) == {back}, job.restored()
        return job.logs()


def sizes_4_2_7(model, *flags):
    with ckpt.new_folder() as folder:
        part_of_a_run(folder, model, 2, 2, 0, 15, *flags)
        part_of_a_run(folder, model, 2, 1, 15, 30, *flags)
        end_of_a_run(folder, model, 1, 7, 30, *flags)
        ckpt.demand_intact(folder)
        assert ckpt.left_in(folder) == [], ckpt.left_in(folder)
        before = ckpt.contents(folder)
        end_of_a_run(folder, model, 2, 1, model.steps, *flags)  # There is nothing left to do.
        assert ckpt.contents(folder) == before


def test_new_clusters_of_4_then_2_then_7_workers_go_on_and_the_bits_stay_the_same():
    sizes_4_2_7(ckpt.large(45))
    if kit.FULL:
        sizes_4_2_7(ckpt.small(45))


def test_a_cluster_that_went_on_from_a_checkpoint_never_begins_from_nothing():
    """Before it has saved any of its own; and not even if those who come first have none."""
    model = ckpt.large(30)
    with ckpt.new_folder() as folder, ckpt.new_folder() as empty, kit.World() as world:
        part_of_a_run(folder, model, 1, 2, 0, 15)
        job = ckpt.Saving(world, model, nnodes='1:2', folder=folder, limit=17)
        job.start('a')
        job.reach(17)
        job.kill_workers()
        assert ckpt.went_back(job, 1) == 15 and job.takeovers()[0][1] == 15, job.takeovers()
        job.kill_nodes()
        job.start('b', folder=empty, before=mounts.host(world, 1))
        job.nodes['b'].wait_log('there is no intact checkpoint to go on from on any of these nodes')
        job.limit(elastic.NO_LIMIT)
        job.start('c')
        job.ends_the_same('b', 'c')
        assert min(job.steps())[0] == 16


def run_by_shards(folder, names):
    """What is left of it, by these nodes: the steps that each has seen, and the digests at its end."""
    text = '123456789'
    model = elastic.Model(elastic.TRAINER, len(text), 1, len(text))
    model.args = ('--shard', text)
    with kit.World() as world:
        job = ckpt.Saving(world, model, folder=folder, every=1, nnodes=str(len(names)))
        job.start_all(*names)
        codes = [job.nodes[name].wait() for name in names]
        assert set(codes) == {0}, codes
        return [step for step, *_ in job.steps()], elastic.digests(job.out())


def test_a_run_by_shards_that_is_over_makes_no_step_when_it_is_started_again():
    with ckpt.new_folder() as folder:
        steps, digests = run_by_shards(folder, 'ab')
        assert sorted(steps) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5], steps
        assert len(set(digests)) == 1 and ckpt.steps_in(folder)[-1] == 5, (digests, ckpt.steps_in(folder))
        before = ckpt.contents(folder)
        for names in ('ab', 'a', 'abc'):
            found = run_by_shards(folder, names)
            assert found == ([], digests[:1] * len(names)), f'{names} made steps {found[0]}: {found[1]}, not {digests}'
        assert ckpt.contents(folder) == before


# ---- what is there is damaged, or somebody else's ----

def a_folder_with_three(folder, model):
    part_of_a_run(folder, model, 1, 2, 0, 15)
    ckpt.demand_intact(folder)
    assert ckpt.steps_in(folder) == [5, 10, 15], ckpt.steps_in(folder)
    for name in ckpt.left_in(folder):
        shutil.rmtree(os.path.join(folder, 'default', name))


DAMAGES = {
    'a bit of a shard': lambda folder, step: kit.flip(ckpt.path_of(folder, step, 'shard-0000')),
    'half a manifest': lambda folder, step: ckpt.cut(ckpt.path_of(folder, step, 'manifest')),
    'a bit of a manifest': lambda folder, step: kit.flip(ckpt.path_of(folder, step, 'manifest')),
    'half a shard': lambda folder, step: ckpt.cut(ckpt.path_of(folder, step, 'shard-0001')),
    'no shard': lambda folder, step: os.unlink(ckpt.path_of(folder, step, 'shard-0001')),
    'no manifest': lambda folder, step: os.unlink(ckpt.path_of(folder, step, 'manifest')),
}


def test_of_a_damaged_checkpoint_it_is_said_and_the_one_before_is_taken():
    model = ckpt.large(24)
    with ckpt.new_folder() as whole:
        a_folder_with_three(whole, model)
        for what in DAMAGES if kit.FULL else list(DAMAGES)[:2]:
            with ckpt.new_folder() as folder:
                shutil.copytree(whole, folder, dirs_exist_ok=True)
                DAMAGES[what](folder, 15)
                said = end_of_a_run(folder, model, 2, 1, 10)
                assert re.search(r"checkpoint: step 15 can't be restored: .+", said), (what, said)
                ckpt.demand_intact(folder)  # The new one of step 15 has taken its place.
                assert ckpt.steps_in(folder) == [15, 20, 24], (what, ckpt.steps_in(folder))


def fails_clearly(folder, model, *words):
    """Nothing is trained, nothing is touched, and it is said why."""
    before = ckpt.contents(folder)
    with kit.World() as world:
        job = ckpt.Saving(world, model, folder=folder, nnodes='2', restarts=0)
        job.start('a', 'b')
        assert all(job.nodes[name].wait() != 0 for name in 'ab')
        assert job.steps() == []
        for word in words:
            assert word in job.logs(), (word, job.logs())
    assert ckpt.contents(folder) == before


def test_if_all_are_damaged_nothing_is_started_and_nothing_is_overwritten():
    model = ckpt.large(24)
    with ckpt.new_folder() as folder:
        a_folder_with_three(folder, model)
        for what, step in (('a bit of a shard', 5), ('half a manifest', 10), ('half a shard', 15)):
            DAMAGES[what](folder, step)
        fails_clearly(folder, model, "step 5 can't be restored", "step 10 can't be restored",
                      "step 15 can't be restored", 'there is no intact checkpoint to go on from',
                      'remove what is there, or use another --ckpt-dir')


def test_the_checkpoints_of_another_run_are_refused_and_stay():
    model = ckpt.large(24)
    with ckpt.new_folder() as folder:
        a_folder_with_three(folder, model)
        fails_clearly(folder, ckpt.large(24, '--seed', '2'), 'the seed is 1 there and 2 here',
                      'Use another --ckpt-dir or job name')
        fails_clearly(folder, ckpt.large(24, count=1000), 'is of another model: its part 0 is weights with '
                      '4400000 bytes, and here it is weights with 4000')
        end_of_a_run(folder, model, 1, 2, 15)


# ---- hosts ----

def test_without_a_shared_folder_every_host_has_whole_checkpoints_and_gives_them_to_those_without():
    model = ckpt.large(30)
    with ckpt.new_folder() as first, ckpt.new_folder() as second, ckpt.new_folder() as third:
        with kit.World() as world:
            job = ckpt.Saving(world, model, nnodes='3', folder=first, limit=0)
            hosts = [mounts.host(world, i) for i in range(2)]
            job.start('a', 'b', folder=first, before=hosts[0])
            job.start('c', folder=second, before=hosts[1])
            for i in range(1, 4):
                job.limit(i * job.every)  # The first on each host ends what all there write.
                job.step_on(lambda i=i: job.heard('a')[1] == job.heard('c')[1] == i, f'{i} were saved',
                            (i + 1) * job.every - 1)
            for folder in (first, second):
                assert ckpt.steps_in(folder) == [5, 10, 15], ckpt.steps_in(folder)
                ckpt.demand_intact(folder)
            assert ckpt.shards_of(first, 15) == ['shard-0000', 'shard-0001']
            assert ckpt.shards_of(second, 15) == ['shard-0000']
        shutil.rmtree(ckpt.path_of(first, 15))  # The second has the newest.
        with kit.World() as world:
            job = ckpt.Saving(world, model, nnodes='3')
            for i, folder in enumerate((first, second, third)):
                job.start('abc'[i], folder=folder, before=mounts.host(world, i))
            job.ends_the_same()
            assert job.first_after(1) == 16 and job.restored() == [15], (job.first_after(1), job.restored())
            assert f'is restored from {second}/default' in job.logs('b')
            assert all('this worker has the state of step 15' in job.logs(name) for name in 'ac')
            for folder in (first, second, third):
                ckpt.demand_intact(folder)
                assert ckpt.steps_in(folder)[-1] == 30, ckpt.steps_in(folder)


def test_with_a_shared_folder_all_hosts_write_one_checkpoint():
    model = ckpt.large(30)
    with ckpt.new_folder() as folder:
        for back in (0, 15):
            with kit.World() as world:
                job = ckpt.Saving(world, model, '--ckpt-shared', nnodes='3', folder=folder)
                job.limit(back)
                for i in range(3):
                    job.start('abc'[i], before=mounts.host(world, i))
                if back == 0:
                    job.save_upto(15)
                else:
                    job.limit(elastic.NO_LIMIT)
                    job.ends_the_same()
                    assert job.first_after(1) == 16
                assert {n for _, n in job.saved()} == {3}, job.saved()
            newest = ckpt.steps_in(folder)[-1]
            assert len(ckpt.shards_of(folder, newest)) == 3
            ckpt.demand_intact(folder)
        assert newest == 30


# ---- containers: one kernel, and folders of their own ----

def whole_in_each(job, folders, steps):
    """Every node's folder has checkpoints that need no other, and nothing that was left behind."""
    for i in range(1, steps // job.every + 1):
        job.limit(i * job.every)
        job.step_on(lambda i=i: all(job.heard(name)[1] == i for name in job.nodes), f'{i} were saved by each',
                    (i + 1) * job.every - 1)
    for folder in folders:
        assert ckpt.steps_in(folder) == list(range(job.every, steps + 1, job.every)), ckpt.names_in(folder)
        assert ckpt.left_in(folder) == [], ckpt.left_in(folder)
        ckpt.demand_intact(folder)


def test_nodes_of_one_host_with_folders_of_their_own_have_whole_checkpoints_each():
    with ckpt.new_folder() as first, ckpt.new_folder() as second, kit.World() as world:
        job = ckpt.Saving(world, ckpt.large(30), nnodes='3', limit=0)
        job.start('a', folder=first)
        job.start('b', folder=second)
        job.start('c', folder=second)  # It shares that one, as those of a host do.
        job.limit(5)
        job.step_on(lambda: job.heard('a')[1] == job.heard('b')[1] == 1, 'one was saved in each', 9)
        assert ckpt.shards_of(first, 5) == ['shard-0000'], ckpt.shards_of(first, 5)
        assert ckpt.shards_of(second, 5) == ['shard-0000', 'shard-0001'], ckpt.shards_of(second, 5)
        job.limit(elastic.NO_LIMIT)
        job.ends_the_same()
        for folder in (first, second):
            assert ckpt.steps_in(folder)[-1] == 30 and ckpt.left_in(folder) == [], ckpt.names_in(folder)
            ckpt.demand_intact(folder)


def test_the_same_path_in_two_containers_is_not_the_same_folder():
    """Whatever the nodes say of it: with --ckpt-shared, too, which is told to be wrong."""
    for flags in ((), ('--ckpt-shared',)):
        with ckpt.new_folder() as first, ckpt.new_folder() as second, kit.World() as world:
            os.mkdir(os.path.join(world.dir, 'ckpt'))
            job = ckpt.Saving(world, ckpt.large(30), *flags, nnodes='2', limit=0)
            for name, folder in (('a', first), ('b', second)):
                job.start(name, before=mounts.over(folder, job.folder))
            whole_in_each(job, (first, second), 15)
            assert ('see another folder' in job.logs()) == bool(flags), job.logs()
            job.limit(elastic.NO_LIMIT)
            job.ends_the_same()
            assert ckpt.steps_in(second)[-1] == 30, ckpt.names_in(second)


def test_a_node_without_a_folder_holds_nobody_up_and_flags_that_differ_are_told():
    with kit.World() as world:
        job = ckpt.Saving(world, ckpt.large(20), nnodes='3')
        job.start('a')
        flags, job.flags = job.flags, elastic.RENEW
        elastic.Training.spawn(job, 'b')
        job.nodes['b'].wait_log('in job ')
        job.flags = flags
        job.start('c', flags=('--ckpt-every', '7'))
        job.ends_the_same()
        assert ckpt.steps_in(job.folder)[-1] == 20 and ckpt.left_in(job.folder) == [], ckpt.names_in(job.folder)
        assert 'checkpoints are saved to: here none / there a folder' in job.logs('b'), job.logs('b')
        assert 'checkpoints are saved every: here 7 steps / there 5 steps' in job.logs('c'), job.logs('c')


# ---- when, and how many ----

def test_by_the_clock_it_is_saved_so_often():
    with kit.World() as world:
        began = time.monotonic()
        job = ckpt.Saving(world, ckpt.small(1 << 40, '--sleep-us', '1000'), every='1s', nnodes='2')
        job.start('a', 'b')
        kit.wait_until(lambda: len(job.saved()) >= 3, 'it was saved three times')
        assert time.monotonic() - began > 2, job.logs()  # … and not more often.
        job.orchestrator.say('shutdown', job.job.name)
        assert [job.nodes[name].wait() for name in 'ab'] == [0, 0]


def test_any_worker_can_want_a_checkpoint():
    with kit.World() as world:
        job = ckpt.Saving(world, ckpt.small(30), every='1h', nnodes='2')
        job.start('a')
        job.start('b', TRAINER_SAVE='7')
        job.ends_the_same()
        found = ckpt.steps_in(job.folder)
        assert len(found) == 2 and 8 <= found[0] <= 9 and found[1] == 30, found  # The last is, always.
        assert 'unsaved' not in job.out()
    with kit.World() as world:
        job = elastic.Training(world, ckpt.small(10), nnodes='1')
        job.start('a', TRAINER_SAVE='7')
        job.ends_well()
        assert 'unsaved=7 why=there is no folder for checkpoints' in job.out(), job.out()


def test_the_newest_and_every_so_many_are_kept():
    with kit.World() as world:
        job = ckpt.Saving(world, ckpt.small(50), '--ckpt-keep', '2', '--ckpt-keep-every', '20', nnodes='2', limit=0)
        job.start('a', 'b')
        job.save_upto(45)
        job.limit(elastic.NO_LIMIT)
        job.ends_the_same()
        assert ckpt.steps_in(job.folder) == [20, 40, 45, 50], ckpt.steps_in(job.folder)
        assert sorted(step for step, _ in job.saved()) == list(range(5, 51, 5)), job.saved()
        assert ckpt.left_in(job.folder) == []


def test_compressed_ones_give_the_same_bits():
    model = ckpt.large(24)
    with ckpt.new_folder() as folder:
        part_of_a_run(folder, model, 2, 1, 0, 15)
        plain = sum(map(len, ckpt.contents(ckpt.path_of(folder, 15)).values()))
        shutil.rmtree(folder + '/default')
        with kit.World() as world:
            job = ckpt.Saving(world, model, '--ckpt-zstd', folder=folder, nnodes='2', limit=0)
            job.start('a', 'b')
            job.save_upto(15)
            packed = sum(map(len, ckpt.contents(ckpt.path_of(folder, 15)).values()))
            assert packed < plain, (packed, plain)
            job.kill_workers()
            job.limit(elastic.NO_LIMIT)
            ckpt.went_back(job, 1)
            job.ends_the_same()
            ckpt.demand_intact(folder)


# ---- saves that fail ----

def test_on_a_full_disk_it_is_said_and_training_goes_on_and_saves_when_there_is_room():
    with kit.World() as world:
        disk = mounts.small_disk(world, 'disk', '64m')
        job = ckpt.Saving(world, ckpt.large(30), folder=disk, nnodes='2', limit=0)
        job.start('a', 'b')
        job.save_upto(5)
        mounts.fill(disk)
        job.limit(22)
        kit.wait_until(lambda: re.search(r'step \d+ is not saved: .*the disk is full', job.logs()), 'it was said')
        job.reach(22)
        assert ckpt.steps_in(disk) == [5], ckpt.names_in(disk)
        ckpt.demand_intact(disk)
        mounts.make_room(disk)
        job.limit(elastic.NO_LIMIT)
        job.ends_the_same()
        assert ckpt.steps_in(disk)[-1] == 30 and ckpt.left_in(disk) == [], ckpt.names_in(disk)
        ckpt.demand_intact(disk)


def test_a_writer_that_is_killed_during_a_save_costs_that_one_only():
    for victim in 'ab':
        with kit.World() as world:
            disk = ckpt.SlowDisk(world)
            job = ckpt.Saving(world, ckpt.large(20), every=10, nnodes='1:2', limit=12, serve=elastic.TOGETHER,
                              **disk.env)
            disk.set_ms(400)
            job.start('a', 'b')
            ckpt.attempt_begun(job.folder, 10)
            job.kill_workers(victim)
            disk.set_ms(0)
            job.limit(elastic.NO_LIMIT)
            job.ends_the_same()
            assert ckpt.steps_in(job.folder)[-1] == 20, ckpt.names_in(job.folder)
            assert ckpt.left_in(job.folder) == [], ckpt.left_in(job.folder)
            assert job.takeovers() == []
            ckpt.demand_intact(job.folder)


def test_the_last_state_is_saved_however_slow_the_disk_is():
    with kit.World() as world:
        disk = ckpt.SlowDisk(world)
        job = ckpt.Saving(world, ckpt.large(12), nnodes='2', **disk.env)
        disk.set_ms(200)
        job.start('a', 'b')
        job.ends_the_same()
        assert ckpt.steps_in(job.folder)[-1] == 12, job.logs()
        ckpt.demand_intact(job.folder)


def test_what_a_killed_cluster_was_saving_is_never_taken_for_its_own_by_the_next():
    """Steps and generations have the same numbers there."""
    model = ckpt.large(20)
    with ckpt.new_folder() as folder:
        names = []
        for _ in range(2):
            with kit.World() as world:
                disk = ckpt.SlowDisk(world)
                job = ckpt.Saving(world, model, every=10, folder=folder, nnodes='2', limit=12, **disk.env)
                disk.set_ms(5000)
                job.start('a', 'b')
                kit.wait_until(lambda: len(ckpt.left_in(folder)) > len(names), 'step 10 was being saved')
                names = ckpt.left_in(folder)
                assert ckpt.steps_in(folder) == []
        assert len(set(names)) == 2, names
        with kit.World() as world:
            job = ckpt.Saving(world, model, every=10, folder=folder, nnodes='2')
            job.start('a', 'b')
            job.ends_the_same()
        assert ckpt.left_in(folder) == [] and ckpt.steps_in(folder) == [10, 20], ckpt.names_in(folder)
        ckpt.demand_intact(folder)


if __name__ == '__main__':
    mounts.enter()
    kit.run(__name__, 2)
