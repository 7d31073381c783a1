"""muster.torch.process_group(): torch's own backend, made again for each generation."""
import kit
import pytest

pytest.importorskip('torch')

LOOP = '''
    import os
    import sys
    import time
    import muster.torch
    import torch
    import torch.distributed as dist

    run = muster.join()
    stock = muster.torch.process_group(run, backend='gloo')
    done, seen = 0, None
    while done < int(sys.argv[1]):
        group = stock.group
        if stock.generation != seen:
            seen = stock.generation
            print('world', stock.rank, stock.size, dist.get_backend(group), os.getpid(), flush=True)
        x = torch.tensor([1.0, float(done)])
        try:
            dist.all_reduce(x, group=group)
        except RuntimeError:
            continue                               # Somebody was lost: the next group is without it.
        assert x[0] == stock.size
        done = int(x[1] / x[0]) + 1 if stock.rank == 0 else done + 1
        word = torch.tensor([done])
        try:
            dist.broadcast(word, 0, group=group)   # Newcomers go on where the others are.
        except RuntimeError:
            continue
        done = int(word)
        time.sleep(0.005)
    print('done', done, flush=True)
'''

# Until there were so many workers, one after the other, for ten epochs the last.
BESIDE = '''
    import sys
    import muster.torch
    import torch
    import torch.distributed as dist

    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = muster.torch.join(model, optimizer)
    stock = muster.torch.process_group(run, backend='gloo')
    data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    want = [int(size) for size in sys.argv[1:]]
    run.state.update(sizes=[], epochs=0)
    for epoch in run.epochs():
        for step in epoch.steps(data, global_batch=16, slices=4, seed=1):
            for x, y in step:
                step.backward((model(x) - y).pow(2).mean())
            optimizer.step()
        if run.state['sizes'][-1:] != [run.size]:
            run.state.update(sizes=run.state['sizes'] + [run.size], epochs=0)
        run.state['epochs'] += 1
        if run.state['sizes'][-len(want):] == want and run.state['epochs'] == 10:
            break
        try:
            total = torch.tensor([1.0, sum(p.sum().item() for p in model.parameters())])
            dist.all_reduce(total, group=stock.group)
            print('epoch', epoch.number, int(total[0]), stock.size, dist.get_backend(), flush=True)
        except (muster.PeerLost, RuntimeError) as error:
            print('lost', epoch.number, type(error).__name__, flush=True)
    print('done', sum(p.double().sum().item() for p in model.parameters()), flush=True)
'''

# It has told the others where it is, and dies before gloo can reach it.
HALFWAY = '''
    import os
    import signal
    import sys
    import muster.torch
    import torch
    import torch.distributed as dist
    from muster.torch import _meeting

    run = muster.join()
    while run.size < 3:
        run.wait(run.generation)
    if run.rank == int(sys.argv[1]):
        _meeting.meet(run.core)
        os.kill(os.getpid(), signal.SIGKILL)
    stock = muster.torch.process_group(run, backend='gloo')
    x = torch.ones(2)
    dist.all_reduce(x, group=stock.group)
    print('together', stock.rank, stock.size, x.tolist(), flush=True)
    run.barrier('end')
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
    c = cluster(LOOP, 2, args=[2000])
    c.wait_lines('world 1 2')
    pids = {name: c.worker_pids(name) for name in 'ab'}
    new = c.join()
    c.wait_lines('world 2 3 gloo', who=new)
    kit.wait_until(lambda: len(c.lines('world')) >= 6, 'all three have the group')
    gone = c.kill(1)
    c.wait()
    left = [name for name in c.nodes if name != gone]
    assert all(c.lines('world', name)[-1].split()[2] == '2' for name in left), c.lines('world')
    for name in set(left) & set(pids):
        assert {int(line.split()[4]) for line in c.lines('world', name)} == set(pids[name])
    assert [c.lines('done', name) for name in left] == [['done 2000']] * 2


def test_a_gloo_group_works_beside_training_and_follows_its_generations(cluster):
    c = cluster(BESIDE, 2, args=[2])
    c.wait()
    found = [line.split() for line in c.lines('epoch')]
    assert found and all(line[2] == line[3] and line[4] == 'gloo' for line in found), found
    assert any(line[3] == '2' for line in found) and not c.lines('lost')
    assert len(set(c.lines('done'))) == 1


def test_a_loss_during_training_ends_no_gloo_group_for_good(cluster):
    c = cluster(BESIDE, 3, args=[3, 2], flags=('--max-restarts', '0'))
    kit.wait_until(lambda: sum(line.split()[3] == '3' for line in c.lines('epoch')) >= 3, 'all three had the group')
    gone = c.kill(1)
    c.wait()
    left = [name for name in c.nodes if name != gone]
    found = [c.lines('epoch', name)[-1].split() for name in left]
    assert all(line[2:5] == ['2', '2', 'gloo'] for line in found), found
    assert len({line for name in left for line in c.lines('done', name)}) == 1


@pytest.mark.parametrize('victim', [0, 2])
def test_a_worker_that_dies_while_the_group_is_made_is_not_waited_for(cluster, victim):
    c = cluster(HALFWAY, 3, args=[victim], flags=('--max-restarts', '0'))
    said = c.wait_lines('together', 2)
    assert sorted(said) == ['together 0 2 [2.0, 2.0]', 'together 1 2 [2.0, 2.0]']


def test_another_default_group_is_not_taken_away(alone):
    done = alone(TAKEN)
    assert done.stdout.startswith('refused there is a default process group'), done.stdout
