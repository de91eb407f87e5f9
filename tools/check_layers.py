#!/usr/bin/env python3
"""Who may include whom: a module uses only modules of lower levels.

Levels are those of the pkv_module() calls in CMakeLists.txt. Code outside the library sees public
headers and its own folder only. Usage: check_layers.py [TREE]
"""
import re

import house

# The module that implements a public header; pkv.h is the umbrella, for users only.
HEADER_MODULE = {
    "export": "base", "status": "base", "alloc": "base", "version": "base", "pages": "base",
    "spec": "spec", "key": "key", "ring": "ring", "encoder": "encoder",
    "event": "pool", "pool": "pool", "seq": "seq",
    "transfer": "transfer",
    "kv_layout": "plan", "plan": "plan", "format": "format",
    "model": "model", "document": "model", "keys_document": "model",
}
# A module of the same level that may be used. A new edge is a change to be reviewed.
EDGES = {
    ("model", "plan"),   # documents are read into plan parameters
    ("format", "plan"),  # hints name layouts as plans do
    ("seq", "manager"),  # a cache drives the managers of its groups
}

PUBLIC_ONLY = ("cli", "fuzz", "bench", "examples")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def levels_of(root):
    text = (root / "CMakeLists.txt").read_text()
    return {name: int(level)
            for name, level in re.findall(r"pkv_module\(\s*(\w+)\s+LEVEL\s+(\d+)", text)}


def public_problem(user, header, levels):
    """Why module `user` may not include <pkv/header.h>, or None."""
    module = HEADER_MODULE.get(header)
    if module is None:
        return "the umbrella is for users" if header == "pkv" else "no module in HEADER_MODULE"
    if module == user or (user, module) in EDGES or levels[module] < levels[user]:
        return None
    return f"{user} (level {levels[user]}) may not use {module} (level {levels[module]})"


def check_include(root, path, quote, target, levels):
    area, user = path.parts[0], path.parts[1]
    if ".." in target.split("/"):
        return "no ../ in includes"
    if target.endswith(".c"):
        return "a .c file is not included"
    if target.startswith("pkv/"):
        if quote == '"':
            return "public headers are included with <>"
        if not (root / "include" / target).is_file():
            return "no such header"
        if area == "src":
            return public_problem(user, target[4:-2], levels)
        if area == "include" and path.name != "pkv.h":
            return public_problem(HEADER_MODULE.get(path.stem), target[4:-2], levels)
        return None
    if quote == "<":
        return None  # libc and third libraries
    module = target.split("/")[0]
    if area == "src":
        if not (root / "src" / target).is_file():
            return 'internal headers are included as "module/name.h"'
        if module != user and (user, module) not in EDGES and levels[module] >= levels[user]:
            return f"{user} (level {levels[user]}) may not use {module} (level {levels[module]})"
        return None
    if area == "include":
        return "public headers include public headers only"
    if area in PUBLIC_ONLY and not (root / area / target).is_file():
        return f"{area} uses public headers and its own folder only"
    return None


def main():
    root = house.root_from_args()
    levels = levels_of(root)
    problems = []
    for folder in sorted((root / "src").iterdir()):
        if folder.is_dir() and folder.name not in levels:
            problems.append(f"src/{folder.name}: no pkv_module() call in CMakeLists.txt")
            levels[folder.name] = 99
    for header in sorted((root / "include/pkv").glob("*.h")):
        if header.stem != "pkv" and HEADER_MODULE.get(header.stem) not in levels:
            problems.append(f"include/pkv/{header.name}: no module in HEADER_MODULE")
    if problems:
        house.finish("layers", problems)
    for path in house.files(root, {".c", ".h"}):
        if len(path.parts) < 2:
            continue
        text = (root / path).read_text()
        for match in INCLUDE.finditer(text):
            why = check_include(root, path, match.group(1), match.group(2), levels)
            if why:
                line = text.count("\n", 0, match.start()) + 1
                problems.append(f"{path}:{line}: {match.group(2)}: {why}")
    house.finish("layers", problems)


main()
