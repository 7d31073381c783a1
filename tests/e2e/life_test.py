#!/usr/bin/env python3
"""The life of a node and of its scripts: how they start, fail, end, and what is left of them.

usage: life_test.py MUSTER [CASE…]
"""
import json
import os
import signal
import time

import kit
from kit import LAPSING, PATIENT, SERVE


def names(reports):
    return [r['node'] for r in reports]


def generation_of(reports):
    return reports[0]['generation']


# ---- exit codes and the restart budget ----

def test_the_exit_code_of_the_script_is_passed_on():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1')
        node = job.node('a', '--max_restarts', '0')
        job.settled('a')
        job.finish(7)
        assert node.wait() == 7
        assert 'failed, exit code 7' in node.log()
        kit.wait_until(lambda: job.status()['state'] == 'failed', 'the job had failed')


def test_a_script_that_fails_is_started_again_as_often_as_max_restarts_says():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1')
        job.finish(3)
        node = job.node('a', '--max_restarts', '2')
        assert node.wait() == 3
        counts = [r['env']['TORCHELASTIC_RESTART_COUNT'] for r in job.reports()]
        assert counts == ['0', '1', '2'], counts
        assert {r['env']['TORCHELASTIC_MAX_RESTARTS'] for r in job.reports()} == {'2'}


def test_a_script_that_fails_once_is_started_again_with_all_others_and_the_job_goes_on():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='2')
        a, b = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        job.finish(9, f'b@{generation_of(before)}')
        after = job.settled('a', 'b', after=generation_of(before))
        assert names(after) == names(before)
        assert after[1]['env']['TORCHELASTIC_RESTART_COUNT'] == '1', after[1]['env']
        codes = {m['node']: m.get('exit_code') for m in job.status()['members']}
        assert codes == {'a': None, 'b': 9}, codes  # The other one was stopped for this.
        job.ends_well(a, b)


def test_a_node_that_fails_too_often_is_given_up_and_the_others_go_on():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1:2')
        a, b = job.nodes('a', 'b')
        job.settled('a', 'b')
        job.finish(5, 'b')
        assert b.wait() == 5
        after = job.settled('a')
        assert names(after) == ['a'] and not a.ended()
        job.ends_well(a)


def test_when_min_cannot_be_reached_any_more_the_other_agents_exit_with_1_and_say_why():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='2')
        a, b = job.nodes('a', 'b')
        job.settled('a', 'b')
        job.finish(5, 'b')
        assert b.wait() == 5
        assert a.wait() == 1
        said = a.log().splitlines()[-1]
        assert "'b'" in said and '3 restarts' in said and 'exit code 1' in said, said
        status = job.status()
        assert status['state'] == 'failed' and "'b'" in status['why'], status


def test_a_script_that_is_killed_is_started_again_whatever_the_budget():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1')
        node = job.node('a', '--max_restarts', '0')
        generation = 0
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM):
            reports = job.settled('a', after=generation)
            generation = generation_of(reports)
            os.kill(reports[0]['pid'], number)
        job.settled('a', after=generation)
        job.ends_well(node)
        assert [r['env']['TORCHELASTIC_RESTART_COUNT'] for r in job.reports()] == ['0'] * 5


def test_a_script_that_exits_with_128_or_more_by_itself_is_retried():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1')
        node = job.node('a', '--max_restarts', '0')
        before = job.settled('a')
        job.finish(137, f'@{generation_of(before)}')
        job.settled('a', after=generation_of(before))
        job.ends_well(node)


def test_a_script_that_cannot_be_started_is_given_up_with_a_clear_line():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1')
        broken = os.path.join(world.dir, 'broken')
        with open(broken, 'w', encoding='ascii') as file:
            file.write('#!/nonexistent/shell\n')
        os.chmod(broken, 0o755)
        node = job.node('a', '--max_restarts', '1', script=broken)
        assert node.wait() in (126, 127), node.log()
        assert broken in node.log(), node.log()


def test_in_auto_mode_scripts_that_are_soon_done_or_fail_soon_are_treated_as_in_restart_mode():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        jobs = [orchestrator.job(name, nnodes='2', mode='auto') for name in ('good', 'bad')]
        nodes = [job.nodes('a', 'b') for job in jobs]
        for job in jobs:
            kit.wait_until(lambda: job.complete(['a', 'b']), 'both ran')  # pylint: disable=W0640
        jobs[1].finish(3, f'b@{generation_of(jobs[1].reports())}')
        before = jobs[1].reports()
        kit.wait_until(lambda: jobs[1].complete(['a', 'b'], generation_of(before)), 'again')
        for job in jobs:
            job.finish()
        assert [node.wait() for node in nodes[0] + nodes[1]] == [0] * 4
        assert len(jobs[0].reports()) == 2 and len(jobs[1].reports()) == 4


# ---- the end of a job ----

def test_whoever_has_succeeded_waits_for_the_others():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='2')
        a, b = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        job.finish(0, 'a')
        kit.wait_until(lambda: job.status()['state'] == 'ending', 'the job was ending')
        a.wait_log('exit code 0')
        assert not a.ended() and kit.lives(b.script_pid())
        job.finish(0, 'b')
        assert (a.wait(), b.wait()) == (0, 0)
        assert job.status()['state'] == 'done' and len(job.reports()) == len(before)


def test_whoever_has_not_ended_in_the_exit_timeout_is_stopped():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='2')
        a, b = (job.node(name, '--exit-timeout', '1') for name in 'ab')
        job.settled('a', 'b')
        script = b.script_pid()
        job.finish(0, 'a')
        assert a.wait() == 0
        assert b.wait() == 1
        assert not kit.lives(script)


def test_a_newcomer_of_a_job_that_is_ending_is_not_taken_in():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='2:3')
        a, b = job.nodes('a', 'b')
        job.settled('a', 'b')
        job.finish(0, 'a')
        kit.wait_until(lambda: job.status()['state'] == 'ending', 'the job was ending')
        assert job.node('c').wait() == 0  # There is nothing left to do.
        job.ends_well(a, b)
        ran = [(r['node'], r['run']) for r in job.reports()]
        assert ran == [('a', 1), ('b', 1)], ran


def test_the_second_run_of_a_finished_job_is_run_2():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1')
        job.finish()
        node = job.node('n')
        for run in (1, 2):
            if run == 2:
                node.start()
            assert node.wait() == 0
            assert job.status()['run'] == run and job.status()['state'] == 'done'
        assert [r['run'] for r in job.reports()] == [1, 2]
        generations = [r['generation'] for r in job.reports()]
        assert generations == sorted(set(generations)), generations


# ---- losses ----

def test_kill_9_of_a_worker_is_one_more_generation_with_the_same_nodes():
    with kit.World() as world:
        orchestrator = world.orchestrator(*PATIENT)
        job = orchestrator.job(nnodes='2:3')
        nodes = job.nodes('a', 'b', 'c')
        before = job.settled('a', 'b', 'c')
        for name in ('b', 'a'):
            os.kill(next(r['pid'] for r in before if r['node'] == name), signal.SIGKILL)
            after = job.settled('a', 'b', 'c', after=generation_of(before))
            assert generation_of(after) == generation_of(before) + 1, (name, after)
            assert names(after) == ['a', 'b', 'c'], names(after)
            before = after
        assert orchestrator.events(job.name, 'gone') == []
        job.ends_well(*nodes)


def test_kill_9_of_one_of_two_workers_of_a_node_restarts_both_in_one_more_generation():
    with kit.World() as world:
        job = world.orchestrator(*PATIENT).job(nnodes='2', nproc=2)
        nodes = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        assert len(before) == 4
        os.kill(before[2]['pid'], signal.SIGKILL)
        after = job.settled('a', 'b', after=generation_of(before))
        assert generation_of(after) == generation_of(before) + 1
        assert [(r['node'], r['slot']) for r in after] == [('a', 0), ('a', 1), ('b', 0), ('b', 1)]
        assert not {r['pid'] for r in before} & {r['pid'] for r in after}
        job.ends_well(*nodes)


def test_kill_9_of_an_agent_restarts_the_survivors_with_the_right_world():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1:3')
        a, b, c = job.nodes('a', 'b', 'c')
        before = job.settled('a', 'b', 'c')
        b.kill9()
        after = job.settled('a', 'c', after=generation_of(before))
        assert names(after) == ['a', 'c'] and generation_of(after) == generation_of(before) + 1
        assert [r['env']['WORLD_SIZE'] for r in after] == ['2', '2']
        kit.wait_until(lambda: not any(kit.lives(r['pid']) for r in before), 'the old were gone')
        job.ends_well(a, c)


def stubborn_pids(job, name):
    path = os.path.join(job.dir, f'stubborn.{name}.json')
    kit.wait_until(lambda: os.path.exists(path), 'all of the script were there')
    with open(path, encoding='ascii') as file:
        return json.load(file)


def test_soon_after_kill_9_of_an_agent_nothing_is_left_of_its_workers():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1:2', nproc=2)
        node = job.node('a', script='stubborn.py')
        other = job.node('b')
        pids = stubborn_pids(job, 'a')
        mine = [r for r in job.settled('a', 'b') if r['node'] == 'a']
        pids = stubborn_pids(job, 'a')  # Those of the newest generation.
        groups = {r['group'] for r in mine} | {r['session'] for r in mine}
        markers = {r['env']['MUSTER_MARKER'] for r in mine}
        assert all(map(kit.lives, pids.values())) and kit.in_groups(groups), pids
        node.kill9()
        kit.wait_until(lambda: not any(map(kit.lives, pids.values())), 'all of the script were gone')
        kit.wait_until(lambda: not kit.in_groups(groups), 'its groups and sessions were empty')
        kit.wait_until(lambda: not [pid for m in markers for pid in kit.with_variable('MUSTER_MARKER', m)],
                       'nothing with the marker of its workers was left')
        kit.wait_until(lambda: not node.pids(), 'its keeper was gone too')
        assert not other.ended()


def test_kill_9_of_a_keeper_kills_its_workers_and_they_start_again_under_another():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='2')
        a, b = job.node('a', script='stubborn.py'), job.node('b')
        before = job.settled('a', 'b')
        pids = stubborn_pids(job, 'a')
        bare = pids.pop('bare')  # Only a keeper could know that it is its own.
        keeper = kit.stat_of(pids['self'])[1]
        assert kit.stat_of(keeper)[1] == a.pid
        os.kill(keeper, signal.SIGKILL)
        after = job.settled('a', 'b', after=generation_of(before))
        kit.wait_until(lambda: not any(map(kit.lives, pids.values())), 'the old were gone')
        assert sorted(names(after)) == ['a', 'b']
        os.kill(bare, signal.SIGKILL)
        job.ends_well(a, b)


def test_an_agent_that_is_started_again_at_once_is_in_again():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1:2')
        a, b = job.nodes('a', 'b')
        generation = generation_of(job.settled('a', 'b'))
        for _ in range(2):
            b.kill9()
            b.start()
            generation = generation_of(job.settled('a', 'b', after=generation))
        job.ends_well(a, b)


def test_a_script_that_ignores_sigterm_is_killed_with_all_of_its_own_after_the_grace():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1:2')
        a = job.node('a', '--grace', '0.5', script='stubborn.py')
        before = job.settled('a')
        pids = stubborn_pids(job, 'a')
        b = job.node('b')
        after = job.settled('a', 'b', after=generation_of(before))
        assert not any(map(kit.lives, pids.values())), pids
        assert next(r for r in after if r['node'] == 'a')['pid'] != pids['self']
        a.kill9()
        b.kill9()


def test_a_node_that_stands_still_beyond_its_lease_is_dropped_and_comes_back_as_a_newcomer():
    with kit.World() as world:
        job = world.orchestrator(*LAPSING).job(nnodes='1:3')
        a, b, c = job.nodes('a', 'b', 'c')
        before = job.settled('a', 'b', 'c')
        old = a.script_pid()
        a.stop()
        without = job.settled('b', 'c', after=generation_of(before))
        assert kit.lives(old)  # Nobody could stop it.
        a.cont()
        after = job.settled('a', 'b', 'c', after=generation_of(without))
        assert names(after) == ['b', 'c', 'a'] and not kit.lives(old)
        job.ends_well(a, b, c)


def test_a_node_that_stands_still_for_less_than_its_lease_is_not_noticed():
    with kit.World() as world:
        job = world.orchestrator('--lease', '30', '--join-window', '0.2').job(nnodes='2')
        a, b = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        a.stop()
        time.sleep(0.5)
        a.cont()
        job.ends_well(a, b)
        assert job.reports() == before


def test_survivors_keep_their_order_and_newcomers_come_after():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1:5')
        nodes = dict(zip('abcd', job.nodes(*'abcd')))
        order = list('abcd')
        reports = job.settled(*order)
        assert names(reports) == order
        for gone, come in (('a', 'e'), ('c', 'a'), ('e', 'c'))[:3 if kit.FULL else 2]:
            nodes.pop(gone).kill9()
            order.remove(gone)
            reports = job.settled(*order, after=generation_of(reports))
            assert names(reports) == order
            nodes[come] = job.node(come)
            order.append(come)
            reports = job.settled(*order, after=generation_of(reports))
            assert names(reports) == order
        job.ends_well(*nodes.values())


# ---- leaving ----

def test_each_of_sigterm_sigint_sigusr1_and_sighup_drains_a_node_and_the_others_go_on():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1:5')
        nodes = dict(zip('abcde', job.nodes(*'abcde')))
        before = job.settled(*nodes)
        for name, number in zip('ebcd', (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)):
            assert nodes.pop(name).terminate(number) == 0, number
            assert not any(kit.lives(r['pid']) for r in before if r['node'] == name), number
            before = job.settled(*nodes, after=generation_of(before))
            assert names(before) == list(nodes)
        job.ends_well(*nodes.values())


def test_the_only_node_can_be_drained():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1')
        node = job.node('a')
        job.settled('a')
        assert node.terminate() == 0


def test_all_nodes_can_be_drained_at_once():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='2:3')
        nodes = job.nodes('a', 'b', 'c')
        job.settled('a', 'b', 'c')
        for node in nodes:
            node.send(signal.SIGTERM)
        assert [node.wait() for node in nodes] == [0, 0, 0]
        newcomers = job.nodes('d', 'e')
        job.settled('d', 'e')
        job.ends_well(*newcomers)


def test_a_second_sigterm_stops_the_node_at_once():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1:2')
        a = job.node('a', script='stubborn.py')
        job.settled('a')
        pids = stubborn_pids(job, 'a')
        a.send(signal.SIGTERM)
        a.wait_log('draining')
        assert a.terminate() == 128 + signal.SIGTERM
        kit.wait_until(lambda: not any(map(kit.lives, pids.values())), 'nothing was left')


def test_muster_drain_lets_a_node_leave():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='1:3')
        a, b, c = job.nodes('a', 'b', 'c')
        before = job.settled('a', 'b', 'c')
        orchestrator.say('drain', 'b')
        assert b.wait() == 0
        assert names(job.settled('a', 'c', after=generation_of(before))) == ['a', 'c']
        code, _, err = orchestrator.ask('drain', 'b')
        assert code == 5 and "'b'" in err, (code, err)
        job.ends_well(a, c)


def test_muster_shutdown_ends_the_job_and_its_agents():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='2')
        a, b = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        orchestrator.say('shutdown', job.name)
        codes = (a.wait(), b.wait())
        assert codes == (0, 0), codes
        assert not any(kit.lives(r['pid']) for r in before)
        assert job.status()['state'] == 'done' and len(job.reports()) == 2


# ---- one orchestrator, several jobs; several orchestrators ----

def test_several_jobs_on_one_orchestrator_do_not_touch_each_other():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        jobs = [orchestrator.job('red', nnodes='1:2'), orchestrator.job('blue', nnodes='2')]
        nodes = [job.nodes('a', 'b') for job in jobs]
        before = [job.settled('a', 'b') for job in jobs]
        code, _, err = orchestrator.ask('drain', 'a')
        assert code == 1 and '--job' in err, (code, err)
        nodes[0][0].kill9()
        jobs[0].settled('b', after=generation_of(before[0]))
        orchestrator.say('shutdown', 'red')
        assert nodes[0][1].wait() == 0
        jobs[1].finish()
        assert [node.wait() for node in nodes[1]] == [0, 0]
        assert jobs[1].reports() == before[1]  # Never restarted.
        assert {r['env']['TORCHELASTIC_RUN_ID'] for r in before[1]} == {'blue'}


def test_an_endpoint_that_is_dead_is_passed_over():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='1')
        dead = f'127.0.0.1:{kit.free_port()}'
        node = job.node('a', where=f'{dead},{orchestrator.where}')
        job.settled('a')
        job.ends_well(node)


def test_an_agent_may_be_there_before_its_orchestrator():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        orchestrator.kill9()
        job = orchestrator.job(nnodes='1')
        node = job.node('a')
        node.wait_log('no orchestrator at')
        orchestrator.start()
        job.settled('a')
        job.ends_well(node)


def test_a_name_that_is_taken_and_another_size_are_refused_clearly():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1:2')
        a = job.node('a')
        before = job.settled('a')
        job.nnodes = '2:4'
        other = job.node('b')
        assert other.wait() == 1
        assert '1:2' in other.log() or 'min' in other.log(), other.log()
        job.nnodes = '1:2'
        # For nine of these intervals it could be the first one, started again.
        same = kit.Node(job, 'a', ('--monitor-interval', '0.1'), 'report.py', (), None, {})
        same.path += '-again'
        same.start()
        assert same.wait() == 1
        assert "'a'" in same.log(), same.log()
        job.finish()
        assert a.wait() == 0 and job.reports() == before


# ---- standalone, output, roles ----

def test_standalone_needs_no_orchestrator():
    with kit.World() as world:
        job = world.job(nproc=2, nnodes='1')
        node = job.node('a', '--standalone')
        kit.wait_until(lambda: len(job.reports()) == 2, 'both workers ran')
        reports = job.reports()
        assert [r['env']['LOCAL_RANK'] for r in reports] == ['0', '1']
        assert {r['env']['WORLD_SIZE'] for r in reports} == {'2'}
        assert {r['env']['OMP_NUM_THREADS'] for r in reports} == {'1'}
        job.ends_well(node)
        assert [name for name in os.listdir(os.path.join(world.dir, 'tmp'))] == []
        assert 'agent: ' in node.log() and 'orchestrator: ' not in node.log()


def test_standalone_shows_what_its_orchestrator_does_to_those_who_want_to_see_everything():
    with kit.World() as world:
        job = world.job(nnodes='1')
        job.finish()
        node = job.node('a', '--standalone', MUSTER_LOG='debug')
        assert node.wait() == 0
        assert 'listens on' in node.log() and "orchestrator: job 'default'" in node.log()


def test_standalone_passes_the_exit_code_on():
    with kit.World() as world:
        job = world.job(nnodes='1')
        job.finish(4)
        assert job.node('a', '--standalone', '--max_restarts', '1').wait() == 4
        assert len(job.reports()) == 2


def test_kill_9_of_a_standalone_agent_leaves_nothing():
    with kit.World() as world:
        job = world.job(nproc=2, nnodes='1')
        node = job.node('a', '--standalone', script='stubborn.py')
        kit.wait_until(lambda: len(job.reports()) == 2, 'both workers ran')
        node.kill9()
        kit.wait_until(lambda: not world.pids(), 'nothing was left')


def spoken(world, *flags, nproc=2):
    """Two workers speak and are done: (stdout, stderr, files by their path)."""
    job = world.job(f'j{len(os.listdir(world.dir))}', nproc=nproc, nnodes='1')
    node = job.node('a', '--standalone', *flags, script='speak.py')
    job.ends_well(node)
    found = {}
    for folder, _, files in os.walk(os.path.join(world.dir, 'logs')):
        for name in files:
            with open(os.path.join(folder, name), encoding='utf-8') as file:
                found[os.path.join(os.path.basename(folder), name)] = file.read()
    err = [line for line in node.log().splitlines() if line.startswith(('[', 'err'))]
    return sorted(node.out().splitlines()), sorted(err), found


def test_lines_on_the_console_begin_with_the_rank():
    with kit.World() as world:
        out, err, files = spoken(world)
        assert out == ['[0] out of 0', '[0] out, no end', '[1] out of 1', '[1] out, no end'], out
        assert err == ['[0] err of 0', '[1] err of 1'] and files == {}, (err, files)
        out, err, files = spoken(world, '--no-prefix', nproc=1)
        assert out == ['out of 0', 'out, no end'] and err == ['err of 0'], (out, err)


def test_tee_writes_to_files_and_to_the_console():
    with kit.World() as world:
        logs = os.path.join(world.dir, 'logs')
        out, err, files = spoken(world, '--log-dir', logs, '--tee', '1')
        assert len(out) == 4 and len(err) == 2
        assert files == {f'{rank}/stdout.log': f'out of {rank}\nout, no end' for rank in (0, 1)}


def test_redirects_write_to_files_alone_and_by_slot():
    with kit.World() as world:
        logs = os.path.join(world.dir, 'logs')
        out, err, files = spoken(world, '--log-dir', logs, '--redirects', '0:3,1:2')
        assert out == ['[1] out of 1', '[1] out, no end'] and err == [], (out, err)
        assert files == {'0/stdout.log': 'out of 0\nout, no end', '0/stderr.log': 'err of 0\n',
                         '1/stderr.log': 'err of 1\n'}, files


def test_a_log_dir_alone_keeps_everything_and_shows_it():
    with kit.World() as world:
        out, err, files = spoken(world, '--log-dir', os.path.join(world.dir, 'logs'), nproc=1)
        assert out == ['[0] out of 0', '[0] out, no end'] and err == ['[0] err of 0'], (out, err)
        assert sorted(files) == ['0/stderr.log', '0/stdout.log']


def test_without_a_log_dir_files_are_in_a_new_folder_in_tmpdir():
    with kit.World() as world:
        spoken(world, '--tee', '1', nproc=1)
        found = [os.path.join(folder, name) for folder, _, names_ in
                 os.walk(os.path.join(world.dir, 'tmp')) for name in names_]
        assert len(found) == 1 and found[0].endswith('/0/stdout.log'), found
        assert os.path.relpath(found[0], world.dir).startswith('tmp/muster-logs-'), found


def test_roles_have_their_place_in_tf_config():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='2')
        nodes = [job.node(name, '--role', name) for name in ('chief', 'worker')]
        reports = job.settled('chief', 'worker')
        tasks = {r['node']: json.loads(r['env']['TF_CONFIG']) for r in reports}
        assert tasks['chief']['task'] == {'type': 'chief', 'index': 0}, tasks
        assert tasks['worker']['task'] == {'type': 'worker', 'index': 0}, tasks
        assert tasks['chief']['cluster'] == tasks['worker']['cluster']
        assert sorted(tasks['chief']['cluster']) == ['chief', 'worker'], tasks
        job.ends_well(*nodes)


def test_the_script_gets_its_arguments_and_torchruns_variables_are_read():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1')
        node = job.node('a', args=('--lr', '0.1', '-m', '--', 'x y'), PET_MAX_RESTARTS='7')
        report = job.settled('a')[0]
        assert report['argv'] == ['--lr', '0.1', '-m', '--', 'x y'], report['argv']
        assert report['env']['TORCHELASTIC_MAX_RESTARTS'] == '7'
        job.ends_well(node)


if __name__ == '__main__':
    kit.run(__name__, jobs=6)
