#!/usr/bin/env python3
"""The tidy test catches a planted violation of each of its rules, and nothing else."""
import contextlib
import io
import os
import tempfile

import tap
import tidy

GOOD = {
    'Makefile': 'all:\n\ttrue\n',
    'include/muster.h': '#ifndef MUSTER_H\n#define MUSTER_H\n\n#endif\n',
    'src/base/base.h': ('/* A comment first. */\n#ifndef BASE_BASE_H\n#define BASE_BASE_H\n\n'
                        '#include <muster.h>\n\n#endif\n'),
    'src/base/meson.build': "base_sources = files('log.c')\n",
    'src/base/log.c': ('#include "base/base.h"\n\n#include <time.h>\n\n'
                       'void log_now(void)\n{\n    time(0);\n}\n'),
    'src/core/meson.build': "core_sources = files('plan.c')\n",
    'src/core/plan.c': ('#include "base/base.h"\n\n#include <stdio.h>\n#include <stdlib.h>\n\n'
                        '/* malloc() and time() in a comment, "and in text". */\n'
                        'static const char *text = "open(time())";\n\n'
                        'int plan_open(char **plan_out)\n{\n    *plan_out = malloc(8);\n'
                        '    return snprintf(*plan_out, 8, "free()");\n}\n\n'
                        'int plan_send(struct plan *p)\n{\n'
                        '    return p->send(text) + p->time(1) + plan_read(p);\n}\n'),
    'tests/unit/meson.build': "foreach layer : ['core']\n  subdir(layer)\nendforeach\n",
    'tests/unit/core/meson.build': "unit_tests = [\n  ['plan', [core_dep]],\n]\n",
    'tests/unit/core/test_plan.c': '#include "core/plan.h"\n\n#include <time.h>\n',
}


def complaints(rule, planted=None):
    """What a rule says about the good tree with some files added or replaced."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in {**GOOD, **(planted or {})}.items():
            path = os.path.join(root, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'w', encoding='utf-8', newline='') as file:
                file.write(text)
        return [f'{path}:{line}: {what}' for path, line, what in rule(tidy.load(root))]


def catches(rule, planted, *wanted):
    """The rule must complain once for each of `wanted`, in order, and hold them."""
    found = complaints(rule, planted)
    assert len(found) == len(wanted), found
    for complaint, want in zip(found, wanted):
        assert want in complaint, (want, complaint)


def core(body, includes=''):
    return {'src/core/plan.c': f'#include "base/base.h"\n\n{includes}\n{body}'}


def function(name, body):
    return f'void {name}(void)\n{{\n    {body}\n}}\n'


def test_a_tidy_tree_has_no_complaint():
    for _, rule in tidy.RULES:
        found = complaints(rule)
        assert not found, found


def test_an_include_of_a_lower_layer_is_caught():
    catches(tidy.layers, {'src/base/log.c': '#include "core/plan.h"\n'}, 'src/base/log.c:1:')
    catches(tidy.layers, {'src/core/plan.c': '#include "cli/cli.h"\n'}, 'core is below cli')
    catches(tidy.layers, {'src/agent/providers/slurm.c': '#  include "cli/cli.h"\n'}, 'agent')


def test_an_include_of_an_upper_or_the_same_layer_is_fine():
    catches(tidy.layers, {'src/cli/main.c': '#include "base/base.h"\n#include "cli/cli.h"\n'})


def test_an_include_without_its_layer_is_caught():
    catches(tidy.layers, {'src/core/plan.c': '#include "plan.h"\n'}, '"plan.h"')
    catches(tidy.layers, {'src/core/plan.c': '#include "../cli/cli.h"\n'}, '../cli')
    catches(tidy.layers, {'src/core/plan.c': '#include "tests/sim.h"\n'}, 'tests/sim.h')


def test_a_folder_that_is_no_layer_is_caught():
    catches(tidy.layers, {'src/misc/a.c': '\n'}, 'src/misc is no layer')


def test_impure_headers_are_caught():
    for header in ('time.h', 'pthread.h', 'sys/socket.h', 'sys/mman.h', 'unistd.h', 'fcntl.h',
                   'errno.h', 'stdatomic.h', 'threads.h', 'sqlite3.h'):
        catches(tidy.purity, core('', f'#include <{header}>\n'), f'<{header}>')
    catches(tidy.purity, core('', '#include "base/log.h"\n'), 'base/log.h')


def test_impure_calls_are_caught_by_kind():
    for call, kind in (('clock_gettime(1, 0)', 'clock'), ('time (0)', 'clock'),
                       ('rand()', 'randomness'), ('getrandom(0, 0, 0)', 'randomness'),
                       ('socket(1, 2, 3)', 'socket'), ('fopen(0, 0)', 'file'),
                       ('printf("x")', 'file'), ('fprintf(stderr, "x")', 'file'),
                       ('pthread_create(0, 0, 0, 0)', 'thread'), ('getenv("X")', 'process'),
                       ('exit(1)', 'process')):
        catches(tidy.purity, core(function('plan_step', call + ';')), f'({kind})')
    catches(tidy.purity, core(function('plan_step', 'puts(__TIME__);')), 'puts', '__TIME__')


def test_headers_and_tables_of_pure_layers_are_looked_at_too():
    catches(tidy.purity, {'src/wire/a.h': function('f', 'time(0);')}, 'src/wire/a.h:3:')
    catches(tidy.purity, {'src/wire/a.def': 'X(time(0))\n'}, 'src/wire/a.def:1:')


def test_a_module_may_name_its_own_function_like_an_impure_one():
    catches(tidy.purity, core(function('static_send', '') + '\n' +
                              function('send', '') + '\n' + function('plan_step', 'send();')))


def test_allocation_outside_of_init_is_caught():
    for call in ('malloc(1)', 'calloc(1, 1)', 'realloc(0, 1)', 'free(p)', 'strdup(p)'):
        catches(tidy.allocation, core(function('plan_step', f'{call};')), call.split('(')[0])
        for name in ('plan_init', 'plan_open', 'plan_close', 'plan_fini', 'init'):
            catches(tidy.allocation, core(function(name, f'{call};')))
    catches(tidy.allocation, core('void (*drop)(void *) = free;\n'), 'free')
    catches(tidy.allocation, core(function('reopen', 'free(p);')), 'free')


def test_a_field_named_like_an_allocator_is_fine():
    catches(tidy.allocation, core(function('plan_step', 'p->free = q.free;')))


def test_long_files_are_caught():
    catches(tidy.sizes, {'src/base/log.c': '\n' * 800})
    catches(tidy.sizes, {'src/base/log.c': '\n' * 801}, '801 lines')


def test_long_functions_are_caught():
    catches(tidy.sizes, core(function('plan_step', '\n' * 96)))
    catches(tidy.sizes, core('int a;\n\n' + function('plan_step', '\n' * 97)),
            'plan_step() has 101 lines')


def test_blanks_are_caught():
    catches(tidy.blanks, {'src/base/log.c': 'int a;\n\tint b;\n'}, 'src/base/log.c:2: a tab')
    catches(tidy.blanks, {'README.md': 'text \n'}, 'README.md:1:')
    catches(tidy.blanks, {'README.md': 'text\r\n'}, 'README.md:1:')
    catches(tidy.blanks, {'README.md': 'text'}, 'newline')
    catches(tidy.blanks, {'README.md': 'text\n\n'}, 'newline')


def test_missing_and_misnamed_guards_are_caught():
    catches(tidy.guards, {'src/core/plan.h': 'int plan;\n'}, 'CORE_PLAN_H')
    catches(tidy.guards, {'src/core/plan.h': '#ifndef PLAN_H\n#define PLAN_H\n#endif\n'},
            'CORE_PLAN_H')
    catches(tidy.guards, {'tests/sim/net.h': '#ifndef SIM_NET_H\n#define SIM_NET_H\n#endif\nx\n'},
            'SIM_NET_H')
    catches(tidy.guards, {'tests/sim/net.h': '#ifndef SIM_NET_H\n#define SIM_NET_H\nx\n#endif\n'})


def test_sources_that_no_list_names_are_caught():
    catches(tidy.listed, {'src/core/order.c': ''}, 'src/core/order.c')
    catches(tidy.listed, {'src/core/sub/order.c': ''}, 'src/core/meson.build')
    catches(tidy.listed, {'tests/unit/test_order.c': ''}, 'tests/unit/meson.build')
    catches(tidy.listed, {'tests/unit/core/test_order.c': ''}, 'tests/unit/core/meson.build')
    catches(tidy.listed, {'tests/unit/core/plan_kit.c': ''}, 'tests/unit/core/plan_kit.c')


def test_the_name_of_a_test_lists_the_test_only():
    catches(tidy.listed, {'tests/unit/core/plan.c': ''}, 'tests/unit/core/plan.c')


def test_a_list_that_no_list_above_reads_is_caught():
    catches(tidy.listed, {'tests/unit/wire/meson.build': "unit_tests = [\n  ['table', [wire_dep]],\n]\n",
                          'tests/unit/wire/test_table.c': ''}, 'tests/unit/wire/meson.build')


def test_unformatted_files_are_caught():
    program, _ = tidy.formatter()
    if not program:
        return
    with tempfile.TemporaryDirectory() as root:
        for name, text in (('good.c', 'int a;\n'), ('bad.c', 'int  a ;\n'),
                           ('.clang-format', 'BasedOnStyle: LLVM\n')):
            with open(os.path.join(root, name), 'w', encoding='utf-8') as file:
                file.write(text)
        found = list(tidy.formatted(root, tidy.load(root), program))
        assert [path for path, _, _ in found] == ['bad.c'], found


def test_the_exit_status_tells():
    with tempfile.TemporaryDirectory() as root:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert tidy.main(root) == 0
        assert 'not ok' not in out.getvalue()
        with open(os.path.join(root, 'a.md'), 'w', encoding='utf-8') as file:
            file.write('\t\n')
        with contextlib.redirect_stdout(io.StringIO()) as out, \
                contextlib.redirect_stderr(io.StringIO()) as err:
            assert tidy.main(root) == 1
        assert 'not ok' in out.getvalue()
        assert 'a.md:1: a tab' in err.getvalue()


if __name__ == '__main__':
    tap.run(__name__)
