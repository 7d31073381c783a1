"""muster.torch.process_group(): torch's own backend, made again for each generation."""
import sys

import pytest
from cluster import PACKAGE

pytest.importorskip('torch')

LOOP = '''
    import os
    import sys
    import muster.torch
    import torch
    import torch.distributed as dist
    from gate import gate

    run = muster.join()
    stock = muster.torch.process_group(run, backend='gloo', timeout=30)
    done, seen = 0, None
    while done < int(sys.argv[1]):
        group = stock.group
        try:
            if stock.generation != seen:
                word = torch.tensor([done])
                dist.broadcast(word, 0, group=group)   # Newcomers go on where the others are.
                done, seen = int(word), stock.generation
                print('world', stock.rank, stock.size, dist.get_backend(group), os.getpid(), flush=True)
            gate(done + 1)
            x = torch.ones(1)
            dist.all_reduce(x, group=group)
        except RuntimeError:
            continue                                   # Somebody was lost: the next group is without it.
        assert x[0] == stock.size
        done += 1
    print('done', done, flush=True)
    run.barrier('end')
'''

# Until there were so many workers, one after the other, for three epochs the last. An epoch has 4 steps.
BESIDE = '''
    import sys
    import muster.torch
    import torch
    import torch.distributed as dist
    from gate import gate

    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = muster.torch.join(model, optimizer)
    stock = muster.torch.process_group(run, backend='gloo', timeout=30)
    data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    want = [int(size) for size in sys.argv[1:]]
    run.state.update(sizes=[], epochs=0)
    for epoch in run.epochs():
        for step in epoch.steps(data, global_batch=16, slices=4, seed=1):
            for x, y in step:
                gate(step.number)
                step.backward((model(x) - y).pow(2).mean())
            optimizer.step()
        if run.state['sizes'][-1:] != [run.size]:
            run.state.update(sizes=run.state['sizes'] + [run.size], epochs=0)
        run.state['epochs'] += 1
        if run.state['sizes'][-len(want):] == want and run.state['epochs'] == 3:
            break
        try:
            total = torch.tensor([1.0, sum(p.sum().item() for p in model.parameters())])
            dist.all_reduce(total, group=stock.group)
            print('epoch', epoch.number, int(total[0]), stock.size, dist.get_backend(), flush=True)
        except (muster.PeerLost, RuntimeError) as error:
            print('lost', epoch.number, type(error).__name__, flush=True)
    print('done', sum(p.double().sum().item() for p in model.parameters()), flush=True)
'''

# Whoever takes the place of one that was killed stays out.
ONCE = '''
    import os
    import signal
    try:
        open(os.path.join(os.environ['GATE_DIR'], f'once-{os.getppid()}'), 'x').close()
    except FileExistsError:
        signal.pause()
'''

# It has told the others where it is, and dies before gloo can reach it: the last of three, then the first of two.
HALFWAY = ONCE + '''
    import muster.torch
    import torch
    import torch.distributed as dist
    from gate import together
    from muster.torch import _meeting

    def lose(victim):
        if run.rank == victim:
            _meeting.meet(run.core)
            os.kill(os.getpid(), signal.SIGKILL)
        x = torch.ones(2)
        dist.all_reduce(x, group=stock.group)
        print('together', stock.rank, stock.size, x.tolist(), flush=True)
        stock.close()

    run = muster.join()
    together(run, 3)
    stock = muster.torch.process_group(run, backend='gloo', timeout=30)
    lose(2)
    lose(0)
'''

# What is common to the next four. lose_me(): this worker dies in the constructor of its next gloo group, when the
# others know where it listens, and none of them will be reached by it. Of two addresses the one that is less waits for
# the other to connect: with the highest of ports, all of them wait for this one. Or (silent) before it has told them:
# then they wait in the store.
CONNECTING = ONCE + '''
    import time
    import muster.torch
    import torch
    import torch.distributed as dist
    from gate import together
    from muster.torch import _meeting

    def lose_me(after=None, silent=False):
        PAIR = 136   # struct sockaddr_storage, and a number of 8 bytes
        stock_set = _meeting.Store.set

        def set_and_die(self, key, value):
            if len(value) < PAIR:
                return stock_set(self, key, value)
            if silent:
                os.kill(os.getpid(), signal.SIGKILL)
            value = bytearray(value)
            for at in range(0, len(value), PAIR):
                value[at + 2:at + 4] = b'\\xff\\xff'
            stock_set(self, key, bytes(value))
            if after is not None:
                self.wait([key.rpartition('/')[0] + '/' + after])
            os.kill(os.getpid(), signal.SIGKILL)
        _meeting.Store.set = set_and_die
'''

CONNECTING_STOCK = CONNECTING + '''
    def lose(victim):
        if run.rank == victim:
            lose_me()
        began = time.monotonic()
        x = torch.ones(2)
        dist.all_reduce(x, group=stock.group)
        print('together', stock.rank, stock.size, x.tolist(), flush=True)
        print('took', time.monotonic() - began, flush=True)
        stock.close()

    run = muster.join()
    together(run, 3)
    stock = muster.torch.process_group(run, backend='gloo')
    lose(2)
    lose(0)
'''

# The first of three is lost when the last has begun to connect; the one between them has not heard of the store yet.
# Then the two that are left are not at the same place in torch.
CONNECTING_APART = CONNECTING + '''
    run = muster.join()
    together(run, 3)
    stock = muster.torch.process_group(run, backend='gloo')
    reach_store = _meeting.reach_store

    def reach_late(place, *more):
        while run.core.world()[0] == place.generation:
            time.sleep(0.01)
        _meeting.reach_store = reach_store
        return reach_store(place, *more)

    if run.rank == 0:
        lose_me(after='rank_2')
    elif run.rank == 1:
        _meeting.reach_store = reach_late
    began = time.monotonic()
    x = torch.ones(2)
    dist.all_reduce(x, group=stock.group)
    print('together', stock.rank, stock.size, x.tolist(), flush=True)
    print('took', time.monotonic() - began, flush=True)
'''

# By env://, and for a group beside the default one.
CONNECTING_ENV = CONNECTING + '''
    import sys

    def begin():
        while not dist.is_initialized():
            try:
                dist.init_process_group('gloo')
            except muster.PeerLost:
                continue
        print('group', dist.get_rank(), dist.get_world_size(), flush=True)

    run = muster.join()
    together(run, 3)
    silent = sys.argv[1] == 'silent'
    if run.rank == 0:
        lose_me(silent=silent)
    began = time.monotonic()
    begin()
    print('took', time.monotonic() - began, flush=True)
    if dist.get_rank() == 1:
        lose_me(silent=silent)
    began = time.monotonic()
    try:
        dist.new_group(backend='gloo')
        print('made', flush=True)
    except muster.PeerLost:
        print('took', time.monotonic() - began, flush=True)
    dist.destroy_process_group()
    begin()
'''

# Beside training. One dies between two steps, and the others ask for their group when they know of the generation
# without it (late); or it dies while the group is made.
BETWEEN = CONNECTING + '''
    import sys

    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = muster.torch.join(model, optimizer)
    stock = muster.torch.process_group(run, backend='gloo')
    data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    lost = False
    for epoch in run.epochs():
        for step in epoch.steps(data, global_batch=16, slices=4, seed=1):
            for x, y in step:
                step.backward((model(x) - y).pow(2).mean())
            optimizer.step()
        if run.size == 3 and not lost:
            if run.rank == 1 and sys.argv[1] == 'late':
                os.kill(os.getpid(), signal.SIGKILL)
            elif run.rank == 1:
                lose_me(silent=sys.argv[1] == 'silent')
            while sys.argv[1] == 'late' and run.core.world()[0] == run.core.group()[0]:
                time.sleep(0.01)
            began, lost = time.monotonic(), True
            try:
                stock.group
                print('made', flush=True)
            except muster.PeerLost:
                print('took', time.monotonic() - began, flush=True)
        elif lost:
            total = torch.ones(1)
            dist.all_reduce(total, group=stock.group)
            print('together', int(total), stock.size, flush=True)
            break
'''

TAKEN = '''
    import muster.torch
    import torch.distributed as dist
    dist.init_process_group('muster')
    try:
        muster.torch.process_group(muster.current()).group
    except RuntimeError as error:
        print('refused', error)
'''


def test_a_gloo_group_is_made_again_when_workers_come_and_when_one_is_killed(cluster):
    c = cluster(LOOP, 2, args=[60], limit=0)
    c.gather('a', 'b')
    pids = {name: c.worker_pids(name) for name in 'ab'}
    new = c.join()
    c.limit(c.gather('a', 'b', new) + 2)
    c.stand(3)
    assert len(c.lines('world 2 3 gloo', new)) == 1
    gone = c.kill(1)
    c.limit()
    c.wait()
    left = [name for name in c.nodes if name != gone]
    assert all(c.lines('world', name)[-1].split()[2] == '2' for name in left), c.lines('world')
    for name in set(left) & set(pids):
        assert {int(line.split()[4]) for line in c.lines('world', name)} == set(pids[name])
    assert [c.lines('done', name) for name in left] == [['done 60']] * 2


def opened_by_a_reader(c):
    """Words among the settings, which every viewer reads, that open the store of the group: none may."""
    _, host, port, *words = c.orchestrator.say('config', 'get', 'torch/store').split()
    sys.path.insert(0, PACKAGE)
    from muster.torch._store import Client
    opened = []
    for word in [*words, host, port]:
        client = Client(host, int(port), word.ljust(32), 2)
        try:
            client.call(b'n', b'', b'', b'')
            opened.append(word)
        except OSError:
            pass
        client.close()
    return opened


def test_a_gloo_group_beside_training_follows_its_generations_and_a_loss_ends_none_for_good(cluster):
    c = cluster(BESIDE, 3, args=[3, 2], flags=('--max-restarts', '0'), limit=0)
    last = c.gather('a', 'b', 'c')
    c.limit(last + 8 - last % 4)  # All three have been in a group of three, and are in the first step of an epoch.
    c.stand(3)
    assert opened_by_a_reader(c) == []
    before = [line.split() for line in c.lines('epoch')]
    assert all(line[2] == line[3] and line[4] == 'gloo' for line in before), before
    assert sum(line[3] == '3' for line in before) >= 3 and not c.lines('lost'), before
    gone = c.kill(1)
    c.limit()
    c.wait()
    left = [name for name in c.nodes if name != gone]
    found = [c.lines('epoch', name)[-1].split() for name in left]
    assert all(line[2:5] == ['2', '2', 'gloo'] for line in found), found
    assert len({line for name in left for line in c.lines('done', name)}) == 1


def test_a_worker_that_dies_while_the_group_is_made_is_not_waited_for(cluster):
    c = cluster(HALFWAY, 3, flags=('--max-restarts', '0'), nnodes='1:3')
    said = c.wait_lines('together', 3)
    assert sorted(said) == ['together 0 1 [1.0, 1.0]', 'together 0 2 [2.0, 2.0]', 'together 1 2 [2.0, 2.0]']
    c.wait()


def check_took(c, n):
    """So many were held up by a loss, none of them nearly as long as a time-out of torch's is: 300 s, or five times
    that. A bound on what took a second; machines can be slow."""
    took = [float(line.split()[1]) for line in c.lines('took')]
    assert len(took) == n and max(took) < 60, took


def test_a_worker_that_dies_while_gloo_connects_to_it_is_not_waited_for(cluster):
    c = cluster(CONNECTING_STOCK, 3, flags=('--max-restarts', '0'), nnodes='1:3')
    said = c.wait_lines('together', 3)
    assert sorted(said) == ['together 0 1 [1.0, 1.0]', 'together 0 2 [2.0, 2.0]', 'together 1 2 [2.0, 2.0]']
    c.wait()  # Also the last one, which ends with a thread that gloo has, ends well.
    check_took(c, 3)


def test_those_who_were_at_different_places_when_one_was_lost_make_a_group_afterwards(cluster):
    c = cluster(CONNECTING_APART, 3, flags=('--max-restarts', '0'), nnodes='1:3')
    said = c.wait_lines('together', 2)
    assert sorted(said) == ['together 0 2 [2.0, 2.0]', 'together 1 2 [2.0, 2.0]']
    c.wait()
    check_took(c, 2)


@pytest.mark.parametrize('how', ['connecting', 'silent'])
def test_a_loss_ends_the_making_of_a_gloo_group_by_env_and_of_one_beside_the_default_group(cluster, how):
    c = cluster(CONNECTING_ENV, 3, args=[how], flags=('--max-restarts', '0'), nnodes='1:3')
    said = c.wait_lines('group', 3)
    assert sorted(said) == ['group 0 1', 'group 0 2', 'group 1 2']
    c.wait()
    assert not c.lines('made')
    check_took(c, 3)


@pytest.mark.parametrize('how', ['late', 'connecting', 'silent'])
def test_a_worker_that_is_lost_before_or_while_the_group_of_a_step_is_made_is_not_waited_for(cluster, how):
    c = cluster(BETWEEN, 3, args=[how], flags=('--max-restarts', '0'), nnodes='1:3')
    assert c.wait_lines('together', 2) == ['together 2 2'] * 2
    c.wait()
    assert not c.lines('made')
    check_took(c, 2)


def test_another_default_group_is_not_taken_away(alone):
    done = alone(TAKEN)
    assert done.stdout.startswith('refused there is a default process group'), done.stdout
