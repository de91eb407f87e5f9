#!/usr/bin/env python3
"""Calls that the library never makes: unbounded copies, hidden state, output, ending the process.

Usage: check_banned.py [TREE]
"""
import re

import house

BANNED = {
    "unbounded": "strcpy strcat stpcpy sprintf vsprintf gets scanf sscanf fscanf alloca",
    "hidden state": "strtok asctime ctime gmtime localtime rand srand setlocale getenv setenv",
    "no error report": "atoi atol atoll atof",
    "prints": "printf vprintf puts putchar putc fputs fputc fprintf vfprintf perror",
    "ends the process": "exit _exit _Exit quick_exit abort assert",
}
REASON = {name: reason for reason, names in BANNED.items() for name in names.split()}
# The one place where a broken invariant ends the process.
MAY_ABORT = "src/base/panic.c"

CALL = re.compile(r"\b(" + "|".join(REASON) + r")\s*\(|\b(stdout|stderr)\b")


def main():
    root = house.root_from_args()
    problems = []
    for path in house.files(root, {".c", ".h"}, ("src", "include")):
        text = house.code_only((root / path).read_text())
        for match in CALL.finditer(text):
            name = match.group(1) or match.group(2)
            if name == "abort" and str(path) == MAY_ABORT:
                continue
            line = text.count("\n", 0, match.start()) + 1
            problems.append(f"{path}:{line}: {name}: {REASON.get(name, 'prints')}")
    house.finish("banned calls", problems)


main()
