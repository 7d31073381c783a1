"""The loop of muster.torch, by one worker in this process: what it computes, and what it says to bad use."""
import random

import numpy
import pytest
import torch
from torch import nn

import torch_kit as kit
from torch_kit import joined, muster, train


# ---- what is computed ----

def reference(net, data, order, optimizer, slices, batch):
    """The same by hand: the mean over slices of each slice's mean gradient."""
    x, y = data.tensors
    for at in range(0, len(order), batch):
        total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in net.named_parameters()}
        for piece in torch.tensor(order[at:at + batch]).chunk(slices):
            net.zero_grad()
            nn.functional.mse_loss(net(x[piece]), y[piece]).backward()
            for name, p in net.named_parameters():
                total[name] += p.grad.double() / slices
        for name, p in net.named_parameters():
            p.grad = total[name].float()
        optimizer.step()


def test_the_gradient_is_the_mean_over_the_samples_of_the_step():
    data = kit.dataset(64)
    net, other = kit.model(), kit.model()
    order = []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    with joined(net, optimizer) as run:
        for epoch in run.epochs(1):
            for step in epoch.steps(kit.TensorDataset(*data.tensors, torch.arange(64)), 16, slices=4, seed=3):
                for x, y, number in step:
                    order += number.tolist()
                    step.backward(nn.functional.mse_loss(net(x), y))
                optimizer.step()
    assert sorted(order) == list(range(64)) and order != list(range(64))
    reference(other, data, order, torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9), 4, 16)
    for mine, theirs in zip(net.parameters(), other.parameters()):
        assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-6)


def test_clipping_changes_what_the_optimizer_sees_and_nothing_else():
    norms = []

    def clip(_run, _step):
        nn.utils.clip_grad_norm_(net.parameters(), 1e-3)
        norms.append(float(torch.cat([p.grad.flatten() for p in net.parameters()]).norm()))
    net = kit.model()
    train(net, each=clip)
    assert norms and all(abs(norm - 1e-3) < 1e-6 for norm in norms), norms


def test_loss_and_metrics_are_means_over_the_step():
    data = kit.TensorDataset(torch.arange(64.0)[:, None], torch.zeros(64, 1))
    net = nn.Linear(1, 1, bias=False)
    nn.init.ones_(net.weight)
    seen = []
    with joined(net, metrics=('loss', 'top')) as run:
        for epoch in run.epochs(1):
            for step in epoch.steps(data, global_batch=64, slices=8):
                for x, y in step:
                    run.log(top=x.max())
                    seen.append(float(x.max()))
                    step.backward((net(x) - y).mean())
                assert step.loss == pytest.approx(31.5)
                assert step.metrics['top'] == pytest.approx(sum(seen) / 8)
                run.log(learning_rate=0.5)
    assert step.number == 1 and not step.skipped


def test_epochs_end_by_arithmetic_and_the_last_step_of_one_may_be_smaller():
    sizes, numbers = [], []
    net = kit.model()
    with joined(net) as run:
        for epoch in run.epochs(3):
            for step in epoch.steps(kit.dataset(40), global_batch=16, slices=4):
                sizes.append(0)
                for x, y in step:
                    sizes[-1] += len(x)
                    step.backward(nn.functional.mse_loss(net(x), y))
            numbers.append((epoch.number, step.number))
        assert run.done and not run.left and run.rank == 0
        assert not list(run.epochs(3))
    assert sizes == [16, 16, 8] * 3
    assert numbers == [(0, 3), (1, 6), (2, 9)]


def test_the_number_of_the_first_epoch_is_not_known_before_its_first_step():
    with joined(kit.model()) as run:
        for epoch in run.epochs(1):
            with pytest.raises(RuntimeError, match='not known yet'):
                epoch.number
            break


def test_several_models_and_optimizers_and_a_parameter_of_no_model():
    a, b = kit.model(seed=1), kit.model(seed=2)
    scale = nn.Parameter(torch.ones(1))
    one = torch.optim.Adam([*a.parameters(), scale], lr=0.01)
    two = torch.optim.SGD(b.parameters(), lr=0.1)
    before = [p.detach().clone() for p in (*a.parameters(), *b.parameters(), scale)]
    with joined(one, b, two, a) as run:
        for epoch in run.epochs(1):
            for step in epoch.steps(kit.dataset(), global_batch=16, slices=2):
                for x, y in step:
                    step.backward(nn.functional.mse_loss(a(x) * scale + b(x), y))
                one.step()
                two.step()
    assert all(not torch.equal(p, old) for p, old in zip((*a.parameters(), *b.parameters(), scale), before))


def test_tied_parameters_are_one():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1))
    net[1].weight = net[0].weight
    train(net)
    assert net[1].weight is net[0].weight


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16, torch.float64])
def test_parameters_of_other_types_are_trained(dtype):
    if dtype is torch.float16:
        net = nn.Module()
        net.weight = nn.Parameter(torch.ones(4, dtype=dtype))
        found, _ = train(net, loss_fn=lambda x, y: (x.to(dtype) * net.weight).float().mean())
        assert net.weight.grad.dtype is dtype
    else:
        net = kit.model().to(dtype)
        found, _ = train(net, loss_fn=lambda x, y: nn.functional.mse_loss(net(x.to(dtype)).float(), y))
        assert found[-1]['loss'] == found[-1]['loss'] and net[0].weight.grad.dtype is dtype


def test_models_of_mixed_types_have_their_own_parts():
    net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8).to(torch.bfloat16), nn.Linear(8, 1).double())

    def forward(x, y):
        return nn.functional.mse_loss(net[2](net[1](net[0](x).bfloat16()).double()).float(), y)
    train(net, loss_fn=forward)
    assert [p.grad.dtype for p in net.parameters()] == [torch.float32] * 2 + [torch.bfloat16] * 2 + [torch.float64] * 2


def test_a_large_model_has_several_parts_and_the_same_bits_without_overlap():
    def big():
        torch.manual_seed(0)
        return nn.Sequential(*[nn.Linear(600, 600) for _ in range(6)])
    nets = []
    for overlap in (True, False):
        net = big()
        with joined(net, overlap=overlap) as run:
            assert 3 <= len(run.loop.grads.parts) <= 14
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for epoch in run.epochs(1):
                for step in epoch.steps(kit.dataset(32, 600), global_batch=16, slices=4):
                    for x, _ in step:
                        step.backward(net(x).square().mean())
                    optimizer.step()
        nets.append(net)
    assert kit.same_bits(*nets)


# ---- randomness ----

class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        return torch.tensor([i + float(torch.rand(())), random.random(), numpy.random.rand()])


def noises(seed=1, disturb=False):
    net = nn.Linear(3, 1)
    found = []
    with joined(net) as run:
        for epoch in run.epochs(2):
            for step in epoch.steps(Noisy(), global_batch=8, slices=2, seed=seed):
                found.append(torch.rand(2))
                for x in step:
                    found += [x, torch.rand(2), random.random(), numpy.random.rand()]
                    step.backward(net(x).mean())
                    if disturb:
                        torch.rand(7)
                        random.random()
                found += [torch.rand(2), random.random()]
    return [one.tolist() if isinstance(one, torch.Tensor) else one for one in found]


def test_randomness_is_a_function_of_the_place_in_the_run():
    found = noises()
    torch.manual_seed(77)
    random.seed(5)
    assert noises() == found
    assert noises(disturb=True) == found
    assert noises(seed=2) != found


def test_the_randomness_of_a_sample_differs_between_epochs_and_positions():
    samples = [tuple(round(value % 1, 6) for value in row) for one in noises() if isinstance(one, list) and
               isinstance(one[0], list) for row in one]
    assert len(samples) == 64 and len(set(samples)) == 64


# ---- buffers ----

def test_batchnorm_is_averaged_over_slices_that_all_start_from_what_is_committed():
    data = kit.dataset(64)
    net = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))
    starts, ends = [], []
    with joined(net) as run:
        for epoch in run.epochs(1):
            for step in epoch.steps(data, global_batch=32, slices=4):
                committed = net[0].running_mean.clone()
                for x, y in step:
                    starts.append(torch.equal(net[0].running_mean, committed))
                    loss = nn.functional.mse_loss(net(x), y)
                    ends.append((net[0].running_mean.clone(), net[0].running_var.clone()))
                    step.backward(loss)
                    assert torch.equal(net[0].running_mean, committed)
                mean = torch.stack([one for one, _ in ends[-4:]]).mean(0)
                var = torch.stack([one for _, one in ends[-4:]]).mean(0)
                assert torch.allclose(net[0].running_mean, mean, atol=1e-7)
                assert torch.allclose(net[0].running_var, var, atol=1e-6)
                assert int(net[0].num_batches_tracked) == step.number
    assert all(starts) and len(starts) == 8


class Odd(nn.Module):
    """Buffers of all sorts."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 1)
        self.register_buffer('still', torch.tensor([0.1, 1 / 3, 1e-20]))
        self.register_buffer('short', torch.ones(3, dtype=torch.bfloat16))
        self.register_buffer('long', torch.zeros(2, dtype=torch.float64), persistent=False)
        self.register_buffer('times', torch.zeros(2, dtype=torch.int32))
        self.register_buffer('down', torch.full((1,), 200, dtype=torch.uint8))
        self.register_buffer('seen', torch.zeros(3, dtype=torch.bool))
        self.mark = False

    def forward(self, x):
        self.short += 1
        self.long += 0.125
        self.times += torch.tensor([1, 3], dtype=torch.int32)
        self.down -= 2
        if self.mark:
            self.seen[1] = True
        return self.line(x)


def test_buffers_of_other_types_and_those_that_nobody_changes():
    net = Odd()
    still = net.still.clone()
    train(net, data=kit.dataset(48), global_batch=12, slices=4)  # 3 samples a slice: a mean would round.
    assert torch.equal(net.still, still)
    assert net.short.tolist() == [5.0] * 3
    assert net.long.tolist() == [0.5] * 2
    assert net.times.tolist() == [4, 12] and net.down.tolist() == [192]


def test_a_buffer_of_bools_that_changes_in_a_slice_is_an_error():
    net = Odd()
    net.mark = True
    with pytest.raises(RuntimeError, match='buffer seen of type torch.bool changed'):
        train(net)


# ---- gradients that are not finite ----

def poisoned():
    data = kit.dataset(64)
    data.tensors[0][5] = float('nan')
    return data


def batchnorm_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


def test_a_step_that_is_not_finite_is_skipped_everywhere_and_counted():
    net = batchnorm_model()
    states = []

    def look(run, step):
        states.append((step.skipped, {name: value.clone() for name, value in net.state_dict().items()},
                       [p.grad is None for p in net.parameters()]))
    _, run = train(net, data=poisoned(), epochs=2, nonfinite='skip', each=look,
                   optimizer=torch.optim.Adam(net.parameters()))
    skipped = [i for i, state in enumerate(states) if state[0]]
    assert len(skipped) == 2 and run.skipped == 2
    for i in skipped:
        assert all(states[i][2])
        if i + 1 < len(states):  # Nothing has moved, BatchNorm neither.
            before = states[i][1]
            assert all(torch.isfinite(value).all() for value in before.values())
    assert all(torch.isfinite(p).all() for p in net.parameters())


def test_a_step_that_is_not_finite_stops_the_run_if_that_is_wanted():
    net = batchnorm_model()
    with pytest.raises(FloatingPointError, match='not finite'):
        train(net, data=poisoned(), nonfinite='stop')


def test_by_default_nobody_looks():
    net = batchnorm_model()
    train(net, data=poisoned())
    assert any(torch.isnan(p).any() for p in net.parameters())


# ---- bad use ----

def test_a_batch_that_is_not_a_multiple_of_the_slices_is_refused():
    with pytest.raises(ValueError, match='global_batch=20 is not a multiple of slices=8'):
        train(kit.model(), global_batch=20, slices=8)


@pytest.mark.parametrize('wrong', [{'slices': 3}, {'slices': 0}, {'slices': 2048, 'global_batch': 2048},
                                   {'global_batch': 0}, {'seed': -1}])
def test_numbers_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError):
        train(kit.model(), **{'global_batch': 16, 'slices': 4, **wrong})


def test_state_after_the_first_step_is_refused():
    net = kit.model()
    with joined(net) as run:
        for epoch in run.epochs(1):
            for step in epoch.steps(kit.dataset(), 16):
                with pytest.raises(RuntimeError, match="state 'late' was added after the first step"):
                    run.keep('late', bytearray(4))
                for x, y in step:
                    step.backward(nn.functional.mse_loss(net(x), y))


def test_a_parameter_without_a_gradient_is_named_with_the_option():
    net = nn.ModuleDict({'used': nn.Linear(4, 1), 'idle': nn.Linear(4, 1)})

    def loss_fn(x, y):
        return nn.functional.mse_loss(net['used'](x), y)
    with pytest.raises(RuntimeError, match=r'idle\.weight, idle\.bias.*unused="zero"'):
        train(net, loss_fn=loss_fn)
    train(net, loss_fn=loss_fn, unused='zero')
    assert torch.equal(net['idle'].weight.grad, torch.zeros(1, 4))


def test_parameters_that_moved_are_noticed():
    net = kit.model()

    def move(_run, _step):
        net[0].weight.data = net[0].weight.data.clone()
    with pytest.raises(RuntimeError, match='0.weight lies elsewhere in memory'):
        train(net, each=move)


def test_freezing_after_join_is_noticed():
    net = kit.model()
    with pytest.raises(RuntimeError, match='0.weight does not need a gradient any more'):
        train(net, each=lambda *_: net[0].weight.requires_grad_(False))


def test_frozen_parameters_stay():
    net = kit.model()
    net[0].weight.requires_grad_(False)
    before = net[0].weight.clone()
    train(net)
    assert torch.equal(net[0].weight, before)


def test_sparse_gradients_are_refused():
    net = nn.Embedding(64, 4, sparse=True)
    data = kit.TensorDataset(torch.arange(64), torch.zeros(64))
    with pytest.raises(RuntimeError, match='gradient of weight is torch.sparse_coo'):
        train(net, data=data, loss_fn=lambda x, y: net(x).sum())


def one_slice(body, **settings):
    net = kit.model()
    with joined(net, **settings) as run:
        for epoch in run.epochs(2):
            for step in epoch.steps(kit.dataset(), 16, slices=4):
                for x, y in step:
                    body(run, step, nn.functional.mse_loss(net(x), y))


def test_a_slice_without_backward_is_an_error():
    with pytest.raises(RuntimeError, match=r'step.backward\(\) was not called'):
        one_slice(lambda run, step, loss: None)


def test_backward_twice_in_one_slice_is_an_error():
    def twice(_run, step, loss):
        step.backward(loss, retain_graph=True)
        step.backward(loss)
    with pytest.raises(RuntimeError, match='called twice'):
        one_slice(twice)


def test_a_metric_that_was_not_declared_is_an_error_in_a_slice():
    with pytest.raises(ValueError, match="'accuracy' is logged in a slice, but is not one of the metrics"):
        one_slice(lambda run, step, loss: run.log(accuracy=1))


def test_a_metric_that_was_declared_and_not_logged_is_an_error():
    with pytest.raises(RuntimeError, match="'accuracy' is one of the metrics of this run, but was not logged"):
        one_slice(lambda run, step, loss: step.backward(loss), metrics=('loss', 'accuracy'))


def test_a_metric_that_is_logged_after_backward_is_an_error():
    def late(run, step, loss):
        run.log(accuracy=1)
        step.backward(loss)
        run.log(accuracy=1)
    with pytest.raises(RuntimeError, match=r"'accuracy' is one of the metrics of each slice.*before step.backward"):
        one_slice(late, metrics=('loss', 'accuracy'))


def test_the_loss_of_a_step_may_be_logged_after_it_and_no_other_number_by_its_name():
    kit.train(kit.model(), each=lambda run, step: run.log(loss=step.loss, twice=2 * step.loss))
    with pytest.raises(RuntimeError, match="'loss' is one of the metrics of each slice.*another name"):
        kit.train(kit.model(), each=lambda run, step: run.log(loss=step.loss + 1))


def test_breaking_out_of_slices_is_an_error():
    net = kit.model()
    with pytest.raises(RuntimeError, match='was not finished'), joined(net) as run:
        for epoch in run.epochs(2):
            for step in epoch.steps(kit.dataset(), 16):
                for x, y in step:
                    step.backward(nn.functional.mse_loss(net(x), y))
                    break


def test_breaking_out_of_steps_and_going_on_is_an_error():
    net = kit.model()
    with pytest.raises(RuntimeError, match=r'loop over epoch.steps\(\) was not finished'), joined(net) as run:
        for epoch in run.epochs(2):
            for step in epoch.steps(kit.dataset(), 16):
                for x, y in step:
                    step.backward(nn.functional.mse_loss(net(x), y))
                break


def test_other_arguments_in_a_later_epoch_are_an_error():
    net = kit.model()
    with pytest.raises(ValueError, match='must be the same in every epoch'), joined(net) as run:
        for epoch in run.epochs(2):
            for step in epoch.steps(kit.dataset(), 16, seed=epoch.number if epoch._number else 0):
                for x, y in step:
                    step.backward(nn.functional.mse_loss(net(x), y))


@pytest.mark.parametrize('things,text', [
    ((), 'nothing to train'),
    ((3,), 'takes models, optimizers, schedulers'),
    ((nn.Linear(2, 2), 'adam'), 'takes models, optimizers, schedulers'),
    ((nn.LazyLinear(2),), 'has no shape yet'),
    ((nn.Linear(2, 2, device='meta'),), r'is on meta.*process_group\(run, backend="nccl"\)'),
])
def test_what_join_does_not_take_is_a_type_error(things, text):
    with pytest.raises(TypeError, match=text):
        muster.torch.join(*things)


def test_join_refuses_the_same_thing_twice_and_wrong_options():
    net = kit.model()
    with pytest.raises(TypeError, match='twice'):
        muster.torch.join(net, net)
    with pytest.raises(ValueError, match="nonfinite='maybe'"):
        muster.torch.join(net, nonfinite='maybe')
    with pytest.raises(ValueError, match="unused='ignore'"):
        muster.torch.join(net, unused='ignore')


def test_a_scheduler_whose_optimizer_is_not_given_is_refused():
    net = kit.model()
    scheduler = torch.optim.lr_scheduler.StepLR(torch.optim.SGD(net.parameters(), lr=0.1), 1)
    with pytest.raises(TypeError, match='StepLR changes an optimizer'):
        muster.torch.join(net, scheduler)


def test_a_tensor_with_holes_is_refused():
    net = nn.Linear(4, 4)
    net.weight = nn.Parameter(torch.zeros(8, 4)[::2])
    with pytest.raises(TypeError, match='weight does not fill its memory'):
        muster.torch.join(net)


def test_channels_last_is_trained():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(4, 8, 3), nn.Flatten(), nn.Linear(72, 1)).to(memory_format=torch.channels_last)
    data = kit.TensorDataset(torch.randn(32, 4, 5, 5), torch.zeros(32, 1))
    found, _ = train(net, data=data, epochs=5)
    assert found[-1]['loss'] < found[0]['loss']


def test_a_run_that_has_ended_before_the_first_step_gives_one_that_does_no_harm(tmp_path):
    """Its script may ask for the last step's loss; whatever it changes is undone."""
    def go():
        net = kit.model()
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        with joined(net, optimizer, scheduler, checkpoint_dir=tmp_path, checkpoint_every=1) as run:
            for epoch in run.epochs(2):
                for step in epoch.steps(kit.dataset(), global_batch=16, slices=4):
                    for x, y in step:
                        step.backward(nn.functional.mse_loss(net(x), y))
                    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                    optimizer.step()
                    run.state['n'] = run.state.get('n', 0) + 1
                    net[0].weight.data.mul_(0.99)
                scheduler.step()
                losses.append(step.loss)
            assert run.done
        return net, optimizer.param_groups[0]['lr'], dict(run.state), epoch.number
    losses = []
    first = go()
    assert first[2] == {'n': 8} and len(losses) == 2
    second = go()
    assert kit.same_bits(first[0], second[0]) and first[1:] == second[1:]
    assert len(losses) == 3 and losses[2] != losses[2]
