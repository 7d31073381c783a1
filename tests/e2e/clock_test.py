#!/usr/bin/env python3
"""Clocks that jump, and processes that stand still: nobody is evicted for it, and losses are noticed as ever.

usage: clock_test.py MUSTER [CASE…]

Stopping a process for a while is a jump of its clocks; libfaketime, preloaded, makes the others.
"""
import functools
import glob
import os
import subprocess
import sys
import time

import kit
import tap
from kit import LAPSING, LEASE_S

LEASES = 6 if kit.FULL else 1.6  # How long something stands still.
TURNS = 2 if kit.FULL else 1
HOUR_S = 3600
JUMPS_H = ((1, -1), (-1000, 1000), (1000, -1000), (0, 0)) if kit.FULL else ((-1000, 1000), (1000, -1000))


def generation_of(reports):
    return reports[0]['generation']


def undisturbed(job, reports, leases_n=2 if kit.FULL else 1.2):
    """For so many leases more, the scripts run on in their generation."""
    time.sleep(leases_n * LEASE_S)
    assert all(kit.lives(r['pid']) for r in reports)
    status = job.status()
    assert (status['generation'], status['active']) == (generation_of(reports),) * 2, status
    assert job.reports()[-len(reports):] == reports
    assert job.orchestrator.events(job.name, 'lost') == [], job.orchestrator.log()


def notices_losses_still(job, node, left, before):
    """A node that stands still is dropped, and comes back when it goes on."""
    node.stop()
    without = job.settled(*left, after=generation_of(before))
    node.cont()
    return job.settled(node.name, *left, after=generation_of(without))


@functools.cache
def goes_with(library):
    """Not with a sanitizer: both want to be the first, and often neither comes to an end."""
    with open(kit.MUSTER, 'rb') as file:
        if b'__asan_init' in file.read():
            return False
    return subprocess.run([kit.MUSTER, '--version'], env={'LD_PRELOAD': library}, timeout=60,
                          stdout=subprocess.DEVNULL, check=False).returncode == 0


def libfaketime():
    found = glob.glob('/usr/lib/*/faketime/libfaketime.so.1')
    if not found:
        tap.skip('libfaketime is not installed (package faketime)')
    if not goes_with(found[0]):
        tap.skip('libfaketime does not go with this build')
    return found[0]


def pretend(world, name, wall_only):
    """The environment of one whose clocks are set by a file, and what sets them (in seconds from now)."""
    library = libfaketime()
    path = os.path.join(world.dir, name + '.clock')

    def set_s(offset_s):
        with open(path + '.new', 'w', encoding='ascii') as file:
            file.write(f'{offset_s:+d}s\n')
        os.rename(path + '.new', path)

    set_s(0)
    env = {'LD_PRELOAD': library, 'FAKETIME_TIMESTAMP_FILE': path, 'FAKETIME_NO_CACHE': '1'}
    if wall_only:
        env['FAKETIME_DONT_FAKE_MONOTONIC'] = '1'
    return env, set_s


def plain_script():
    """Words that run report.py with true clocks under an agent with false ones."""
    return '/usr/bin/env', ('-u', 'LD_PRELOAD', sys.executable, os.path.join(kit.SCRIPTS, 'report.py'))


# ---- wall clocks: this takes longest, so it comes first ----

def test_wall_clocks_that_are_set_to_and_fro_change_nothing():
    with kit.World() as world:
        of_serve, set_serve = pretend(world, 'serve', wall_only=True)
        of_a, set_a = pretend(world, 'a', wall_only=True)
        orchestrator = world.orchestrator(*LAPSING, **of_serve)
        job = orchestrator.job(nnodes='1:3')
        script, args = plain_script()
        a = job.node('a', script=script, args=args, **of_a)
        a.wait_log('in job ')
        b = job.node('b')
        before = job.settled('a', 'b')
        for serve_h, a_h in JUMPS_H:
            set_serve(serve_h * HOUR_S)
            set_a(a_h * HOUR_S)
            undisturbed(job, before, 1.5)
        set_serve(-1000 * HOUR_S)
        orchestrator.restart()
        undisturbed(job, before)
        notices_losses_still(job, b, ('a',), before)
        job.ends_well(a, b)


# ---- standing still ----

def test_nobody_is_evicted_after_the_orchestrator_stood_still_for_longer_than_a_lease():
    with kit.World() as world:
        orchestrator = world.orchestrator(*LAPSING)
        job = orchestrator.job(nnodes='1:3')
        nodes = job.nodes('a', 'b', 'c')
        before = job.settled('a', 'b', 'c')
        for _ in range(TURNS):
            orchestrator.stop()
            time.sleep(LEASES * LEASE_S)
            assert all(kit.lives(r['pid']) for r in before)
            orchestrator.cont()
            undisturbed(job, before)
        notices_losses_still(job, nodes[0], ('b', 'c'), before)
        job.ends_well(*nodes)


def test_whoever_died_while_the_orchestrator_stood_still_is_dropped_and_nobody_else():
    with kit.World() as world:
        orchestrator = world.orchestrator(*LAPSING)
        job = orchestrator.job(nnodes='1:3')
        a, b, c = job.nodes('a', 'b', 'c')
        before = job.settled('a', 'b', 'c')
        orchestrator.stop()
        b.kill9()
        time.sleep(LEASES * LEASE_S)
        orchestrator.cont()
        after = job.settled('a', 'c', after=generation_of(before))
        assert generation_of(after) == generation_of(before) + 1
        job.ends_well(a, c)


def all_sleep(first_awake):
    """Orchestrator and agents stand still together, as on a machine that was suspended."""
    with kit.World() as world:
        orchestrator = world.orchestrator(*LAPSING)
        job = orchestrator.job(nnodes='1:3')
        nodes = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        everyone = [orchestrator, *nodes] if first_awake == 'orchestrator' else [*nodes, orchestrator]
        for one in everyone:
            one.stop()
        time.sleep(LEASES * LEASE_S)
        for one in everyone:
            one.cont()
            time.sleep(0.3)
        undisturbed(job, before)
        job.ends_well(*nodes)


def test_a_machine_that_slept_goes_on_where_it_was_orchestrator_first():
    all_sleep('orchestrator')


def test_a_machine_that_slept_goes_on_where_it_was_agents_first():
    all_sleep('agents')


# ---- jumps ----

def test_a_jump_of_the_orchestrators_clocks_evicts_nobody():
    with kit.World() as world:
        env, set_s = pretend(world, 'serve', wall_only=False)
        job = world.orchestrator(*LAPSING, **env).job(nnodes='1:3')
        nodes = job.nodes('a', 'b', 'c')
        before = job.settled('a', 'b', 'c')
        for hours in (1, 30):
            set_s(hours * HOUR_S)
            undisturbed(job, before)
        notices_losses_still(job, nodes[0], ('b', 'c'), before)
        job.ends_well(*nodes)


def test_a_jump_of_an_agents_clocks_changes_nothing():
    with kit.World() as world:
        env, set_s = pretend(world, 'a', wall_only=False)
        job = world.orchestrator(*LAPSING).job(nnodes='1:3')
        script, args = plain_script()
        a = job.node('a', script=script, args=args, **env)
        a.wait_log('in job ')
        b = job.node('b')
        before = job.settled('a', 'b')
        for hours in (1, 30):
            set_s(hours * HOUR_S)
            undisturbed(job, before)
        notices_losses_still(job, b, ('a',), before)
        job.ends_well(a, b)


if __name__ == '__main__':
    kit.run(__name__, jobs=6)
