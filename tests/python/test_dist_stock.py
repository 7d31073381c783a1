"""muster.torch.process_group(): torch's own backend, made again for each generation.

A worker that dies while gloo connects holds the others for as long as torch's time-out is: so groups have a short one
here, and workers are killed when the group is made for certain.
"""
import pytest

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

# It has told the others where it is, and dies before gloo can reach it: the last of three, then the first of two.
HALFWAY = '''
    import os
    import signal
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


def test_a_gloo_group_beside_training_follows_its_generations_and_a_loss_ends_none_for_good(cluster):
    c = cluster(BESIDE, 3, args=[3, 2], flags=('--max-restarts', '0'), limit=0)
    last = c.gather('a', 'b', 'c')
    c.limit(last + 8 - last % 4)  # All three have been in a group of three, and are in the first step of an epoch.
    c.stand(3)
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


def test_another_default_group_is_not_taken_away(alone):
    done = alone(TAKEN)
    assert done.stdout.startswith('refused there is a default process group'), done.stdout
