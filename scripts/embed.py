#!/usr/bin/env python3
"""Writes files as an array of C, so that the program has them inside.

usage: embed.py OUT FILE..."""
import os
import sys

TYPES = {'.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8',
         '.css': 'text/css; charset=utf-8'}


def main():
    out, *paths = sys.argv[1:]
    lines, table = ['#include "orchestrator/web_files.h"', ''], []
    for i, path in enumerate(paths):
        with open(path, 'rb') as file:
            data = file.read()
        name = os.path.basename(path)
        lines.append(f'static const unsigned char file_{i}[] = {{{",".join(map(str, data))}}};')
        table.append(f'    {{"{name}", "{TYPES[os.path.splitext(name)[1]]}", file_{i}, sizeof(file_{i})}},')
    lines += ['', 'const struct web_file web_files[] = {', *table, '};',
              'const unsigned web_files_n = sizeof(web_files) / sizeof(web_files[0]);', '']
    with open(out, 'w', encoding='utf-8') as file:
        file.write('\n'.join(lines))


if __name__ == '__main__':
    main()
