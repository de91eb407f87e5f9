"""pagedkv bench: every figure is there, and is a number that time can be. Nothing is timed here."""
import math
import sys

sys.dont_write_bytecode = True
from support import program  # noqa: E402
from support.program import run  # noqa: E402

MEMORY = ["read_4", "chase_4", "read_16", "chase_16", "read_64", "chase_64", "memcpy_64"]
POOL = ["take_release", "share_held", "share_idle", "cache_full", "lookup_hit", "lookup_miss",
        "take_evicting"]
HITS = ["open_sha256_cbor", "open_pkv_xxh3", "lookup", "allocate", "close", "request_sha256",
        "request_xxh3", "request_ready"]
STEPS = ["advance_uncached", "advance_pkv_xxh3", "advance_sha256", "advance_window"]
LOOPS = ["loop_one_group", "loop_two_groups"]


class Bench(program.Case):
    def assert_positive(self, value):
        self.assertIsInstance(value, float)
        self.assertTrue(math.isfinite(value) and value > 0, value)

    def assert_rows(self, rows, names, ceilings):
        self.assertEqual([row["name"] for row in rows], names)
        for row in rows:
            self.assertEqual(sorted(row), ["ceiling", "ceiling_ns", "max_ns", "min_ns", "name",
                                           "ns", "ratio", "unit"])
            for field in ("ns", "min_ns", "max_ns"):
                self.assert_positive(row[field])
            self.assertTrue(row["min_ns"] <= row["ns"] <= row["max_ns"], row)
            if ceilings:
                self.assertTrue(row["ceiling"])
                self.assert_positive(row["ceiling_ns"])
                self.assert_positive(row["ratio"])
            else:
                self.assertEqual((row["ceiling"], row["ceiling_ns"], row["ratio"]),
                                 (None, None, None))

    def test_pool(self):
        answer = self.answer(run("bench", "pool", "--blocks", 64, "--runs", 3, "--json"))
        self.assertEqual((answer["bench"], answer["runs"]), ("pool", 3))
        self.assertTrue(answer["cpu"])
        (size,) = answer["sizes"]
        self.assertEqual(size["blocks"], 64)
        self.assertGreater(size["bytes"], 64 * 32)  # a key for each block
        self.assert_rows(size["memory"], MEMORY, ceilings=False)
        self.assert_rows(size["figures"], POOL, ceilings=True)

    def test_a_pool_of_one_usable_block(self):
        answer = self.answer(run("bench", "pool", "--blocks", 2, "--runs", 1, "--json"))
        self.assert_rows(answer["sizes"][0]["figures"], POOL, ceilings=True)

    def test_prefix(self):
        answer = self.answer(run("bench", "prefix", "--tokens", 40, "--sequences", 3, "--runs", 2,
                                 "--json"))
        (hit,) = answer["hits"]
        self.assertEqual(hit["tokens"], 32)  # whole blocks of 16
        for field in ("sha256_cbor_keys_per_second", "pkv_xxh3_keys_per_second",
                      "lookup_tokens_per_us"):
            self.assert_positive(hit[field])
        self.assert_rows(hit["memory"], MEMORY, ceilings=False)
        self.assert_rows(hit["figures"], HITS, ceilings=True)
        self.assertEqual(answer["advance"]["sequences"], 3)
        figures = answer["advance"]["figures"]
        self.assert_rows(figures[:4], STEPS, ceilings=True)
        self.assert_rows(figures[4:], LOOPS, ceilings=False)

    def test_screens_have_a_line_for_each_figure(self):
        done = self.assert_done(run("bench", "pool", "--blocks", 64, "--runs", 1))
        for name in MEMORY + POOL:
            self.assertIn(f"\n  {name} ", done.out)
        done = self.assert_done(run("bench", "prefix", "--tokens", 32, "--sequences", 2,
                                    "--runs", 1))
        for name in MEMORY + HITS + STEPS + LOOPS:
            self.assertIn(f"\n  {name} ", done.out)

    def test_help(self):
        text = self.assert_done(run("bench", "--help")).out
        for option in ("--blocks", "--tokens", "--sequences", "--runs", "--json"):
            self.assertIn(option + " ", text)

    def test_bad_words(self):
        self.assert_line(run("bench"), 2, "pool or prefix")
        self.assert_line(run("bench", "pond"), 2, '"pond"', "pool or prefix")
        self.assert_line(run("bench", "pool", "prefix"), 2, '"prefix"')
        self.assert_line(run("bench", "pool", "--tokens", 16), 2, "pool", "--tokens")
        self.assert_line(run("bench", "pool", "--sequences", 16), 2, "pool", "--sequences")
        self.assert_line(run("bench", "prefix", "--blocks", 16), 2, "prefix", "--blocks")
        for option, bench, value in (("--runs", "pool", 0), ("--runs", "prefix", 1001),
                                     ("--blocks", "pool", 1), ("--tokens", "prefix", 15),
                                     ("--sequences", "prefix", 0)):
            self.assert_line(run("bench", bench, option, value), 2, option, "a number from")


program.main()
