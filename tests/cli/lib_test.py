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

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # pylint: disable=wrong-import-position

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


EXAMPLES = {  # What they are called with, and the first that they say when they are alone.
    'sync': ([], 'rank 0 of 1'),
    'resize': (['--steps', '2'], 'step=0 generation=1 rank=0 size=1 event=world'),
    'allreduce': (['--steps', '2'], 'step=0 generation=1 rank=0 size=1 event=group'),
}

TRAINERS = {  # Those of several files. The last line of each is a digest.
    'fake': ['--steps', '2', '--bytes', '4K'],
    'mnist': ['--steps', '2', '--hidden', '4'],
}

# All of a setting's life, and a sum, as a job of one.
CPP_PROGRAM = """
#include <muster.h>
#include <cstring>

int main()
{
    mu_run *run = nullptr;
    mu_setting setting{};
    mu_settings settings{};
    uint64_t version = 0;
    int same = 0;
    float mine[3] = {1, 2, 3}, sum[3] = {};
    bool ok = mu_join(nullptr, &run) == MU_OK && mu_progress(run, 1) == MU_OK &&
              mu_agree(run, "t", "x", 1, 0, &same) == MU_OK && same == 1 &&
              mu_config_put(run, "lr", "0.1", 3, 0, 0, &version) == MU_OK && version == 1 &&
              mu_config_put(run, "lr", "0.2", 3, 0, 0, nullptr) == MU_EEXIST &&
              mu_config_get(run, "lr", 0, &setting) == MU_OK &&
              std::strcmp(static_cast<const char *>(setting.value), "0.1") == 0 &&
              mu_config_watch(run, "", 0, 0, &settings) == MU_OK && settings.n == 1;
    mu_setting_free(&setting);
    mu_settings_free(&settings);
    ok = ok && mu_config_remove(run, "lr", MU_ANY, 0) == MU_OK &&
         mu_config_list(run, "", 0, &settings) == MU_OK && settings.n == 0;
    mu_settings_free(&settings);
    ok = ok && mu_allreduce(run, mine, sum, 3, MU_F32, MU_SUM, MU_FOREVER) == MU_OK &&
         std::memcmp(mine, sum, sizeof(sum)) == 0;
    return ok && mu_leave(run) == MU_OK ? 0 : 1;
}
"""


def test_a_cpp_program_uses_settings_and_collectives():
    with tempfile.TemporaryDirectory() as top:
        source, program = os.path.join(top, 'program.cc'), os.path.join(top, 'program')
        with open(source, 'w', encoding='utf-8') as file:
            file.write(CPP_PROGRAM)
        run(compiler('c++', 'g++', 'clang++'), '-std=c++17', '-Wall', '-Wextra', '-Werror',
            '-I', os.path.dirname(HEADER), '-o', program, source, SHARED,
            '-Wl,-rpath,' + os.path.dirname(os.path.abspath(SHARED)))
        env = {key: value for key, value in os.environ.items() if not key.startswith('MUSTER_')}
        run(program, env=env)


def commands():
    """How each example says that it is built."""
    for name in EXAMPLES:
        with open(os.path.join(SOURCE, 'examples', name + '.c'), encoding='utf-8') as file:
            yield name, re.search(r'^ \*\s+(cc .*)$', file.read(), re.M).group(1)


def trainer_commands():
    for name in TRAINERS:
        with open(os.path.join(SOURCE, 'examples', name, 'main.c'), encoding='utf-8') as file:
            command = re.search(r'^ \*\s+(cc .*\\\n.*)$', file.read(), re.M).group(1)
        yield name, command.replace('\\\n *', '')


def test_an_installed_library_builds_the_examples_as_they_say():
    with tempfile.TemporaryDirectory() as top:
        run('meson', 'install', '-C', BUILD, '--no-rebuild', '--destdir', top)
        found = [folder for folder, _, names in os.walk(top) if 'muster.pc' in names]
        assert len(found) == 1, found
        libraries = os.path.dirname(found[0])
        shutil.copytree(os.path.join(SOURCE, 'examples'), os.path.join(top, 'examples'))
        env = {key: value for key, value in os.environ.items() if not key.startswith('MUSTER_')}
        env.update(PKG_CONFIG_PATH=found[0], PKG_CONFIG_SYSROOT_DIR=top,
                   LD_LIBRARY_PATH=libraries, MUSTER_LOG='warn')
        for name, command in commands():
            run('sh', '-c', command, cwd=top, env=env)
            shared = run(os.path.join(top, name), *EXAMPLES[name][0], env=env)
            assert shared.startswith(EXAMPLES[name][1]), shared
        for name, command in trainer_commands():
            run('sh', '-c', command, cwd=top, env=env)
            said = run(os.path.join(top, name), *TRAINERS[name], env=env)
            assert re.search(r'^digest=[0-9a-f]{64} steps=2 ', said, re.M), said
        flags = run('pkg-config', '--cflags', 'muster', env=env).split()
        more = [flag for flag in run('pkg-config', '--libs', '--static', 'muster', env=env).split()
                if flag.startswith('-l') and flag != '-lmuster' or flag == '-pthread']
        env.pop('LD_LIBRARY_PATH')
        for name, (words, says) in EXAMPLES.items():
            run('cc', '-o', name + '-alone', f'examples/{name}.c', *flags,
                os.path.join(libraries, 'libmuster.a'), *more, cwd=top, env=env)
            alone = run(os.path.join(top, name + '-alone'), *words, env=env)
            assert alone.startswith(says), alone


if __name__ == '__main__':
    tap.run(__name__)
