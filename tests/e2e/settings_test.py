#!/usr/bin/env python3
"""A job's settings, and those of them that act, with real processes: over HTTP, from workers
and by commands.

usage: settings_test.py MUSTER [CASE…]
"""
import contextlib
import json
import os
import re
import threading

import kit
import web
from puppets import Puppets, Stage

LONG_MS = kit.LONG_S * 1000
WINDOW = 1024  # changes that a watcher may lag behind
NAMES = ('a', 'b', 'c', 'd')
TELLING = ('--monitor-interval', '0.1')  # Steps are told often, however long a lease is.
RESIZE = os.path.abspath(os.path.join(os.environ.get('E2E_PROGRAMS', '.'),
                                      '../../examples/resize'))


@contextlib.contextmanager
def one_worker():
    """(web, its worker, the name of its job)"""
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(web.serve(world, *kit.SERVE), puppets, 'inprocess', nnodes='1')
        worker, = stage.workers('a')
        yield stage.orchestrator.web, worker, stage.job.name
        stage.leave([worker])


# ---- 12: a versioned store ----

def test_a_duplicate_create_is_an_error_and_changes_nothing():
    with one_worker() as (w, worker, job):
        first = w.put(job, 'lr', '0.1', expect=0)
        answer = w.try_put(job, 'lr', '0.2', expect=0)
        assert answer.status == 412 and answer.json()['error'], answer
        worker.fails(f'put lr 0 {LONG_MS} 0.3', 'exists')
        code, _, err = w.orchestrator.ask('config', 'put', 'lr', '0.4', '--job', job, '--create')
        assert code != 0 and err, (code, err)
        assert w.value(job, 'lr') == ('0.1', first)
        assert worker.do(f'get lr {LONG_MS}') == [str(first), '0.1']
        assert w.put(job, 'momentum', '0.9', expect=0) == first + 1  # One counter for all keys.


def test_a_version_that_was_overtaken_changes_nothing_whoever_names_it():
    with one_worker() as (w, worker, job):
        old = w.put(job, 'lr', '1')
        new = int(worker.do(f'put lr {old} {LONG_MS} 2')[0])
        assert new > old
        answer = w.try_put(job, 'lr', '3', expect=old)
        assert answer.status == 412, answer
        worker.fails(f'put lr {old} {LONG_MS} 3', 'conflict')
        worker.fails(f'remove lr {old} {LONG_MS}', 'conflict')
        answer = w.ask('DELETE', f'/v1/jobs/{job}/config/lr', If_Match=f'"{old}"')
        assert answer.status == 412, answer
        assert w.value(job, 'lr') == ('2', new)
        worker.do(f'remove lr {new} {LONG_MS}')
        assert w.value(job, 'lr') is None
        worker.fails(f'get lr {LONG_MS}', 'none')
        worker.fails(f'remove lr any {LONG_MS}', 'none')
        assert w.try_put(job, 'lr', '4', expect=new).status == 412  # … of one that is gone.
        assert w.put(job, 'lr', '4', expect=0) > new + 1  # The removal was a change as well.


def test_a_get_with_the_version_that_one_has_costs_no_value():
    with one_worker() as (w, _, job):
        version = w.put(job, 'lr', '1')
        answer = w.ask('GET', f'/v1/jobs/{job}/config/lr', If_None_Match=f'"{version}"')
        assert answer.status == 304 and answer.body == b'', answer
        answer = w.ask('GET', f'/v1/jobs/{job}/config/lr', If_None_Match=f'"{version + 1}"')
        assert answer.status == 200, answer


def test_a_watcher_sees_each_key_as_it_is_now_and_goes_on_from_there():
    with one_worker() as (w, worker, job):
        w.put(job, 'a', '1')
        after = w.put(job, 'b', '1')
        worker.tell(f'watch * {after} {LONG_MS}')  # Nothing has changed yet: it waits.
        changed = w.put(job, 'a', '2')
        assert worker.answer() == f'ok {changed} a@{changed}=2'
        worker.fails(f'watch * {changed} 50', 'timedout')
        w.remove(job, 'b')
        w.put(job, 'a', '3')
        last = w.put(job, 'a', '4')
        words = worker.do(f'watch * {changed} {LONG_MS}')
        assert words == [str(last), f'a@{last}=4', f'b@{changed + 1}!'] or \
            words == [str(last), f'b@{changed + 1}!', f'a@{last}=4'], words
        words = worker.do(f'watch b {after} {LONG_MS}')  # A key alone.
        assert words[1:] == [f'b@{changed + 1}!'], words
        put = w.put(job, 'x/y', '5')
        assert worker.do(f'watch x/ {changed} {LONG_MS}')[1:] == [f'x/y@{put}=5']
        assert worker.do(f'list x/ {LONG_MS}')[1:] == [f'x/y@{put}=5']


def test_a_watcher_that_lags_beyond_the_window_is_told():
    with one_worker() as (w, worker, job):
        first = w.put(job, 'n', '0')
        for n in range(WINDOW):
            worker.do(f'put n any {LONG_MS} {n}')
        words = worker.do(f'watch n {first} {LONG_MS}')  # It just reaches back to it.
        assert words[-1].endswith(f'={WINDOW - 1}'), words
        last = w.put(job, 'n', 'last')
        worker.fails(f'watch n {first} {LONG_MS}', 'stale')
        # Whoever polls gets what is there now; whoever follows hears of the gap.
        answer = w.ask('GET', f'/v1/jobs/{job}/config/n?wait={first}')
        assert (answer.status, answer.body, answer.version) == (200, b'last', last), answer
        with w.stream(f'/v1/jobs/{job}/config/n', Last_Event_ID=str(first)) as stream:
            stream.until_kind('set', value='last')
            assert [e.kind for e in stream.events] == ['gap', 'set'], stream.events
        with w.stream(f'/v1/jobs/{job}/config/n', Last_Event_ID=str(last - 3)) as stream:
            stream.until_kind('set', value='last')
            assert [e.kind for e in stream.events] == ['set'], stream.events
        assert worker.do(f'list * {LONG_MS}') == [str(last), f'n@{last}=last']
        worker.fails(f'watch n {last} 50', 'timedout')  # From there on it is told again.


def test_settings_outlive_the_orchestrator_and_a_watch_goes_on_after_it():
    with one_worker() as (w, worker, job):
        version = w.put(job, 'lr', '1')
        worker.tell(f'watch lr {version} {LONG_MS}')
        w.orchestrator.restart()
        assert w.value(job, 'lr') == ('1', version)
        put = w.put(job, 'lr', '2', expect=version)
        assert worker.answer() == f'ok {put} lr@{put}=2'


# ---- 13: consensus ----

def agree(workers, values):
    for worker, value in zip(workers, values):
        worker.tell(f'agree tag {LONG_MS} {value}')
    return [worker.answer() for worker in workers]


def test_workers_agree_only_if_all_say_the_same():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(web.serve(world, *kit.SERVE), puppets, 'inprocess', nnodes='1:3')
        found = stage.workers('a')
        assert agree(found, ['x']) == ['ok 1']  # Alone, whatever it says.
        generation = found[0].world()['generation']
        stage.start('b', 'c')
        found = puppets.ordered('a', 'b', 'c', generation=generation)
        assert agree(found, ['x', 'x', 'x']) == ['ok 1'] * 3
        assert agree(found, ['x', 'x', 'y']) == ['ok 0'] * 3
        assert agree(found, ['x', 'y', 'z']) == ['ok 0'] * 3
        assert agree(found, ['x', 'x', 'xx']) == ['ok 0'] * 3  # One that begins like another.
        assert agree(found, ['y', 'y', 'y']) == ['ok 1'] * 3
        stage.leave(found)


def decide(w, job, key, values):
    """Each, at the same time, proposes its own by creating the key, and reads what was decided."""
    said = [None] * len(values)

    def propose(i):
        answer = w.try_put(job, key, values[i], expect=0)
        assert answer.status in (201, 412), answer
        said[i] = (answer.status, w.value(job, key)[0])

    threads = [threading.Thread(target=propose, args=(i,)) for i in range(len(values))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [status for status, _ in said].count(201) == 1, said
    assert len({value for _, value in said}) == 1, said
    return all(value == mine for mine, (_, value) in zip(values, said))


def test_proposals_over_http_are_decided_once_and_all_read_the_same():
    with one_worker() as (w, _, job):
        assert decide(w, job, 'alone', ['x'])
        assert decide(w, job, 'same', ['x'] * 8)
        for turn in range(5):
            assert not decide(w, job, f'turn/{turn}', [str(i) for i in range(8)])


# ---- 14: resizing ----

class Sizes:
    """Four nodes, of which as many train as somebody wants."""

    def __init__(self, world, puppets, mode='inprocess'):
        self.orchestrator = web.serve(world, *kit.SERVE)
        self.web = self.orchestrator.web
        self.stage = Stage(self.orchestrator, puppets, mode)
        self.job = self.stage.job
        self.puppets = puppets
        self.stage.start('a', 'b', flags=TELLING)
        self.members = puppets.ordered('a', 'b')
        self.web.put(self.job.name, 'size', '2')
        self.stage.start('c', 'd', flags=TELLING)
        for name in 'cd':
            puppets.one(name).join()

    @property
    def generation(self):
        return self.members[0].world()['generation']

    def has(self, *names):
        """Waits until exactly these are in a generation, in this order; the rest are out of it, and
        nobody was restarted."""
        expect = [self.puppets.one(name) for name in names]
        out = [one for one in self.puppets.all if one not in expect]
        kit.wait_until(lambda: self.job.members() == list(names), f'{names} were the members')
        kit.wait_until(lambda: [(m.world()['rank'], m.world()['size']) for m in expect] ==
                       [(i, len(names)) for i in range(len(names))], f'{names} knew it')
        kit.wait_until(lambda: all(one.world()['rank'] == -1 for one in out), 'the rest knew it')
        assert len(self.puppets.all) == len(NAMES), 'a worker was restarted'
        assert agree(expect, ['x'] * len(expect)) == ['ok 1'] * len(expect)
        self.members = expect

    def has_size(self, n):
        """Waits until so many are in a generation. Members keep their places, as far as the size goes; a new
        place goes to whoever is ready first."""
        kept = [one.node for one in self.members][:n]
        names = kit.wait_until(lambda: len(found := self.job.members()) == n and found, f'there were {n} members')
        assert names[:len(kept)] == kept, (names, kept)
        self.has(*names)

    def end(self):
        """The members finish; those outside hear of the end, and all exit with 0."""
        out = [one for one in self.puppets.all if one not in self.members]
        for one in out:
            one.tell(f'wait {self.generation} {LONG_MS}')
        for one in self.members:
            one.do('leave')
            one.tell('exit 0')
        for one in out:
            assert one.answer().startswith('error -17 '), 'it is done'
            one.tell('exit 0')
        codes = {name: node.wait() for name, node in self.stage.nodes.items()}
        assert set(codes.values()) == {0}, codes
        assert len(self.puppets.all) == len(NAMES), 'a worker was restarted'


def resized_by(resize):
    """resize(sizes, n) makes it 3, 4, 1, and 2 again."""
    with kit.World() as world, Puppets(world) as puppets:
        sizes = Sizes(world, puppets)
        sizes.has('a', 'b')
        for n in (3, 4, 1, 2):
            resize(sizes, n)
            sizes.has_size(n)
        sizes.end()


def test_http_resizes_from_2_to_3_to_4_to_1_without_a_restart():
    resized_by(lambda sizes, n: sizes.web.put(sizes.job.name, 'size', str(n)))


def test_rank_0_resizes_from_2_to_3_to_4_to_1_without_a_restart():
    resized_by(lambda sizes, n: sizes.members[0].do(f'put size any {LONG_MS} {n}'))


def test_the_command_resizes_from_2_to_3_to_4_to_1_without_a_restart():
    resized_by(lambda sizes, n: sizes.orchestrator.say('resize', str(n), '--job',
                                                        sizes.job.name))


def test_a_schedule_resizes_as_steps_are_done_without_a_restart():
    with kit.World() as world, Puppets(world) as puppets:
        sizes = Sizes(world, puppets)
        sizes.web.put(sizes.job.name, 'schedule', '2:10,3:10,4:20,1')
        for step, n in ((0, 2), (9, 2), (10, 3), (19, 3), (20, 4), (39, 4), (40, 1), (50, 1)):
            for one in sizes.members:
                one.do(f'progress {step}')
            kit.wait_until(lambda step=step: sizes.job.status()['step'] == step, 'it was known')
            sizes.has_size(n)
        sizes.end()


def test_an_orchestrator_that_is_killed_keeps_the_schedule_and_changes_nobody():
    with kit.World() as world, Puppets(world) as puppets:
        sizes = Sizes(world, puppets)
        sizes.web.put(sizes.job.name, 'schedule', '2:10,3:10,1')
        sizes.members[0].do('progress 10')
        sizes.has_size(3)
        generation = sizes.generation
        sizes.orchestrator.restart()
        kit.wait_until(lambda: (sizes.job.status() or {}).get('step') == 10, 'it was known again')
        sizes.has_size(3)
        assert sizes.generation == generation
        sizes.members[0].do('progress 20')
        sizes.has_size(1)
        sizes.end()


def test_a_list_of_members_says_who_stays_and_rank_0_may_go():
    with kit.World() as world, Puppets(world) as puppets:
        sizes = Sizes(world, puppets)
        sizes.web.put(sizes.job.name, 'members', 'b')
        sizes.has('b')  # A new rank 0.
        sizes.web.put(sizes.job.name, 'members', 'b,d')
        sizes.has('b', 'd')
        sizes.members[0].do(f'put members any {LONG_MS} a,d')
        sizes.has('d', 'a')
        sizes.web.remove(sizes.job.name, 'members')
        sizes.has('d', 'a')  # The size is still 2.
        sizes.end()


def test_all_members_may_be_replaced_at_once_and_the_old_are_there_until_the_new_are():
    with kit.World() as world, Puppets(world) as puppets:
        sizes = Sizes(world, puppets)
        before = sizes.generation
        with sizes.web.stream(f'/v1/jobs/{sizes.job.name}/events') as stream:
            sizes.web.put(sizes.job.name, 'members', 'c,d')
            kit.wait_until(lambda: sorted(sizes.job.members()) == ['c', 'd'], 'these were the members')
            sizes.has(*sizes.job.members())  # Whoever was ready first comes first.
            generation = sizes.generation
            stream.until_kind('active', generation=generation)
            made = {e.json()['generation']: e.json()['value'] for e in stream.events
                    if e.kind == 'generation' and e.json()['generation'] > before}
        # Old and new together first, so that the state is handed on.
        assert len(made) >= 2 and max(made.values()) in (3, 4) and made[generation] == 2, made
        sizes.end()


def test_names_of_nodes_that_are_not_there_are_waited_for():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(web.serve(world, *kit.SERVE), puppets, 'inprocess')
        w, job = stage.orchestrator.web, stage.job.name
        found = stage.workers('a', 'b')
        a, b = sorted(found, key=lambda one: one.node)
        w.put(job, 'members', 'a,z')
        kit.wait_until(lambda: a.world()['size'] == 1, 'one was left')
        stage.start('z')
        puppets.one('z').join()
        kit.wait_until(lambda: stage.job.members() == ['a', 'z'], 'the other had come')
        kit.wait_until(lambda: b.world()['rank'] == -1, 'the third knew that it was out')
        w.remove(job, 'members')
        kit.wait_until(lambda: stage.job.members() == ['a', 'z', 'b'], 'nobody was left out')
        stage.leave(puppets.ordered('a', 'z', 'b'))


# ---- a trainer: examples/resize.c ----

def trained(schedule, *flags):
    """Four nodes run it by this schedule; how many workers did each step."""
    steps = sum(int(part.split(':')[1]) for part in schedule.split(','))
    with kit.World() as world:
        job = web.serve(world, *kit.SERVE).job(nnodes='1:4', mode='inprocess')
        args = ('--steps', str(steps), '--schedule', schedule, '--step-ms', '1', '--verbose', *flags)
        nodes = [job.node(name, *TELLING, script=RESIZE, args=args) for name in NAMES]
        codes = [node.wait() for node in nodes]
        assert codes == [0] * 4, codes
        assert all(node.log().count('warming up (node') == 1 for node in nodes), 'it was restarted'
        done = [set(re.findall(r'step=(\d+) .*event=step', node.out())) for node in nodes]
        assert len(set.union(*done)) == steps, done
        return [sum(str(step) in one for one in done)
                for step in sorted(map(int, set.union(*done)))]


def test_a_trainer_asks_for_the_sizes_of_a_schedule_and_each_step_has_that_many_workers():
    want = [2] * 10 + [3] * 10 + [4] * 20 + [1] * 10
    assert trained('2:10,3:10,4:20,1:10') == want


def test_muster_follows_a_schedule_by_the_steps_that_a_trainer_tells():
    want = [2] * 10 + [3] * 10 + [4] * 20 + [1] * 10
    assert trained('2:10,3:10,4:20,1:10', '--by-muster') == want


def test_workers_that_are_left_out_may_leave_for_good():
    assert trained('4:10,2:10,1:10', '--leave') == [4] * 10 + [2] * 10 + [1] * 10


# ---- the same for plain scripts ----

def ready(job):
    """Names of the nodes that wait, and could start their scripts."""
    return sorted(w['node'] for w in job.status()['waiting'] if w['state'] == 'warm')


def test_scripts_of_removed_nodes_are_stopped_and_their_agents_wait():
    with kit.World() as world:
        orchestrator = web.serve(world, *kit.SERVE)
        job = orchestrator.job(nnodes='1:4')
        nodes = dict(zip('ab', job.nodes('a', 'b')))
        generation = job.settled('a', 'b')[0]['generation']
        orchestrator.web.put(job.name, 'size', '2')
        nodes.update(zip('cd', job.nodes('c', 'd')))
        kit.wait_until(lambda: ready(job) == ['c', 'd'], 'the others waited, and could start')
        ways = (lambda n: orchestrator.web.put(job.name, 'size', n),
                lambda n: orchestrator.say('resize', n, '--job', job.name))
        for turn, n in enumerate((3, 4, 1, 2)):
            before = {name: nodes[name].script_pid() for name in job.members()}
            ways[turn % 2](str(n))
            reports = job.settled(*NAMES[:n], after=generation)
            generation = reports[0]['generation']
            assert [r['node'] for r in reports] == list(NAMES[:n])
            # Whoever can be chosen comes by its place in the row: all who wait must be ready for the next turn.
            kit.wait_until(lambda left=NAMES[n:]: ready(job) == list(left), 'the others waited, and could start')
            for name in NAMES[n:]:
                assert name not in before or not kit.lives(before[name]), 'its script still runs'
                assert not nodes[name].ended()
        job.ends_well(*nodes.values())


def test_a_list_of_members_may_replace_all_scripts():
    with kit.World() as world:
        orchestrator = web.serve(world, *kit.SERVE)
        job = orchestrator.job(nnodes='1:4')
        nodes = job.nodes('a', 'b', 'c', 'd')
        generation = job.settled(*NAMES)[0]['generation']
        orchestrator.web.put(job.name, 'members', 'd,b')
        generation = job.settled('b', 'd', after=generation)[0]['generation']
        orchestrator.web.put(job.name, 'members', 'a,c')
        job.settled('a', 'c', after=generation)
        job.ends_well(*nodes)


# ---- paused, min, max ----

def test_a_paused_job_runs_nothing_and_goes_on_when_it_is_not():
    with kit.World() as world:
        orchestrator = web.serve(world, *kit.SERVE)
        job = orchestrator.job(nnodes='1:2')
        nodes = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        orchestrator.web.put(job.name, 'paused', 'true')
        kit.wait_until(lambda: not any(kit.lives(r['pid']) for r in job.reports()), 'all stopped')
        status = kit.wait_until(lambda: (now := job.status())['state'] == 'holding' and now,
                                'it was said to be paused')
        assert 'paused' in status['why'], status
        orchestrator.restart()
        for node in nodes:
            node.wait_log('is back after')
        assert 'paused' in job.status()['why'] and not any(node.ended() for node in nodes)
        orchestrator.web.put(job.name, 'paused', 'false')
        after = job.settled('a', 'b', after=before[0]['generation'])
        assert [r['node'] for r in after] == ['a', 'b']
        assert len(job.reports()) == 4, 'something ran while it was paused'
        job.ends_well(*nodes)


def test_a_paused_job_in_process_restarts_nobody():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(web.serve(world, *kit.SERVE), puppets, 'inprocess', nnodes='1:2')
        w, job = stage.orchestrator.web, stage.job
        found = stage.workers('a', 'b')
        generation = found[0].world()['generation']
        w.put(job.name, 'paused', 'true')
        kit.wait_until(lambda: job.status()['state'] == 'holding', 'it was said to be paused')
        w.put(job.name, 'paused', 'false')
        kit.wait_until(lambda: (now := job.status())['state'] == 'running' and now['active'] > generation,
                       'it went on')
        assert agree(found, ['x', 'x']) == ['ok 1', 'ok 1'] and len(puppets.all) == 2
        stage.leave(found)


BAD = (('size', '0'), ('size', 'two'), ('size', ''), ('size', '-1'), ('size', '1.5'), ('size', '5'),
       ('size', '99999999999999999999'), ('members', ''), ('members', 'a,,b'), ('members', 'a,a'),
       ('members', 'a b'), ('min', '0'), ('min', '3'), ('max', '1'), ('max', 'x'),
       ('schedule', ''), ('schedule', '2:'), ('schedule', '2:x,3'), ('schedule', '2,3'),
       ('schedule', '9:10,2'), ('paused', 'yes'), ('paused', 'TRUE'), ('paused', ''))


def test_values_that_mean_nothing_are_refused_with_a_reason_and_change_nothing():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(web.serve(world, *kit.SERVE), puppets, 'inprocess')
        w, job = stage.orchestrator.web, stage.job.name
        found = stage.workers('a', 'b')
        w.put(job, 'size', '2')
        generation = found[0].world()['generation']
        before = w.get(f'/v1/jobs/{job}/config'), stage.orchestrator.own_status()['journal']
        for key, value in BAD:
            answer = w.try_put(job, key, value)
            assert answer.status == 400 and key in answer.json()['error'], (key, value, answer)
            if value:
                assert key in found[0].fails(f'put {key} any {LONG_MS} {value}', 'invalid')
            if value[:1] != '-':
                code, _, err = stage.orchestrator.ask('config', 'put', '--job', job, key, value)
                assert code != 0 and key in err, (key, value, code, err)
        after = w.get(f'/v1/jobs/{job}/config'), stage.orchestrator.own_status()['journal']
        assert before == after and found[0].world()['generation'] == generation
        stage.leave(found)


def test_below_a_min_that_was_set_the_job_waits_and_a_max_lets_more_in():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(web.serve(world, *kit.SERVE), puppets, 'inprocess', nnodes='1:2')
        w, job = stage.orchestrator.web, stage.job
        found = stage.workers('a', 'b')
        w.put(job.name, 'max', '4')
        w.put(job.name, 'min', '3')
        status = kit.wait_until(lambda: (now := job.status())['state'] == 'holding' and now, 'it waited')
        assert '2 of at least 3' in status['why'] and status['min'] == 3, status
        stage.start('c')
        puppets.one('c').join()
        kit.wait_until(lambda: job.members() == ['a', 'b', 'c'] and job.status()['state'] == 'running', 'it went on')
        w.put(job.name, 'min', '1')
        w.put(job.name, 'max', '2')
        kit.wait_until(lambda: job.members() == ['a', 'b'] and job.waiting() == ['c'], 'one waited')
        assert len(puppets.all) == 3
        stage.leave(found + [puppets.one('c')])


def test_a_max_lets_more_scripts_in_and_cuts_them_off():
    with kit.World() as world:
        orchestrator = web.serve(world, *kit.SERVE)
        job = orchestrator.job(nnodes='1:2')
        nodes = job.nodes('a', 'b')
        generation = job.settled('a', 'b')[0]['generation']
        nodes += job.nodes('c')
        kit.wait_until(lambda: job.waiting() == ['c'], 'the third waited')
        orchestrator.web.put(job.name, 'max', '3')
        generation = job.settled('a', 'b', 'c', after=generation)[0]['generation']
        orchestrator.web.put(job.name, 'max', '2')
        job.settled('a', 'b', after=generation)
        kit.wait_until(lambda: job.waiting() == ['c'], 'the third waited again')
        job.ends_well(*nodes)


# ---- the command ----

def test_the_command_gets_puts_lists_watches_and_removes():
    with one_worker() as (w, worker, job):
        orchestrator = w.orchestrator
        def config(*words):
            return orchestrator.say('config', '--job', job, *words)

        assert json.loads(config('put', 'lr', '0.1', '--json'))['version'] == w.value(job, 'lr')[1]
        version = w.value(job, 'lr')[1]
        assert config('get', 'lr') == '0.1\n' and config('get', 'lr', '--raw') == '0.1'
        found = [json.loads(line) for line in config('list', '--json').splitlines()]
        want = w.get(f'/v1/jobs/{job}/config')['settings']
        assert [(f['key'], f['version'], f['value']) for f in found] == \
            [(f['key'], f['version'], f['value']) for f in want], (found, want)
        watch = kit.Process(orchestrator.world, 'watch')
        watch.spawn(['config', 'watch', 'lr', '--job', job, '--endpoint', orchestrator.where,
                     '--token-file', orchestrator.token_file])
        kit.wait_until(lambda: '0.1' in watch.out(), 'it showed what there is')
        worker.do(f'put lr {version} {LONG_MS} 0.25')
        kit.wait_until(lambda: '0.25' in watch.out(), 'it showed the change')
        config('rm', 'lr')
        kit.wait_until(lambda: 'removed' in watch.out(), 'it showed that')
        watch.kill9()
        assert w.value(job, 'lr') is None
        code, _, err = orchestrator.ask('config', 'get', 'lr', '--job', job)
        assert code != 0 and 'lr' in err, (code, err)


if __name__ == '__main__':
    kit.run(__name__, jobs=6)
