"""What join() was given, as parts of the state of a run.

Parameters and buffers stay where they are, and are the state there (no copy). Optimizers, schedulers and the
like become bytes when they are needed. Everything else that must be the same is a fact: it is compared when a
worker comes, and one that differs is told how."""
import hashlib

import torch
from torch import nn

from .. import _codec
from ._tensors import KINDS

NAME_MAX = 63
FACTS_BYTES_MAX = 20000

TYPES = {torch.float32: 'f32', torch.float64: 'f64', torch.bfloat16: 'bf16', torch.float16: 'f16'}
GPU = ('muster.torch trains tensors in main memory; for GPUs use '
       'muster.torch.process_group(run, backend="nccl")')


def short(name):
    """A name as muster has them: up to 63 bytes, no blanks."""
    plain = ''.join(c if '!' <= c <= '~' else '_' for c in name)
    if plain == name and len(name) <= NAME_MAX:
        return name
    mark = hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]
    return f'{plain[:NAME_MAX - 17]}~{mark}'


def type_name(dtype):
    return TYPES.get(dtype, str(dtype).replace('torch.', ''))


def is_dense(tensor):
    """Does it fill its memory, whatever the order of its dimensions?"""
    expect = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size == 1:
            continue
        if stride != expect:
            return False
        expect *= size
    return True


def check_tensor(name, tensor):
    if isinstance(tensor, nn.parameter.UninitializedTensorMixin):
        raise TypeError(f'{name} has no shape yet: give the model one batch before muster.torch.join()')
    if tensor.device.type != 'cpu':
        raise TypeError(f'{name} is on {tensor.device}: {GPU}')
    if tensor.layout is not torch.strided:
        raise TypeError(f'{name} is {tensor.layout}: only dense parameters and buffers can be trained')
    if not is_dense(tensor):
        raise TypeError(f'{name} does not fill its memory (shape {list(tensor.shape)}, strides '
                        f'{list(tensor.stride())}): make it contiguous before muster.torch.join()')


class Things:
    """Models, optimizers and others, sorted; their tensors by name."""

    def __init__(self, things):
        self.models, self.optimizers, self.others = [], [], []
        self.values = None  # A dict of plain values.
        for thing in things:
            self._sort(thing)
        for other in self.others:
            own = getattr(other, 'optimizer', None)
            if isinstance(own, torch.optim.Optimizer) and not any(own is one for one in self.optimizers):
                raise TypeError(f'{type(other).__name__} changes an optimizer ({type(own).__name__}) that was not given '
                                'to muster.torch.join(): give it, too')
        self.params = []   # (name, parameter), each once, in the order of registration
        self.buffers = []  # (name, buffer)
        self.extras = []   # (name, module) with a state of its own
        seen = set()
        for i, model in enumerate(self.models):
            self._model(model, f'model{i}.' if len(self.models) > 1 else '', seen)
        for i, optimizer in enumerate(self.optimizers):
            self._lone(optimizer, f'optimizer{i}.', seen)
        if not self.params:
            raise TypeError('there is nothing to train: give muster.torch.join() a model with parameters')

    def _sort(self, thing):
        if any(thing is one for one in (*self.models, *self.optimizers, *self.others)):
            raise TypeError(f'{type(thing).__name__} was given to muster.torch.join() twice')
        if type(thing) is dict:
            if self.values is not None:
                raise TypeError('two dicts were given to muster.torch.join(): put all plain values into one')
            _codec.encode(thing, path='the dict given to muster.torch.join()')
            self.values = thing
        elif isinstance(thing, nn.Module):
            self.models.append(thing)
        elif isinstance(thing, torch.optim.Optimizer):
            self.optimizers.append(thing)
        elif callable(getattr(thing, 'state_dict', None)) and callable(getattr(thing, 'load_state_dict', None)):
            self.others.append(thing)
        else:
            raise TypeError('muster.torch.join() takes models, optimizers, schedulers and other objects with '
                            f'state_dict() and load_state_dict(), and a dict of plain values, not {thing!r:.200}')

    def _model(self, model, prefix, seen):
        for name, tensor in model.named_parameters():
            self._add(self.params, prefix + name, tensor, seen)
        for name, tensor in model.named_buffers():
            self._add(self.buffers, prefix + name, tensor, seen)
        for name, module in model.named_modules():
            if type(module).get_extra_state is not nn.Module.get_extra_state and id(module) not in seen:
                seen.add(id(module))
                self.extras.append((f'{prefix}{name}', module))

    def _lone(self, optimizer, prefix, seen):
        """Parameters that are in no model."""
        for i, group in enumerate(optimizer.param_groups):
            for j, tensor in enumerate(group['params']):
                self._add(self.params, f'{prefix}group{i}.param{j}', tensor, seen)

    def _add(self, where, name, tensor, seen):
        if id(tensor) in seen:
            return
        seen.add(id(tensor))
        check_tensor(name, tensor)
        if tensor.requires_grad and tensor.dtype not in TYPES:
            raise TypeError(f'{name} is {tensor.dtype}: gradients are f32, f64, bf16 or f16')
        where.append((name, tensor))

    def tensors(self):
        return [*self.params, *self.buffers]

    # ---- told to the core ----

    def keep(self, loop):
        """All of it is state."""
        placed = set()
        for name, tensor in self.tensors():
            place = (tensor.data_ptr(), tensor.numel() * tensor.element_size())
            if place[1] and place not in placed:
                placed.add(place)
                loop.keep(short(name), place)
        for name, module in self.extras:
            loop.keep_calls(short(f'{name}._extra_state'), *extra_calls(name, module))
        for i, optimizer in enumerate(self.optimizers):
            loop.keep_calls(f'optimizer{i}', *optimizer_calls(optimizer, i))
        for i, other in enumerate(self.others):
            loop.keep_calls(f'scheduler{i}', *other_calls(other, i))

    def facts(self):
        """(name, value), …: the same for all workers of a run."""
        found = [(f'shape:{short(name)}', describe(tensor)) for name, tensor in self.tensors()]
        if sum(len(name) + len(value) + 2 for name, value in found) > FACTS_BYTES_MAX:
            text = '\n'.join(f'{name} {value}' for name, value in found)
            found = [('shapes', f'{len(found)} tensors, sha256 {hashlib.sha256(text.encode()).hexdigest()}')]
        for kind, things in (('optimizer', self.optimizers), ('scheduler', self.others)):
            found += [(f'{kind}{i}', type(thing).__name__) for i, thing in enumerate(things)]
        return found


def describe(tensor):
    text = f'{type_name(tensor.dtype)} {list(tensor.shape)}'
    if not tensor.is_contiguous():
        text += f' strides {list(tensor.stride())}'
    return text if tensor.requires_grad or not isinstance(tensor, nn.Parameter) else f'{text} frozen'


# ---- what becomes bytes ----

def other_calls(thing, i=0):
    """A scheduler, or whatever else has state_dict(). Functions in it stay each worker's own."""
    name = f'{type(thing).__name__} {i}'

    def save():
        return _codec.encode(thing.state_dict(), KINDS, own=True, path=f'{name}: state_dict()')

    def load(data):
        thing.load_state_dict(_codec.with_own(_codec.decode(data, KINDS), thing.state_dict()))

    return save, load


def extra_calls(name, module):
    def save():
        return _codec.encode(module.get_extra_state(), KINDS, path=f'extra state of {name}')

    def load(data):
        module.set_extra_state(_codec.decode(data, KINDS))

    return save, load


def optimizer_calls(optimizer, i=0):
    """Its state by the number of the parameter, and its groups. Not by load_state_dict(), which casts what it
    is given, and makes other groups than those that schedulers hold."""
    title = f'{type(optimizer).__name__} {i}'

    def save():
        numbers = {id(p): n for n, p in enumerate(_params(optimizer))}
        state = {}
        for key, value in optimizer.state.items():
            if isinstance(key, torch.Tensor) and id(key) not in numbers:
                raise TypeError(f'{title} has a state for a tensor that is in none of its groups')
            state[('param', numbers[id(key)]) if isinstance(key, torch.Tensor) else ('key', key)] = value
        groups = [{**group, 'params': [numbers[id(p)] for p in group['params']]}
                  for group in optimizer.param_groups]
        return _codec.encode({'state': state, 'groups': groups}, KINDS, own=True, path=title)

    def load(data):
        mine = optimizer.param_groups
        found = _codec.decode(data, KINDS)
        params = _params(optimizer)
        if [len(group['params']) for group in found['groups']] != [len(group['params']) for group in mine]:
            raise RuntimeError(f'{title}: the others have groups of '
                               f'{[len(group["params"]) for group in found["groups"]]} parameters, this worker of '
                               f'{[len(group["params"]) for group in mine]}')
        for group, kept in zip(mine, found['groups']):
            theirs = _codec.with_own(kept, group)
            theirs['params'] = group['params']
            group.clear()
            group.update(theirs)
        before = dict(optimizer.state)
        optimizer.state.clear()
        for (kind, key), value in found['state'].items():
            key = params[key] if kind == 'param' else key
            optimizer.state[key] = _codec.with_own(value, before.get(key))

    return save, load


def _params(optimizer):
    return [p for group in optimizer.param_groups for p in group['params']]
