"""Packaging: a wheel by pip without a network, and what `make install` puts in place."""
import glob
import os
import re
import subprocess
import zipfile

import cluster
import pytest

SCRIPT = '''
import array
import muster
run = muster.join()
print(muster.__version__, run.allreduce(array.array('i', [3]))[0], muster.__file__)
'''


def run(words, env, code=0, timeout=1200):
    done = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=timeout)
    assert done.returncode == code, f'{words}: {done.returncode}\n{done.stdout[-4000:]}'
    return done.stdout


@pytest.fixture
def clean(world):
    """An environment in which nothing of the build is found, and pip has no network."""
    return world.env(PIP_NO_INDEX='1', PIP_DISABLE_PIP_VERSION_CHECK='1', PYTHONDONTWRITEBYTECODE='1')


@pytest.mark.plain
def test_a_wheel_is_built_and_installed_without_a_network(world, clean):
    """The C parts are those of this build; with MUSTER_TEST_FULL they are built anew, as a user's are."""
    before = set(os.listdir(os.path.join(cluster.ROOT, 'python')))
    env = clean if cluster.FULL else {**clean, 'MUSTER_BUILD': cluster.BUILD}
    run([cluster.PYTHON, '-m', 'pip', 'wheel', os.path.join(cluster.ROOT, 'python'), '--no-build-isolation', '--no-deps',
         '-w', world.dir], env)
    wheel, = glob.glob(os.path.join(world.dir, '*.whl'))
    assert re.fullmatch(r'muster-0\.1\.0-cp311-abi3-linux_\w+\.whl', os.path.basename(wheel)), wheel
    assert set(os.listdir(os.path.join(cluster.ROOT, 'python'))) == before  # The tree stays as it was.
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    want = {'muster/_muster.abi3.so', 'muster/_muster.pyi', 'muster/py.typed', 'muster/bin/muster',
            'muster/bin/muster-bench'}
    for path in glob.glob(os.path.join(cluster.ROOT, 'python', 'muster', '**', '*.py'), recursive=True):
        want.add(os.path.relpath(path, os.path.join(cluster.ROOT, 'python')))
    assert want <= names, want - names

    venv = os.path.join(world.dir, 'venv')
    python = os.path.join(venv, 'bin', 'python')
    run([cluster.PYTHON, '-m', 'venv', '--without-pip', '--system-site-packages', venv], clean)
    run([python, '-m', 'pip', 'install', '--no-deps', wheel], clean)
    version, three, path = run([python, '-c', SCRIPT], {**clean, 'MUSTER_LOG': 'error'}).split()
    assert (version, three) == ('0.1.0', '3') and path.startswith(venv)
    assert run([python, '-m', 'muster', 'version'], clean) == 'muster 0.1.0\n'
    assert run([os.path.join(venv, 'bin', 'muster'), 'version'], clean) == 'muster 0.1.0\n'
    # A job of two by what the wheel has.
    script = os.path.join(world.dir, 'two.py')
    with open(script, 'w', encoding='utf-8') as file:
        file.write(SCRIPT)
    out = run([python, '-m', 'muster', 'run', '--standalone', '--nproc-per-node', '2', script],
              {**clean, 'PYTHON_EXEC': python})
    assert out.count('0.1.0 6 ') == 2, out


@pytest.mark.plain
def test_an_installation_has_everything_in_place(world, clean):
    target = os.path.join(world.dir, 'target')
    run(['meson', 'install', '-C', cluster.BUILD, '--no-rebuild', '--destdir', target], clean)
    found = {os.path.relpath(os.path.join(folder, name), target)
             for folder, _, names in os.walk(target) for name in names}

    def one(pattern):
        match = [name for name in found if re.search(pattern, name)]
        assert len(match) == 1, (pattern, match)
        return os.path.join(target, match[0])

    assert run([one(r'/bin/muster$'), 'version'], clean) == 'muster 0.1.0\n'
    assert run([one(r'/bin/muster$'), 'bench', '--help'], clean).startswith('usage: muster bench ')
    one(r'/include/muster\.h$')
    one(r'/muster\.pc$')
    one(r'/libmuster\.a$')
    one(r'/libmuster\.so\.0\.1\.0$')
    one(r'/man3/libmuster\.3(\.gz)?$')
    package = os.path.dirname(one(r'/muster/_muster\.abi3\.so$'))
    for path in glob.glob(os.path.join(cluster.ROOT, 'python', 'muster', '**', '*.py'), recursive=True):
        relative = os.path.relpath(path, os.path.join(cluster.ROOT, 'python', 'muster'))
        assert os.path.exists(os.path.join(package, relative)), f'{relative} is not installed: see meson.build'
    version, three, path = run([cluster.PYTHON, '-c', SCRIPT], {**clean, 'MUSTER_LOG': 'error',
                                                               'PYTHONPATH': os.path.dirname(package)}).split()
    assert (version, three) == ('0.1.0', '3') and path.startswith(package)


def test_the_extension_is_one_file_for_every_later_python():
    """The library is inside, and nothing but its entry is to be seen."""
    path = os.path.join(cluster.PACKAGE, 'muster', '_muster.abi3.so')
    names = subprocess.run(['nm', '-D', path], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert re.findall(r' T (\w+)', names) == ['PyInit__muster']
    needs = subprocess.run(['readelf', '-d', path], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert 'libmuster' not in needs and 'libpython' not in needs
