#!/usr/bin/env python3
"""libmuster as its users get it: the header, the libraries, pkg-config, the examples.

usage: lib_test.py SOURCE BUILD SHARED_LIBRARY
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import tap

SOURCE, BUILD, SHARED = sys.argv[1:4]
HEADER = os.path.join(SOURCE, 'include', 'muster.h')
STRICT = ['-Wall', '-Wextra', '-pedantic', '-Wconversion', '-Werror', '-fsyntax-only']


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **options)
    assert done.returncode == 0, f'{command}: exit {done.returncode}\n{done.stdout}'
    return done.stdout


def compiler(*names):
    found = [name for name in names if shutil.which(name)]
    return found[0] if found else tap.skip(f'no {names[0]}')


def test_the_header_alone_is_c11():
    run(compiler('cc', 'gcc', 'clang'), '-std=c11', *STRICT, '-x', 'c', HEADER)


def test_the_header_alone_is_cpp17():
    run(compiler('c++', 'g++', 'clang++'), '-std=c++17', *STRICT, '-x', 'c++', HEADER)


def test_every_declared_function_is_exported_and_nothing_else():
    with open(HEADER, encoding='utf-8') as file:
        text = re.sub(r'/\*.*?\*/', '', file.read(), flags=re.S)
    declared = set(re.findall(r'^MU_API[^;]*?\b(mu_\w+)\(', text, re.M))
    exported = {line.split()[-1] for line in run('nm', '-D', '--defined-only', SHARED).splitlines()}
    assert len(declared) > 5
    assert declared == exported, declared ^ exported


def test_the_shared_library_has_a_versioned_name():
    assert 'Library soname: [libmuster.so.0]' in run('readelf', '-d', SHARED)


def test_an_installed_library_builds_the_example_as_it_says():
    with open(os.path.join(SOURCE, 'examples', 'sync.c'), encoding='utf-8') as file:
        command = re.search(r'^ \*\s+(cc .*)$', file.read(), re.M).group(1)
    with tempfile.TemporaryDirectory() as top:
        run('meson', 'install', '-C', BUILD, '--no-rebuild', '--destdir', top)
        found = [folder for folder, _, names in os.walk(top) if 'muster.pc' in names]
        assert len(found) == 1, found
        libraries = os.path.dirname(found[0])
        os.symlink(os.path.join(SOURCE, 'examples'), os.path.join(top, 'examples'))
        env = {key: value for key, value in os.environ.items() if not key.startswith('MUSTER_')}
        env.update(PKG_CONFIG_PATH=found[0], PKG_CONFIG_SYSROOT_DIR=top,
                   LD_LIBRARY_PATH=libraries)
        run('sh', '-c', command, cwd=top, env=env)
        shared = run(os.path.join(top, 'sync'), env=env)
        assert shared.startswith('rank 0 of 1'), shared
        flags = run('pkg-config', '--cflags', 'muster', env=env).split()
        run('cc', '-o', 'alone', 'examples/sync.c', *flags, os.path.join(libraries, 'libmuster.a'),
            '-pthread', cwd=top, env=env)
        env.pop('LD_LIBRARY_PATH')
        alone = run(os.path.join(top, 'alone'), env=env)
        assert alone.startswith('rank 0 of 1'), alone


if __name__ == '__main__':
    tap.run(__name__)
