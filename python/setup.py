"""pip install ./python --no-build-isolation: the package with the library and the command inside.

Meson and ninja build the C parts, in a folder that goes afterwards; MUSTER_BUILD names one that is
built already. Nothing is fetched.
"""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SETTINGS = ['-Dpython=enabled', '-Dtests=disabled', '-Dmnist=disabled', '-Ddebug=false', '-Doptimization=2']
PROGRAMS = ('muster', 'muster-bench')


class Build(build_ext):
    """Takes what Meson has made."""

    def run(self):
        if sys.implementation.name != 'cpython' or sys.platform != 'linux':
            sys.exit('muster: CPython on Linux is needed')
        folder = os.environ.get('MUSTER_BUILD') or self.make()
        package = os.path.join(ROOT, 'python', 'muster') if self.inplace else os.path.join(self.build_lib, 'muster')
        os.makedirs(os.path.join(package, 'bin'), exist_ok=True)
        shutil.copy2(os.path.join(folder, 'python', 'muster', '_muster.abi3.so'), package)
        for program in PROGRAMS:
            shutil.copy2(os.path.join(folder, program), os.path.join(package, 'bin', program))

    def make(self):
        folder = os.path.join(scratch(), 'meson')
        for words in (['meson', 'setup', folder, ROOT, *SETTINGS], ['ninja', '-C', folder, 'installed']):
            try:
                subprocess.run(words, check=True)
            except FileNotFoundError:
                sys.exit(f'muster: {words[0]} is needed to build it (scripts/packages/build.txt names all packages)')
            except subprocess.CalledProcessError as error:
                sys.exit(f'muster: `{" ".join(words)}` failed ({error.returncode}); what it said is above')
        return folder

    def get_outputs(self):
        package = os.path.join(self.build_lib, 'muster')
        return [os.path.join(package, '_muster.abi3.so'), *(os.path.join(package, 'bin', program) for program in PROGRAMS)]


_scratch = []


def scratch():
    """A folder until the end of this process: the tree stays as it is."""
    if not _scratch:
        _scratch.append(tempfile.mkdtemp(prefix='muster-build-'))
        atexit.register(shutil.rmtree, _scratch[0], ignore_errors=True)
    return _scratch[0]


setup(
    ext_modules=[Extension('muster._muster', [], py_limited_api=True)],
    cmdclass={'build_ext': Build},
    options={'bdist_wheel': {'py_limited_api': 'cp311'}, 'build': {'build_base': scratch()},
             'egg_info': {'egg_base': scratch()}},
)
