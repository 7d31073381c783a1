"""What is kept of optimizers, schedulers and run.state: as bytes of our own, and back without a change."""
import collections
import copy

import numpy
import pytest
import torch
from torch import nn

import torch_kit as kit
from muster import _codec
from muster._state import State
from muster.torch import _things
from muster.torch._tensors import KINDS


def again(value, **options):
    return _codec.decode(_codec.encode(value, KINDS, **options), KINDS)


# ---- values ----

VALUES = [None, True, False, 0, -1, 255, -256, 2 ** 200, -2 ** 63, 0.0, -0.0, 1.5, float('inf'), 1e-320, 1 + 2j, '', 'é\udcff',
          b'\0x', bytearray(b'y'), [], [1, [2]], (), (1, (2,)), set(), {1, 'a', (2, 3)}, frozenset({b'x'}), {}, {'b': 1, 'a': 2},
          {1: 'x', (1, 2): None}, collections.OrderedDict(b=1, a=2), collections.Counter('abca')]


@pytest.mark.parametrize('value', VALUES, ids=repr)
def test_plain_values_come_back_with_their_type(value):
    found = again(value)
    assert found == value and type(found) is type(value)
    assert repr(found) == repr(value) or isinstance(value, (set, frozenset))


@pytest.mark.parametrize('value', [torch.tensor(3.5), torch.arange(6).view(2, 3).t(), torch.zeros(0, 3), torch.ones(2, dtype=torch.bool),
                                   torch.rand(3).bfloat16(), torch.rand(2).half(), torch.rand(2, dtype=torch.complex64),
                                   torch.tensor([float('nan'), -0.0])], ids=lambda value: str(value.dtype))
def test_tensors_come_back_to_the_last_bit(value):
    found = again({'x': [value]})['x'][0]
    assert found.dtype is value.dtype and found.shape == value.shape
    assert found.contiguous().numpy().tobytes() == value.contiguous().numpy().tobytes() if value.dtype is not torch.bfloat16 \
        else torch.equal(found, value)


def test_numpy_and_torchs_own_types_come_back():
    value = [numpy.float64(0.1), numpy.int32(-3), numpy.arange(4.0).reshape(2, 2), torch.float16, torch.Size([2, 3])]
    found = again(value)
    assert [type(one) for one in found] == [type(one) for one in value]
    assert found[0] == value[0] and found[1] == value[1] and (found[2] == value[2]).all() and found[3:] == value[3:]


def test_the_order_of_a_set_makes_no_difference_and_that_of_a_dict_does():
    words = [str(i) for i in range(100)]
    assert _codec.encode(set(words)) == _codec.encode(set(reversed(words)))
    assert _codec.encode({'a': 1, 'b': 2}) != _codec.encode({'b': 2, 'a': 1})


@pytest.mark.parametrize('value,path', [({'a': [1, object()]}, r"\['a'\]\[1\] is a builtins.object"),
                                        ({'f': len}, r"\['f'\] is a builtins.builtin_function"),
                                        ({object(): 1}, 'a key of the value itself')])
def test_what_cannot_be_kept_is_named_by_its_place(value, path):
    with pytest.raises(TypeError, match=path):
        _codec.encode(value)


def test_what_contains_itself_is_refused():
    value = []
    value.append(value)
    with pytest.raises(TypeError, match='contains itself'):
        _codec.encode(value)


def test_damaged_bytes_are_an_error_and_nothing_else():
    data = _codec.encode({'a': [1, 2.5, 'x', torch.ones(3), {1, 2}], 'b': collections.Counter('ab')}, KINDS)
    for at in range(len(data)):
        with pytest.raises(ValueError):
            _codec.decode(data[:at], KINDS)
        for bit in (1, 0x40, 0x80):
            changed = bytearray(data)
            changed[at] ^= bit
            try:
                _codec.decode(changed, KINDS)
            except ValueError:
                pass  # Else it is another value: what comes from elsewhere has a hash, too.


# ---- run.state ----

def test_run_state_is_a_mapping_of_plain_values():
    state = State()
    state['best'] = 0.5
    state['seen'] = {'a': [1, 2]}
    other = State()
    other['gone'] = 1
    other.load(memoryview(state.save()))
    assert dict(other) == {'best': 0.5, 'seen': {'a': [1, 2]}}
    other['seen']['a'].append(3)
    assert other.save() != state.save()
    del other['best']
    assert list(other) == ['seen'] and len(other) == 1
    with pytest.raises(TypeError, match=r"run.state\['net'\] is a torch"):
        state['net'] = torch.ones(1)
    with pytest.raises(TypeError, match='names in run.state are strings'):
        state[3] = 1


# ---- optimizers ----

OPTIMIZERS = {
    'sgd': lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
    'adam': lambda params: torch.optim.Adam(params, lr=0.01, amsgrad=True),
    'adamw': lambda params: torch.optim.AdamW(params, lr=0.01),
    'adagrad': lambda params: torch.optim.Adagrad(params, lr=0.01),
    'rmsprop': lambda params: torch.optim.RMSprop(params, lr=0.01, momentum=0.5, centered=True),
    'adadelta': lambda params: torch.optim.Adadelta(params),
    'adamax': lambda params: torch.optim.Adamax(params),
    'nadam': lambda params: torch.optim.NAdam(params),
    'radam': lambda params: torch.optim.RAdam(params),
    'rprop': lambda params: torch.optim.Rprop(params),
    'asgd': lambda params: torch.optim.ASGD(params),
}


def steps(net, optimizer, n, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n):
        for p in net.parameters():
            p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)
        optimizer.step()


def groups_of(net):
    params = list(net.parameters())
    return [{'params': params[:1], 'weight_decay': 0.01}, {'params': params[1:]}]


@pytest.mark.parametrize('name', OPTIMIZERS)
@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16], ids=str)
def test_an_optimizer_goes_on_with_the_same_bits(name, dtype):
    one, two = kit.model().to(dtype), kit.model().to(dtype)
    first, second = OPTIMIZERS[name](groups_of(one)), OPTIMIZERS[name](groups_of(two))
    steps(one, first, 3, 1)
    steps(two, second, 1, 9)  # It has a state already, and another one.
    groups = [id(group) for group in second.param_groups]
    two.load_state_dict(one.state_dict())
    save = _things.optimizer_calls(first)[0]
    _things.optimizer_calls(second)[1](memoryview(save()))
    assert [id(group) for group in second.param_groups] == groups
    assert _things.optimizer_calls(second)[0]() == save()
    steps(one, first, 3, 2)
    steps(two, second, 3, 2)
    assert kit.same_bits(one, two)
    assert _things.optimizer_calls(second)[0]() == save()


def test_nothing_in_an_optimizer_is_cast():
    """load_state_dict() would make the state of a bf16 parameter bf16."""
    p = nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    one, two = torch.optim.SGD([p], lr=0.1), torch.optim.SGD([p], lr=0.1)
    one.state[p]['master'] = torch.rand(2, dtype=torch.float64)
    one.state['notes'] = {'n': 3}
    _things.optimizer_calls(two)[1](memoryview(_things.optimizer_calls(one)[0]()))
    assert torch.equal(two.state[p]['master'], one.state[p]['master']) and two.state['notes'] == {'n': 3}


def test_an_optimizer_with_other_groups_is_refused():
    net = kit.model()
    one, two = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(groups_of(net), lr=0.1)
    with pytest.raises(RuntimeError, match=r'groups of \[4\] parameters, this worker of \[1, 3\]'):
        _things.optimizer_calls(two)[1](memoryview(_things.optimizer_calls(one)[0]()))


# ---- schedulers ----

def lr(optimizer):
    return [group['lr'] for group in optimizer.param_groups]


S = torch.optim.lr_scheduler
SCHEDULERS = {
    'step': lambda o: S.StepLR(o, 2),
    'lambda': lambda o: S.LambdaLR(o, lambda epoch: 0.9 ** epoch),
    'multistep': lambda o: S.MultiStepLR(o, [2, 5]),
    'cosine': lambda o: S.CosineAnnealingLR(o, 10),
    'restarts': lambda o: S.CosineAnnealingWarmRestarts(o, 3),
    'onecycle': lambda o: S.OneCycleLR(o, 0.5, total_steps=40),
    'cyclic': lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=3),
    'chained': lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.5, 2), S.ExponentialLR(o, 0.9)]),
    'sequential': lambda o: S.SequentialLR(o, [S.LinearLR(o, 0.1, 1, 3), S.ExponentialLR(o, 0.9)], [3]),
}


@pytest.mark.parametrize('name', SCHEDULERS)
def test_a_scheduler_goes_on_where_the_other_stands(name):
    found = []
    for _ in range(2):
        optimizer = torch.optim.SGD(kit.model().parameters(), lr=0.1, momentum=0.9)
        found.append((optimizer, SCHEDULERS[name](optimizer)))
    (one, first), (two, second) = found
    for _ in range(4):
        one.step()
        first.step()
    two.step()
    second.step()
    _things.optimizer_calls(two)[1](memoryview(_things.optimizer_calls(one)[0]()))
    _things.other_calls(second)[1](memoryview(_things.other_calls(first)[0]()))
    assert lr(one) == lr(two)
    for _ in range(8):
        for optimizer, scheduler in found:
            optimizer.step()
            scheduler.step()
        assert lr(one) == lr(two)


def test_a_plateau_scheduler_goes_on():
    found = []
    for _ in range(2):
        optimizer = torch.optim.SGD(kit.model().parameters(), lr=0.1)
        found.append((optimizer, S.ReduceLROnPlateau(optimizer, patience=1)))
    (one, first), (two, second) = found
    for loss in (1.0, 0.5, 0.6, 0.7):
        first.step(loss)
    _things.optimizer_calls(two)[1](memoryview(_things.optimizer_calls(one)[0]()))
    _things.other_calls(second)[1](memoryview(_things.other_calls(first)[0]()))
    for loss in (0.8, 0.9):
        first.step(loss)
        second.step(loss)
    assert lr(one) == lr(two) and first.num_bad_epochs == second.num_bad_epochs and lr(one)[0] < 0.1


def test_what_a_scheduler_has_that_is_unknown_is_named():
    class Strange:
        def state_dict(self):
            return {'x': [object()]}

        def load_state_dict(self, state):
            pass
    with pytest.raises(TypeError, match=r"Strange 0: state_dict\(\)\['x'\]\[0\] is a builtins.object"):
        _things.other_calls(Strange())[0]()


# ---- names and facts ----

def test_long_and_odd_names_are_shortened_and_stay_apart():
    names = ['a' * 63, 'a' * 64, 'a' * 65, 'with blank', 'with_blank', 'é', 'layer.' * 20 + 'weight', 'layer.' * 20 + 'bias']
    found = [_things.short(name) for name in names]
    assert found[0] == names[0] and len(set(found)) == len(names)
    assert all(len(name.encode()) <= 63 and ' ' not in name for name in found)


def test_facts_name_each_tensor_or_count_them_if_there_are_very_many():
    facts = dict(_things.Things([nn.BatchNorm1d(3), torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=1)]).facts())
    assert facts['shape:weight'] == 'f32 [3]' and facts['shape:num_batches_tracked'] == 'int64 []'
    assert facts['optimizer0'] == 'SGD'
    many = nn.ModuleList(nn.Linear(2, 2) for _ in range(600))
    facts = _things.Things([many]).facts()
    assert len(facts) == 1 and facts[0][1].startswith('1200 tensors, sha256 ')
    other = copy.deepcopy(many)
    other[7].weight = nn.Parameter(torch.zeros(2, 3))
    assert _things.Things([other]).facts() != facts


# ---- parts of the gradient ----

@pytest.mark.parametrize('seed', range(20))
def test_any_model_has_at_most_14_parts_and_each_parameter_its_own_place(seed):
    import random

    from muster.torch import _gradient
    draw = random.Random(seed)
    types = draw.sample(list(_gradient.CORE_TYPES), draw.randint(1, 4))
    params = [(str(i), torch.empty(draw.choice([0, 1, 7, 1000, 100000, 3000000]), dtype=draw.choice(types), device='meta'))
              for i in range(draw.randint(1, 60))]
    parts, places = _gradient.plan(params)
    assert 1 <= len(parts) <= 14 and sum(part.count for part in parts) == sum(p.numel() for _, p in params)
    taken = {}
    for (_, p), (part, at) in zip(params, places):
        assert parts[part].dtype is p.dtype and at + p.numel() <= parts[part].count
        taken.setdefault(part, []).append((at, at + p.numel()))
    for spans in taken.values():
        spans.sort()
        assert all(one[1] <= two[0] for one, two in zip(spans, spans[1:]))
    order = [part for part, _ in places]
    for dtype in types:  # The last ones first: that is how backward() goes.
        mine = [part for part, (_, p) in zip(order, params) if p.dtype is dtype]
        assert mine == sorted(mine, reverse=True)
