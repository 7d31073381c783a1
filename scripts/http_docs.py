#!/usr/bin/env python3
"""Writes the table of routes into docs/http.md, from the program's own.

usage: http_docs.py MUSTER [--check]

--check: changes nothing, and fails if the table there is another one.
"""
import os
import subprocess
import sys

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'docs', 'http.md')
BEGIN = '<!-- routes: written by `make docs` -->\n'
END = '<!-- end of routes -->\n'


def main():
    muster, check = sys.argv[1], sys.argv[2:] == ['--check']
    table = subprocess.run([muster, 'help', 'http', '--markdown'], stdout=subprocess.PIPE,
                           check=True, text=True).stdout
    with open(PAGE, encoding='utf-8') as file:
        text = file.read()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f'{PAGE}: the marks around the table are gone'
    wanted = before + BEGIN + table + END + after
    if wanted == text:
        return 0
    if check:
        print('docs/http.md: its routes are not those of the program; `make docs` writes them',
              file=sys.stderr)
        return 1
    with open(PAGE, 'w', encoding='utf-8') as file:
        file.write(wanted)
    return 0


if __name__ == '__main__':
    sys.exit(main())
