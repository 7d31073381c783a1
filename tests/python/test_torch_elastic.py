"""muster.torch on real workers: whatever joins, leaves and dies, the result is that of one worker alone."""
import difflib
import os
import re
import signal

import cluster as tools
import kit
import pytest

EXAMPLE = 'examples/torch/elastic.py'
SAMPLES, BATCH, EPOCHS = 1100, 256, 6
STEPS = EPOCHS * -(-SAMPLES // BATCH)
SHORT = ('--epochs', EPOCHS, '--samples', SAMPLES)

_alone = {}


def out_alone(script, *args):
    if (script, args) not in _alone:
        _alone[script, args] = tools.alone(script, args).stdout
    return _alone[script, args]


def sha_alone(script, *args):
    return re.search(r'sha256 \w+', out_alone(script, *args)).group()


# ---- the example ----

GATED = '''
    """A script that stops where the test says. The bits are the same."""
    import runpy, sys
    import muster.torch
    from gate import gate
    backward = muster.torch.Step.backward

    def gated(step, loss):
        gate(step.number)
        backward(step, loss)
    muster.torch.Step.backward = gated
    sys.argv[:] = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name='__main__')
'''
GATED_ARGS = (os.path.join(tools.ROOT, EXAMPLE), *SHORT)


def test_six_lines_make_the_plain_example_elastic():
    texts = []
    for name in ('plain', 'elastic'):
        with open(os.path.join(tools.ROOT, f'examples/torch/{name}.py'), encoding='utf-8') as file:
            texts.append(file.read().splitlines())
    diff = list(difflib.unified_diff(*texts, n=0, lineterm=''))[2:]
    added = [line for line in diff if line.startswith('+')]
    removed = [line for line in diff if line.startswith('-')]
    assert 0 < len(added) <= 6 and len(removed) <= 6, diff


@pytest.mark.parametrize('workers', (1, 2, 3, 4, 5) if tools.FULL else (2,))
def test_the_example_has_the_same_bits_on_any_number_of_workers(cluster, workers):
    c = cluster(EXAMPLE, workers, args=SHORT, nnodes=str(workers))
    c.wait()
    assert c.lines('sha256') == [sha_alone(EXAMPLE, *SHORT)] * workers
    assert len(c.lines('epoch')) == EPOCHS * workers and len(set(c.lines('epoch'))) == EPOCHS
    c.demand_audit(SAMPLES, BATCH, STEPS)


def test_the_example_has_the_same_bits_when_workers_are_killed_join_and_leave(cluster):
    c = cluster(GATED, 3, args=GATED_ARGS, limit=0)
    c.limit(c.gather('a', 'b', 'c') + 2)
    c.stand(3)
    c.kill('b')
    c.limit(c.step_limit + 2)
    c.join()
    c.limit(c.gather('a', 'c', 'd') + 2)
    c.stand(3)
    c.drain('a')
    c.gather('c', 'd')
    c.limit()
    c.wait('a', 'c', 'd')
    found = c.lines('sha256')
    assert found == [sha_alone(EXAMPLE, *SHORT)] * 2, found  # Who has left says none.
    c.demand_audit(SAMPLES, BATCH, STEPS)


def test_the_example_recognises_what_it_has_learned():
    """85 of 100 with all samples, and more than half with few."""
    args, least = ((), 85) if tools.FULL else (SHORT, 50)
    out = out_alone(EXAMPLE, *args)
    assert float(re.search(r'best ([\d.]+) %', out).group(1)) >= least, out


# ---- everything at once ----

EVERYTHING = '''
    import atexit, hashlib, random, sys
    import muster.torch, torch
    from gate import gate
    from torch import nn
    from torch.utils.data import DataLoader, Dataset

    class Data(Dataset):
        def __len__(self):
            return 410
        def __getitem__(self, i):
            x = torch.randn(6, generator=torch.Generator().manual_seed(i)) + torch.rand(6) + random.random()
            return x if i != 77 else x * float('nan'), x.sum()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(6, 600)
            self.norm = nn.BatchNorm1d(600)
            self.middle = nn.Linear(600, 600)
            self.short = nn.Linear(600, 8).bfloat16()
            self.last = nn.Linear(8, 1)
            self.drop = nn.Dropout(0.3)
        def forward(self, x):
            x = self.drop(torch.relu(self.middle(self.norm(self.first(x)))))
            return self.last(self.short(x.bfloat16()).float())

    torch.manual_seed(4)
    net = Net()
    optimizer = torch.optim.AdamW([{'params': net.first.parameters()}, {'params': [*net.norm.parameters(), *net.middle.parameters(),
                                  *net.short.parameters(), *net.last.parameters()], 'lr': 0.003}], lr=0.001)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, [0.002, 0.006], total_steps=200)
    second = torch.optim.SGD(net.last.parameters(), lr=0.001)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(second, patience=0)
    run = muster.torch.join(net, optimizer, second, scheduler, plateau, metrics=('loss', 'size'), nonfinite='skip', digest_every=7)
    loader = DataLoader(Data(), batch_sampler=run.sampler(Data(), global_batch=32, slices=8, seed=3), num_workers=int(sys.argv[1]))
    losses = []
    atexit.register(lambda: run.left and print('left', run.rank))
    for epoch in run.epochs(8):
        for step in epoch.steps(loader):
            for x, y in step:
                run.log(size=len(x))
                gate(step.number)
                step.backward(nn.functional.mse_loss(net(x)[:, 0], y))
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            second.step()
            scheduler.step()
            with torch.no_grad():
                net.last.bias += 0.01 * torch.rand(1)
            run.state['steps'] = run.state.get('steps', 0) + 1
            run.state.setdefault('losses', []).append(step.loss)
        plateau.step(step.loss if not step.skipped else 1e9)
        run.log(epoch_loss=step.loss)
    found = hashlib.sha256()
    for value in net.state_dict().values():
        found.update(value.float().numpy().tobytes())
    for value in (run.state['steps'], run.skipped, repr(run.state['losses']), scheduler.last_epoch, plateau.num_bad_epochs,
                  optimizer.param_groups[1]['lr']):
        found.update(repr(value).encode())
    for p in net.parameters():
        for value in optimizer.state[p].values():
            found.update(value.float().numpy().tobytes())
    print('skipped', run.skipped, 'steps', run.state['steps'])
    print('sha256', found.hexdigest())
'''


def test_everything_at_once_has_the_same_bits_under_churn(cluster):
    want = sha_alone(EVERYTHING, 0)
    c = cluster(EVERYTHING, 2, args=(2,), limit=0)
    c.limit(c.gather('a', 'b') + 3)
    c.join()
    c.limit(c.gather('a', 'b', 'c') + 3)
    c.stand(3)
    c.kill_worker('a')  # Its agent starts another.
    c.limit(c.gather('a', 'b', 'c') + 3)
    c.stand(3)
    c.kill('b')
    c.limit(c.step_limit + 3)
    c.join()
    c.limit(c.gather('a', 'c', 'd') + 3)
    c.stand(3)
    c.drain('c')
    c.gather('a', 'd')
    c.limit()
    c.wait('a', 'c', 'd')
    assert c.lines('sha256') == [want] * 2 and c.lines('left', 'c') == ['left -1']
    assert set(c.lines('skipped')) == {'skipped 8 steps 104'}
    c.demand_audit(410, 32, 8 * 13)


# ---- what is refused ----

OTHER = '''
    import sys
    import muster.torch, torch
    from torch import nn
    from torch.utils.data import TensorDataset
    width = int(sys.argv[1])
    net = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 1))
    data = TensorDataset(torch.randn(64, 4), torch.zeros(64, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    run = muster.torch.join(net, optimizer, threads=int(sys.argv[2]))
    try:
        for epoch in run.epochs():
            for step in epoch.steps(data, global_batch=16):
                for x, y in step:
                    step.backward(nn.functional.mse_loss(net(x), y))
                optimizer.step()
            print('at', step.number, flush=True)
    except muster.Refused as error:
        print('refused', str(error).replace('\\n', ' | '))
        sys.exit(3)
'''


def test_a_worker_that_differs_is_refused_with_the_difference(cluster):
    c = cluster(OTHER, 0, flags=('--max-restarts', '0'))
    c.join(args=(8, 1))
    c.wait_lines('at')
    for args, texts in (((9, 1), ('shape:0.weight', 'f32 [8, 4]', 'f32 [9, 4]')), ((8, 2), ('torch.threads', '1', '2'))):
        other = c.join(args=args)
        line = c.wait_lines('refused', who=other)[0]
        assert all(text in line for text in texts), line
        c.wait(other, codes=(1, 3))
    c.wait_lines('at', len(c.lines('at', 'a')) + 3, 'a')  # Nobody else minds.


NOT_FINITE = '''
    import muster.torch, torch
    from torch import nn
    from torch.utils.data import TensorDataset
    torch.manual_seed(1)
    net = nn.Linear(4, 1)
    x = torch.randn(64, 4)
    x[40] = float('inf')
    run = muster.torch.join(net, nonfinite='stop')
    try:
        for epoch in run.epochs(1):
            for step in epoch.steps(TensorDataset(x, torch.zeros(64, 1)), global_batch=16):
                for x, y in step:
                    step.backward(nn.functional.mse_loss(net(x), y))
    except FloatingPointError as error:
        print('stopped', error)
        raise
'''


def test_a_gradient_that_is_not_finite_stops_all_workers(cluster):
    c = cluster(NOT_FINITE, 2, nnodes='2:2', flags=('--max-restarts', '0'))
    found = c.wait_lines('stopped', 2)
    assert len(set(found)) == 1 and 'is not finite' in found[0], found


# ---- checkpoints ----

def saved(folder):
    """Whether a whole checkpoint is there."""
    return any(name.startswith('step-') for _, names, files in os.walk(folder) for name in names + files)


def test_a_run_goes_on_from_its_checkpoint_and_has_the_same_bits(cluster, world):
    folder = os.path.join(world.dir, 'checkpoints')
    c = cluster(GATED, 2, args=GATED_ARGS, flags=('--ckpt-dir', folder, '--ckpt-every', '4'), limit=9)
    c.stand(1)
    kit.wait_until(lambda: saved(folder), 'there was a checkpoint')
    c.kill('a')
    c.kill('b')
    c.limit()
    again = c.join()
    c.wait(again)
    assert c.lines('sha256') == [sha_alone(EXAMPLE, *SHORT)]
    assert re.search(r'step (4|8) \(epoch \d+\) is restored', c.nodes[again].log()), c.nodes[again].log()[-3000:]


def test_a_run_that_is_finished_stays_as_it_is(cluster, world):
    """Started once more it does nothing: not even what the script does at the end of an epoch."""
    c = cluster(EXAMPLE, 1, args=SHORT, flags=('--ckpt-dir', os.path.join(world.dir, 'checkpoints'), '--ckpt-every', '1'))
    c.wait()
    c.wait(c.join(flags=['--rerun']))
    assert c.lines('sha256') == [sha_alone(EXAMPLE, *SHORT)] * 2


# ---- a worker that was left out for a while ----

def test_a_worker_that_stood_still_for_more_than_an_epoch_goes_on_with_the_others(cluster):
    c = cluster(EVERYTHING, 2, args=(0,), limit=0, serve=kit.LAPSING)
    c.limit(c.gather('a', 'b') + 3)
    c.stand(2)
    pids = c.worker_pids('b')
    c.kill_worker('b', signal.SIGSTOP)
    c.limit(c.step_limit + 15)  # An epoch has 13.
    kit.wait_until(lambda: c.members() == ['a'], 'the one that stood still was left out')
    c.stand(1)
    c.kill_worker('b', signal.SIGCONT)
    c.limit(c.gather('a', 'b') + 3)
    c.stand(2)
    assert c.worker_pids('b') == pids
    c.limit()
    c.wait()
    assert c.lines('sha256') == [sha_alone(EVERYTHING, 0)] * 2
    c.demand_audit(410, 32, 8 * 13)
