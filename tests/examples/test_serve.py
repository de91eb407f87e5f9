"""The example of a scheduler: what it prints is what arithmetic says.

Blocks hold 16 tokens, the window 32. Two layers share each block table, a page is 8 KiB, so a block
is 2 x 8192 = 16384 bytes and 512 KiB are 32 blocks, of which block 0 is the null block. Ids are
handed out from 1, group by group; the group of layer 0, the window, comes first. The layers differ
in precision, so new blocks are zeroed. Slot of a token: block x 16 + token mod 16. A query at
position p sees p - 31 ... p, so a row is null below (first position of the step - 31) // 16.
"""
import subprocess
import sys
import unittest

EXAMPLE = sys.argv[1]


def row(name, kind, entries, token, block):
    """A line of a block table: a row is as wide as 128 tokens // 16, and filled with nulls."""
    numbers = "".join(f" {b:2d}" for b in entries + [0] * (8 - len(entries)))
    return f"  {name}  {kind:14}  row{numbers}  token {token} in slot {block * 16 + token % 16}"


def both(name, window, full, token):
    """Lines of both groups of one sequence: the token lies in the last block that it reaches."""
    at = token // 16
    return [row(name, "sliding_window", window, token, window[at]),
            row(name, "full_attention", full, token, full[at])]


EXPECTED = [
    f"cache: {512 * 1024 // 16384} blocks of 16384 bytes, 2 groups",
    # 60 tokens are 4 blocks in each group.
    "a: 0 of 60 prompt tokens are cached",
    "  zero 1 2 3 4 5 6 7 8",
    *both("a", [1, 2, 3, 4], [5, 6, 7, 8], 59),
    # 48 common tokens are 3 whole blocks. A window hit of 48 needs ceil(31 / 16) = 2 of them, so
    # the first is not looked at. Of 58 tokens 10 are left: one block in each group.
    "b: 48 of 58 prompt tokens are cached",
    "  zero 9 10",
    *both("b", [0, 2, 3, 9], [5, 6, 7, 10], 57),
    # 65 tokens are 5 blocks. (60 - 31) // 16 = 1: the window gives block 1 back, which has no key
    # (48 can be resumed at with blocks 2 and 3 alone), so it is the first to be handed out again.
    "a: token 60 and four drafts behind it",
    "  zero 1 11",
    *both("a", [0, 2, 3, 4, 1], [5, 6, 7, 8, 11], 64),
    # a: 62 tokens and one to compute fit in what it has; (62 - 31) // 16 = 1. b writes token 58
    # into a block that c holds too, in each group: two copies. c is then the sole owner of its own.
    "a back to 62 tokens; a, b, c: the next step",
    "  zero 12 13  copy 9->12 10->13",
    *both("a", [0, 2, 3, 4, 1], [5, 6, 7, 8, 11], 62),
    *both("b", [0, 2, 3, 12], [5, 6, 7, 13], 58),
    *both("c", [0, 2, 3, 9], [5, 6, 7, 10], 58),
    f"2 requests: 48 of {60 + 58} tokens hit",
]


class Serve(unittest.TestCase):
    def test_prints_what_arithmetic_says(self):
        done = subprocess.run([EXAMPLE], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.split("\n")[:-1], EXPECTED)


unittest.main(argv=[sys.argv[0]])
