#!/usr/bin/env python3
"""The orchestrator's disk is full, slow, or fails now and then: what needs a record is refused or waits, leases
live on, no script notices, nothing that was acknowledged is lost, and it recovers by itself.

usage: disk_test.py MUSTER [CASE…]

A full disk is a small tmpfs in a mount namespace of this test alone; a slow one is programs/slowsync.c,
preloaded; a failing one is libfiu.
"""
import os
import subprocess
import time

import kit
import mounts
import tap
from kit import LAPSING, LEASE_S, SERVE
from mounts import fill, make_room

SLOWSYNC = os.path.join(os.environ.get('E2E_PROGRAMS', ''), 'libslowsync.so')
FIU = ('/usr/lib/fiu/fiu_run_preload.so', '/usr/lib/fiu/fiu_posix_preload.so')


def small_disk(world, size='1m'):
    """What the orchestrator `serve` of this world will have as its data directory."""
    return mounts.small_disk(world, 'serve.data', size)


def known(job):
    """What an orchestrator must know after it was killed, too."""
    status = job.status()
    return {name: status[name] for name in ('run', 'generation', 'active', 'state')} | {
        'members': [(m['rank'], m['worker'], m['node']) for m in status['members']],
        'waiting': sorted(w['node'] for w in status['waiting'])}


def generation_of(reports):
    return reports[0]['generation']


def is_refused(node):
    """It says so, and tries again."""
    node.wait_log("can't take this node in for now")
    assert 'journal' in node.log() and not node.ended(), node.log()


def lives_on(job, reports, leases_n=3 if kit.FULL else 1.3):
    """Through so many leases, the scripts run on, and nobody is evicted."""
    time.sleep(leases_n * LEASE_S)
    assert all(kit.lives(r['pid']) for r in reports)
    assert job.status()['generation'] == generation_of(reports), job.status()
    assert job.reports()[-len(reports):] == reports


# ---- full ----

def test_a_full_disk_refuses_what_is_new_and_recovers_when_there_is_room():
    with kit.World() as world:
        disk = small_disk(world)
        orchestrator = world.orchestrator(*LAPSING)
        job = orchestrator.job(nnodes='1:4')
        nodes = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        fill(disk)
        began = time.monotonic()
        nodes.append(job.node('c'))
        is_refused(nodes[2])
        code, _, err = orchestrator.ask('drain', 'a')
        assert code == 1 and 'nothing was changed' in err and disk in err, (code, err)
        lives_on(job, before)
        journal = orchestrator.own_status()['journal']
        assert not journal['writable'] and journal['error'] != '', journal
        assert orchestrator.log().count('Leases go on') == 1, orchestrator.log()
        said_n = orchestrator.log().count('could not be written')
        assert 0 < said_n <= 11 + time.monotonic() - began, said_n  # It tries ten times a second.
        make_room(disk)
        after = job.settled('a', 'b', 'c', after=generation_of(before))
        assert generation_of(after) == generation_of(before) + 1
        assert 'writing works again' in orchestrator.log()
        assert orchestrator.own_status()['journal']['writable']
        orchestrator.say('drain', 'a')
        assert nodes[0].wait() == 0
        job.settled('b', 'c', after=generation_of(after))
        job.ends_well(*nodes)


def test_what_a_full_disk_had_acknowledged_is_there_after_kill_9():
    with kit.World() as world:
        disk = small_disk(world)
        orchestrator = world.orchestrator(*LAPSING)
        job = orchestrator.job(nnodes='1:4')
        a, b, c = job.nodes('a', 'b', 'c')
        before = job.settled('a', 'b', 'c')
        was = known(job)
        fill(disk)
        assert orchestrator.ask('drain', 'a')[0] == 1
        orchestrator.restart()  # … on a disk that is still full.
        assert known(job) == was
        lives_on(job, before)
        assert orchestrator.ask('drain', 'b')[0] == 1
        orchestrator.kill9()
        make_room(disk)
        orchestrator.start()
        assert known(job) == was
        orchestrator.say('drain', 'b')
        orchestrator.restart()
        assert b.wait() == 0
        job.settled('a', 'c', after=generation_of(before))
        job.ends_well(a, c)


def test_a_loss_while_the_disk_is_full_is_made_good_when_there_is_room():
    with kit.World() as world:
        disk = small_disk(world)
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='1:4')
        a, b, c = job.nodes('a', 'b', 'c')
        before = job.settled('a', 'b', 'c')
        fill(disk)
        b.kill9()
        orchestrator.wait_log('Leases go on')
        d = job.node('d')
        is_refused(d)
        time.sleep(0.5)  # It tries ten times a second.
        assert job.reports()[-3:] == before and job.status()['generation'] == generation_of(before)
        assert all(kit.lives(r['pid']) for r in before if r['node'] != 'b')
        make_room(disk)
        job.settled('a', 'c', 'd', after=generation_of(before))
        job.ends_well(a, c, d)


def test_a_disk_that_is_full_from_the_start_is_told_and_nothing_is_served():
    with kit.World() as world:
        disk = small_disk(world)
        fill(disk)
        one = kit.Orchestrator(world, 'serve', SERVE, {})
        one.spawn(('serve', '--listen', one.where, '--data', one.data, *SERVE))
        assert one.wait() == 1
        assert disk in one.log() and 'No space left' in one.log(), one.log()
        make_room(disk)
        one.start()
        node = one.job(nnodes='1').node('a')
        node.job.ends_well(node)


# ---- slow ----

def slow_disk(world):
    """An orchestrator, and what sets how long each of its syncs takes."""
    path = os.path.join(world.dir, 'sync_ms')

    def set_ms(value):
        with open(path + '.new', 'w', encoding='ascii') as file:
            file.write(str(value))
        os.rename(path + '.new', path)

    assert os.path.exists(SLOWSYNC), SLOWSYNC
    set_ms(0)
    return world.orchestrator(*LAPSING, LD_PRELOAD=SLOWSYNC, SLOWSYNC_FILE=path), set_ms


def test_with_slow_syncs_changes_come_late_but_right():
    with kit.World() as world:
        orchestrator, set_ms = slow_disk(world)
        job = orchestrator.job(nnodes='1:4')
        a, b = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        sync_s = 0.5 * LEASE_S if kit.FULL else 0.3
        set_ms(int(1000 * sync_s))
        began = time.monotonic()
        c = job.node('c')
        grown = job.settled('a', 'b', 'c', after=generation_of(before))
        assert time.monotonic() - began > 2 * sync_s  # The disk was slow indeed.
        assert generation_of(grown) == generation_of(before) + 1
        b.kill9()
        shrunk = job.settled('a', 'c', after=generation_of(grown))
        orchestrator.say('drain', 'c', '--timeout', '60')
        assert c.wait() == 0
        last = job.settled('a', after=generation_of(shrunk))
        assert generation_of(last) == generation_of(grown) + 2  # Nobody else was lost.
        kit.wait_until(lambda: job.waiting() == [], 'the node was gone')
        was = known(job)
        orchestrator.kill9()
        set_ms(0)
        orchestrator.start()
        assert known(job) == was
        job.finish()
        assert a.wait() == 0 and job.reports()[-1] == last[0]


def test_with_syncs_of_more_than_a_lease_no_lease_lapses():
    with kit.World() as world:
        orchestrator, set_ms = slow_disk(world)
        job = orchestrator.job(nnodes='1:4')
        a, b = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        set_ms((3000 if kit.FULL else 1200) * LEASE_S)
        c = job.node('c')
        c.wait_log('in job ')  # That is known only when it is on the disk.
        if not kit.FULL:
            set_ms(0)
        after = job.settled('a', 'b', 'c', after=generation_of(before))
        assert generation_of(after) == generation_of(before) + 1
        assert orchestrator.events(job.name, 'lost') == [], orchestrator.log()
        set_ms(0)
        job.ends_well(a, b, c)


# ---- failing now and then ----

def failing_disk(world):
    """An orchestrator, and what sets how many of its writes fail."""
    if not all(map(os.path.exists, FIU)):
        tap.skip('libfiu is not installed (package fiu-utils)')
    fifo = os.path.join(world.dir, 'fiu')
    # That a node has left is written again after a lease, if it could not be written at once.
    one = world.orchestrator('--lease', '4', '--join-window', '0.2', LD_PRELOAD=' '.join(FIU), FIU_CTRL_FIFO=fifo)

    def set_share(*names, share):
        for name in names:
            order = f'enable_random name={name},probability={share}' if share else f'disable name={name}'
            subprocess.run(['fiu-ctrl', '-f', fifo, '-c', order, str(one.pid)], check=True,
                           timeout=kit.LONG_S)

    return one, set_share


def fails_now_and_then(*names):
    with kit.World() as world:
        orchestrator, set_share = failing_disk(world)
        job = orchestrator.job(nnodes='1:8')
        nodes = dict(zip('abc', job.nodes('a', 'b', 'c')))
        before = job.settled('a', 'b', 'c')
        set_share(*names, share=0.2)
        refused_n = drained_n = 0
        while drained_n < 2:
            code, _, err = orchestrator.ask('drain', 'ab'[drained_n])
            assert code in (0, 1) and (code == 0 or 'nothing was changed' in err), (code, err)
            refused_n += code
            drained_n += code == 0
            assert refused_n < 1000
        nodes['d'] = job.node('d')
        after = job.settled('c', 'd', after=generation_of(before))
        assert [nodes[name].wait() for name in 'ab'] == [0, 0]
        kit.wait_until(lambda: job.waiting() == [], 'those who left were gone')
        was = known(job)
        orchestrator.restart()
        assert known(job) == was
        if refused_n > 0:
            assert 'Leases go on' in orchestrator.log(), orchestrator.log()
        assert 'not an error' not in orchestrator.log(), orchestrator.log()
        for name in 'cd':
            nodes[name].wait_log('is back after')
        assert all(kit.lives(r['pid']) for r in after) and job.reports()[-len(after):] == after
        job.finish()
        assert [nodes[name].wait() for name in 'cd'] == [0, 0]
        assert generation_of(after) == job.status()['generation']


def test_writes_that_fail_now_and_then_lose_nothing_that_was_acknowledged():
    fails_now_and_then('posix/io/rw/pwrite')


def test_syncs_that_fail_now_and_then_lose_nothing_that_was_acknowledged():
    fails_now_and_then('posix/io/sync/fsync', 'posix/io/sync/fdatasync')


if __name__ == '__main__':
    mounts.enter()
    kit.run(__name__, jobs=6)
