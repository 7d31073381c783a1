"""The package itself: what it imports, its stubs, its errors, the command line."""
import ast
import glob
import os
import subprocess

import cluster
import pytest

PACKAGE = os.path.join(cluster.ROOT, 'python', 'muster')


def stub():
    with open(os.path.join(PACKAGE, '_muster.pyi'), encoding='utf-8') as file:
        return ast.parse(file.read())


def stub_names(body):
    found = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
    return found


def names_of(expression, alone):
    """Public names of something in the extension."""
    done = alone(f'from muster import _muster\nprint(*(n for n in dir({expression}) if not n.startswith("_")))\n')
    return set(done.stdout.split())


def test_the_stub_has_the_names_of_the_extension(alone):
    assert stub_names(stub().body) == names_of('_muster', alone)
    for node in stub().body:
        if isinstance(node, ast.ClassDef):
            mine = {name for name in stub_names(node.body) if not name.startswith('_')}
            assert mine == names_of(f'_muster.{node.name}', alone), node.name


def test_the_stub_has_the_arguments_of_the_extension(alone):
    """As the first line of each docstring says."""
    done = alone('''
        from muster import _muster
        for owner in (_muster, _muster.Run, _muster.Started):
            for name in dir(owner):
                one = getattr(owner, name)
                if callable(one) and not name.startswith('_') and not isinstance(one, type):
                    print(one.__doc__.splitlines()[0])
    ''')
    said = {line.partition('(')[0]: line for line in done.stdout.splitlines()}
    for node in ast.walk(stub()):
        if isinstance(node, ast.FunctionDef) and node.name in said and not node.decorator_list:
            args = [arg.arg for arg in node.args.args if arg.arg != 'self']
            for arg in args:
                assert arg in said[node.name] or '...' in said[node.name], (node.name, arg, said[node.name])


def test_every_public_thing_has_a_docstring(alone):
    done = alone('''
        import inspect
        import muster
        for name in muster.__all__:
            one = getattr(muster, name)
            if not one.__doc__:
                print('none:', name)
            if inspect.isclass(one) and issubclass(one, muster.Run):
                for base in one.__mro__[:-1]:
                    for part, value in vars(base).items():
                        if callable(value) and not part.startswith('_') and not value.__doc__:
                            print('none:', name, part)
    ''')
    assert 'none:' not in done.stdout, done.stdout


def test_every_status_has_its_exception(alone):
    done = alone('''
        import pickle
        import muster
        from muster import _muster, errors
        table = {one.name: status for status, one in errors.BY_STATUS.items()}
        assert table == {name: value for name, value in _muster.STATUSES.items() if value}, table
        for status, kind in errors.BY_STATUS.items():
            error = errors.make(status, 'what happened', 3)
            assert (error.status, error.name, str(error), error.lost_rank) == (status, kind.name, 'what happened', 3)
            assert isinstance(error, muster.Error) and type(error) is kind
            copy = pickle.loads(pickle.dumps(error))  # as multiprocessing does
            assert type(copy) is kind and copy.status == status and str(copy) == 'what happened'
        assert issubclass(muster.Timeout, TimeoutError) and issubclass(muster.Invalid, ValueError)
        assert issubclass(muster.NotFound, KeyError) and issubclass(muster.OutOfMemory, MemoryError)
        assert type(errors.make(-99, 'x')) is muster.Error
        print('fine')
    ''')
    assert done.stdout == 'fine\n'


def test_it_imports_without_numpy_and_torch(alone):
    done = alone('''
        import sys
        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.partition('.')[0] in ('numpy', 'torch'):
                    raise AssertionError(f'{name} was imported')
        sys.meta_path.insert(0, Refuse())
        import array
        import muster, muster.tf, muster.config
        run = muster.join()
        x = array.array('f', [1, 2])
        assert run.allreduce(x) == x
        print('fine', 'numpy' in sys.modules, 'torch' in sys.modules)
    ''')
    assert done.stdout == 'fine False False\n'


def test_nothing_imports_pickle():
    """Nor what pickles: whatever comes from another process is never made into code."""
    banned = {'pickle', '_pickle', 'cPickle', 'marshal', 'shelve', 'dill', 'cloudpickle'}
    paths = glob.glob(os.path.join(PACKAGE, '**', '*.py'), recursive=True)
    assert len(paths) >= 10
    for path in paths:
        with open(path, encoding='utf-8') as file:
            text = file.read()
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
                [node.module or ''] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition('.')[0] for name in names} & banned, path
            # torch.save and torch.load pickle; so do the *_object_* calls of torch.distributed.
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ('torch', 'dist'):
                assert node.attr not in ('save', 'load') and '_object' not in node.attr, (path, node.attr)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ('eval', 'exec'), path


@pytest.mark.plain
def test_python_m_muster_is_the_command_line(world):
    env = world.env(**cluster.environment())
    for words, code in ((['version'], 0), (['run', '--help'], 0), (['nonsense'], 2)):
        ours = subprocess.run([cluster.PYTHON, '-m', 'muster', *words], env=env, capture_output=True, text=True,
                              check=False, timeout=60)
        theirs = subprocess.run([os.path.join(cluster.BUILD, 'muster'), *words], env=env, capture_output=True,
                                text=True, check=False, timeout=60)
        assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)
        assert ours.returncode == code


@pytest.mark.parametrize('names', [['MUSTER_SOCKET'], ['MUSTER_SLOT'], ['MUSTER_COOKIE', 'MUSTER_SLOT'],
                                   ['MUSTER_SOCKET', 'MUSTER_COOKIE']], ids=' '.join)
def test_a_half_set_environment_is_told_in_words(alone, names):
    done = alone('''
        import muster
        try:
            muster.join()
        except muster.Invalid as error:
            print(error)
    ''', **{name: '1' for name in names})
    assert 'only `muster run` sets them' in done.stdout
    assert all(name in done.stdout for name in ('MUSTER_SOCKET', 'MUSTER_SLOT', 'MUSTER_COOKIE'))


def test_a_socket_that_nobody_has_is_told_in_words(alone):
    done = alone('''
        import muster
        try:
            muster.join(timeout=2)
        except muster.Error as error:
            print(error.name, error)
    ''', MUSTER_SOCKET='/nowhere/socket', MUSTER_SLOT='0', MUSTER_COOKIE='ab')
    assert 'MU_EPEER' in done.stdout and '/nowhere/socket' in done.stdout


def test_a_second_join_is_refused(alone):
    done = alone('''
        import muster
        run = muster.join()
        assert muster.current() is run
        try:
            muster.join()
        except muster.Busy:
            print('busy')
        run.leave()
        assert muster.current() is None
        again = muster.join()
        print(again.rank, again.size)
    ''')
    assert done.stdout == 'busy\n0 1\n'
