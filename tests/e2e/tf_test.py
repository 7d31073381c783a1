#!/usr/bin/env python3
"""A script that reads TF_CONFIG as TensorFlow's cluster resolver does (scripts/tfconfig.py), in all roles.

usage: tf_test.py MUSTER [CASE…]
"""
import glob
import json
import os

import kit


def start(job, roles):
    """Nodes by name; the name begins with the role."""
    return {name: job.node(name, '--role', name.rstrip('0123456789'), script='tfconfig.py')
            for name in roles}


def results(job):
    found = []
    for path in glob.glob(os.path.join(job.dir, 'tf.*.json')):
        with open(path, encoding='utf-8') as file:
            found.append(json.load(file))
    return sorted(found, key=lambda r: (r['generation'], r['type'], r['index']))


def newest(job):
    """Of the newest generation that there are any of."""
    found = results(job)
    return [r for r in found if r['generation'] == found[-1]['generation']]


def resolved(job, names, after=0):
    """Waits for a generation of exactly these nodes in which all have reached all, and checks that they agree;
    results by node."""
    def look():
        last = newest(job)
        if last and last[0]['generation'] > after and sorted(r['node'] for r in last) == sorted(names):
            return {r['node']: r for r in last}
        return None

    by_node = kit.wait_until(look, f'{names} had found each other in a generation after {after}')
    check(by_node)
    return by_node


def check(by_node):
    first = next(iter(by_node.values()))
    tasks = sorted((r['type'], r['index']) for r in by_node.values() if r['type'] != 'evaluator')
    listed = sorted((kind, i) for kind, at in first['cluster'].items() for i in range(len(at)))
    assert tasks == listed, (tasks, listed)
    for r in by_node.values():
        assert r['cluster'] == first['cluster'], by_node
        assert r['found'] == {kind: [f'{kind}:{i}' for i in range(len(at))]
                              for kind, at in r['cluster'].items()}, r
        assert (r['rank'] is None) == (r['type'] in ('ps', 'evaluator')), r
    trainers = [r for r in by_node.values() if r['rank'] is not None]
    assert sorted(int(r['rank']) for r in trainers) == list(range(len(trainers))), by_node
    assert sum(r['chief'] for r in by_node.values()) == 1, by_node


def shape(by_node):
    """How many tasks of each kind the cluster has."""
    return {kind: len(at) for kind, at in next(iter(by_node.values()))['cluster'].items()}


def finish(job, nodes):
    job.finish()
    codes = {name: node.wait() for name, node in nodes.items()}
    assert set(codes.values()) == {0}, codes


def test_workers_agree_on_the_cluster_and_again_after_a_loss():
    with kit.World() as world:
        job = world.orchestrator(*kit.SERVE).job(nnodes='1:3')
        nodes = start(job, ('worker1', 'worker2', 'worker3'))
        before = resolved(job, nodes)
        assert shape(before) == {'worker': 3}
        assert all(r['master'].startswith('grpc://127.0.0.1:') for r in before.values())
        nodes.pop('worker2').kill9()
        after = resolved(job, nodes, before['worker1']['generation'])
        assert shape(after) == {'worker': 2}
        finish(job, nodes)


def test_a_worker_that_is_alone_needs_no_server():
    with kit.World() as world:
        job = world.orchestrator(*kit.SERVE).job(nnodes='1')
        nodes = start(job, ('worker1',))
        alone = resolved(job, nodes)['worker1']
        assert alone['master'] == '' and alone['chief']
        finish(job, nodes)


def test_several_workers_of_one_node_are_tasks_of_their_own():
    with kit.World() as world:
        job = world.orchestrator(*kit.SERVE).job(nnodes='2', nproc=2)
        nodes = start(job, ('worker1', 'worker2'))
        found = kit.wait_until(lambda: newest(job) if len(newest(job)) == 4 else None,
                               'four workers had found each other')
        assert sorted(r['index'] for r in found) == [0, 1, 2, 3]
        check({i: r for i, r in enumerate(found)})
        finish(job, nodes)


def test_there_is_one_chief_and_the_others_are_workers():
    with kit.World() as world:
        job = world.orchestrator(*kit.SERVE).job(nnodes='1:3')
        nodes = start(job, ('chief', 'worker1', 'worker2'))
        before = resolved(job, nodes)
        assert shape(before) == {'chief': 1, 'worker': 2} and before['chief']['chief']
        nodes.pop('chief').kill9()
        after = resolved(job, nodes, before['chief']['generation'])
        assert shape(after) == {'worker': 2}  # The first of them does the chief's work.
        finish(job, nodes)


def test_parameter_servers_are_in_the_cluster_and_an_evaluator_is_beside_it():
    with kit.World() as world:
        job = world.orchestrator(*kit.SERVE).job(nnodes='3')
        nodes = start(job, ('chief', 'worker1', 'worker2', 'ps1', 'ps2', 'evaluator'))
        before = resolved(job, nodes)
        assert shape(before) == {'chief': 1, 'worker': 2, 'ps': 2}
        assert (before['evaluator']['type'], before['evaluator']['index']) == ('evaluator', 0)
        assert {before[name]['type'] for name in ('ps1', 'ps2')} == {'ps'}
        os.kill(before['worker2']['pid'], 9)
        after = resolved(job, nodes, before['chief']['generation'])
        assert shape(after) == shape(before)
        assert not {r['pid'] for r in before.values()} & {r['pid'] for r in after.values()}
        job.finish(0, 'chief')
        job.finish(0, 'worker1')
        job.finish(0, 'worker2')  # The helpers, whose scripts would go on for ever, are stopped.
        codes = {name: node.wait() for name, node in nodes.items()}
        assert set(codes.values()) == {0}, codes
        assert not any(kit.lives(r['pid']) for r in after.values())


def test_a_parameter_server_that_dies_makes_a_new_generation():
    with kit.World() as world:
        job = world.orchestrator(*kit.SERVE).job(nnodes='1:2')
        nodes = start(job, ('worker1', 'worker2', 'ps1', 'ps2'))
        before = resolved(job, nodes)
        nodes.pop('ps1').kill9()
        after = resolved(job, nodes, before['worker1']['generation'])
        assert shape(after) == {'worker': 2, 'ps': 1}
        nodes['ps3'] = job.node('ps3', '--role', 'ps', script='tfconfig.py')
        assert shape(resolved(job, nodes, after['worker1']['generation'])) == {'worker': 2, 'ps': 2}
        finish(job, nodes)


if __name__ == '__main__':
    kit.run(__name__, jobs=6)
