#!/usr/bin/env python3
"""Man pages and --help say the same: every command has a page, every option is in both.

usage: man_test.py MUSTER MAN_FOLDER
"""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # pylint: disable=wrong-import-position

MUSTER, FOLDER = sys.argv[1:3]
WITHOUT_PAGE = {'help', 'version'}  # muster.1 has them.


def output(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True).stdout


def commands():
    listed = [line.split()[0] for line in output(MUSTER, 'help').splitlines()
              if line.startswith('  ')]
    assert 'serve' in listed and 'version' in listed, listed
    return listed


def page(name):
    with open(os.path.join(FOLDER, name), encoding='utf-8') as file:
        return file.read()


def options_of_help(command):
    """Every spelling of every option: "--job", "-f"."""
    found = set()
    for line in output(MUSTER, command, '--help').splitlines():
        if re.match(r'  -', line):
            left = re.split(r'\s{2,}', line.strip())[0]
            found |= {'--' + name for name in re.findall(r'--(?:\[no-\])?([a-z][a-z-]*)', left)}
            found |= set(re.findall(r'^-[a-zA-Z](?=,)', left))
    return found


def options_of_page(command):
    found = set()
    for line in page(f'muster-{command}.1').splitlines():
        if line.startswith('.It Fl'):
            found |= {'-' + name for name in re.findall(r'Fl (-?[a-zA-Z][a-z-]*)', line)}
    return {name for name in found if not name.startswith('--no-') or '--' + name[5:] not in found}


def test_every_command_has_a_page_and_every_page_a_command():
    named = {f'muster-{name}.1' for name in commands() if name not in WITHOUT_PAGE}
    assert named | {'muster.1'} == {name for name in os.listdir(FOLDER) if name.endswith('.1')}


def test_the_page_of_the_library_names_every_function():
    with open(os.path.join(FOLDER, '..', 'include', 'muster.h'), encoding='utf-8') as file:
        functions = re.findall(r'^MU_API [^(]*?\b(mu_\w+)\(', file.read(), re.MULTILINE)
    assert len(functions) > 30, functions
    text = page('libmuster.3')
    missing = [name for name in functions if not re.search(rf'\b{name}\b', text)]
    assert not missing, missing


def test_every_option_is_in_the_help_and_in_the_page():
    for command in commands():
        if command not in WITHOUT_PAGE:
            in_help, in_page = options_of_help(command), options_of_page(command)
            assert '--help' in in_help, (command, in_help)
            assert in_help == in_page, (command, 'in one only', in_help ^ in_page)


def test_the_main_page_names_every_command_and_exit_status():
    text = page('muster.1')
    for command in commands():
        assert f'.It Cm {command}' in text, command
    for line in output(MUSTER, 'help', 'exit-codes').splitlines():
        code = re.match(r'  (\d+) ', line)
        if code:
            assert f'.It {code.group(1)}\n' in text, line


def test_pages_are_without_fault():
    if shutil.which('mandoc') is None:
        tap.skip('mandoc is not installed')
    for name in sorted(os.listdir(FOLDER)):
        if name.endswith(('.1', '.3')):
            done = subprocess.run(['mandoc', '-T', 'lint', '-W', 'warning',
                                   os.path.join(FOLDER, name)], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
            assert done.returncode == 0, done.stdout


if __name__ == '__main__':
    tap.run(__name__)
