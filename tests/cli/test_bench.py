"""pagedkv bench: every figure is there, and is a number that time can be. Nothing is timed here."""
import math
import sys

sys.dont_write_bytecode = True
from support import program  # noqa: E402
from support.program import run  # noqa: E402

FIELDS = ["bound", "bound_value", "ceiling", "ceiling_value", "least", "met", "most", "name",
          "ratio", "set", "unit", "value"]
BLOCKS = {"take_release": True}  # name: whether something was demanded
PROMPTS = {"open_allocate": True, "allocate": True, "close": True, "keys_open_allocate": True,
           "keys_allocate": False, "keys_close": True, "index_open_allocate": True,
           "index_allocate": False, "index_close": True, "hybrid_open_allocate": False,
           "hybrid_allocate": False, "hybrid_close": False, "states_open_allocate": False,
           "states_allocate": False, "states_close": False, "sizes_open_allocate": False,
           "sizes_allocate": False, "sizes_close": False, "evict_open_allocate": False,
           "evict_allocate": False, "evict_close": False, "key_chain": False}
STEPS = {"full_no_caching": True, "full_caching": True, "full_keys": True,
         "hybrid_no_caching": True, "hybrid_caching": True}
SPREADS = ["even, no block taken", "even, no block taken, repeated", "even, all steps",
           "uneven, all steps"]
BYTES = {"pool": True, "pool_keys": True, "pool_keys_add": False, "cache_not_caching": True,
         "cache": True, "cache_adds": False, "cache_keys": True, "cache_keys_add": False}
KEYS = ["sha256_cbor", "sha256_cbor_chain", "xxhash_cbor", "xxhash_cbor_chain",
        "xxhash_cbor_inline", "pkv_xxh3_chain", "pkv_xxh3_inline"]
LOOKUPS = {"one_run": True, "32_branches": True, "hybrid_one_run": True,
           "hybrid_32_branches": True, "states_one_run": True, "sizes_one_run": True,
           "open": False, "open_keys": True, "ready_keys": True,
           "open_index": True, "ready_index": True, "key_chain": False}
CURVE = ["take_release", "share", "cache_full", "lookup", "take_evicting", "read_16", "read_64",
         "chase_16"]
POOL = ("--blocks", 64, "--tokens", 40, "--sequences", 3, "--runs", 2)
TRANSFER_FIELDS = ["block_size", "bound", "bytes", "ceiling", "ceiling_gb_per_s", "gb_per_s",
                   "memcpy_gb_per_s", "memcpy_ratio", "met", "name", "piece_bytes", "plan_ms",
                   "ratio", "shape", "threads"]
TRANSFER = [(shape, threads, size, name)
            for shape in ("8x128 bf16", "8x128 1-byte", "1x576 bf16", "1x576 1-byte",
                          "8x128 bf16, heads first", "8x128 1-byte, heads first")
            for threads in (1, 2) for size in (16, 32, 64, 128)
            for name in ("gather", "scatter", "copy", "layerwise")
            if name != "copy" or "heads" not in shape]
PREFIX = ("--tokens", 72, "--prompts", 2, "--runs", 2)


class Bench(program.Case):
    def assert_positive(self, *values):
        for value in values:
            self.assertIsInstance(value, float)
            self.assertTrue(math.isfinite(value) and value > 0, value)

    def assert_row(self, row, bound):
        self.assertEqual(sorted(row), FIELDS)
        self.assert_positive(row["value"], row["least"], row["most"])
        self.assertTrue(row["least"] <= row["value"] <= row["most"], row)
        self.assertTrue(row["unit"])
        if row["ceiling"]:
            self.assert_positive(row["ceiling_value"], row["ratio"])
        else:
            self.assertEqual((row["ceiling_value"], row["ratio"]), (None, None))
        if bound:
            self.assertTrue(row["bound"] and row["ceiling"])
            self.assert_positive(row["bound_value"])
            self.assertIsInstance(row["met"], bool)
        else:
            self.assertEqual((row["bound"], row["bound_value"], row["met"]), (None, None, None))

    def assert_rows(self, rows, names, sets=("hot", "cold")):
        self.assertEqual([(row["name"], row["set"]) for row in rows],
                         [(name, one) for name in names for one in sets])
        for row in rows:
            self.assert_row(row, names[row["name"]])

    def assert_spreads(self, spreads):
        self.assertEqual([(one["name"], one["set"], one["steps"]) for one in spreads],
                         [(name, one, steps) for name in STEPS for one in ("hot", "cold")
                          for steps in SPREADS] + [("no cache", one, "as long as a step")
                                                      for one in ("hot", "cold")])
        for one in spreads:
            self.assert_positive(one["mean"], one["p50"], one["p99"], one["p99_9"], one["most"])
            self.assertTrue(one["p50"] <= one["p99"] <= one["p99_9"] <= one["most"], one)
            self.assertGreater(one["n_steps"], 0)
            self.assertGreaterEqual(one["n_preempted"], 0)
            self.assertEqual(one["unit"], "ns/sequence")
            bounded = one["steps"] in SPREADS[:2]
            self.assertEqual(one["bound_value"], 20 if bounded else None)
            self.assertIsInstance(one["met"], bool if bounded else type(None))

    def test_pool(self):
        answer = self.answer(run("bench", "pool", *POOL, "--json"))
        self.assertEqual((answer["bench"], answer["runs"]), ("pool", 2))
        self.assertTrue(answer["cpu"] and answer["cold"])
        self.assert_rows(answer["blocks"], BLOCKS)
        self.assert_rows(answer["prompts"], PROMPTS)
        self.assert_rows(answer["steps"], STEPS)
        self.assert_spreads(answer["step_spreads"])
        self.assert_rows(answer["bytes"], BYTES, sets=(None,))
        for row in answer["bytes"]:
            self.assertEqual(row["unit"], "bytes/block")

    def test_bytes_are_counted(self):
        answer = self.answer(run("bench", "pool", "--blocks", 1000, "--tokens", 160, "--sequences",
                                 1, "--runs", 1, "--json"))
        value = {row["name"]: row["value"] for row in answer["bytes"]}
        self.assertGreater(value["pool_keys"], value["pool"] + 32)
        self.assertGreater(value["cache_keys"], value["cache_not_caching"] + 32)

    def test_a_pool_of_one_usable_block(self):
        answer = self.answer(run("bench", "pool", "--blocks", 2, "--tokens", 16, "--sequences", 1,
                                 "--runs", 1, "--json"))
        self.assert_rows(answer["blocks"], BLOCKS)

    def test_curve(self):
        answer = self.answer(run("bench", "pool", "--curve", "--blocks", 10000, "--runs", 2,
                                 "--json"))
        self.assertEqual([size["blocks"] for size in answer["curve"]], [1000, 10000])
        for size in answer["curve"]:
            self.assertEqual(size["runs"], 2)
            self.assertGreater(size["bytes_per_block"], 32)  # a key
            self.assert_rows(size["figures"], dict.fromkeys(CURVE, False), sets=(None,))
        answer = self.answer(run("bench", "pool", "--curve", "--blocks", 2, "--runs", 1, "--json"))
        self.assertEqual([size["blocks"] for size in answer["curve"]], [2])

    def test_prefix(self):
        answer = self.answer(run("bench", "prefix", *PREFIX, "--json"))
        self.assertEqual((answer["bench"], answer["runs"]), ("prefix", 2))
        self.assert_rows(answer["keys"], dict.fromkeys(KEYS, True))
        self.assert_rows(answer["lookups"], LOOKUPS)
        self.assertGreater(answer["index_bytes"], 0)

    def test_a_prompt_of_one_block(self):
        answer = self.answer(run("bench", "prefix", "--tokens", 16, "--prompts", 1, "--runs", 1,
                                 "--json"))
        self.assert_rows(answer["lookups"], LOOKUPS)

    def test_transfer(self):
        answer = self.answer(run("bench", "transfer", "--bytes", "1MiB", "--runs", 1, "--json"))
        self.assertEqual((answer["bench"], answer["runs"]), ("transfer", 1))
        self.assertGreater(answer["working_set_bytes"], 1 << 20)
        rows = answer["transfers"]
        self.assertEqual([(row["shape"], row["threads"], row["block_size"], row["name"])
                          for row in rows], TRANSFER)
        for row in rows:
            self.assertEqual(sorted(row), TRANSFER_FIELDS)
            self.assert_positive(row["gb_per_s"], row["ceiling_gb_per_s"], row["memcpy_gb_per_s"],
                                 row["ratio"], row["memcpy_ratio"])
            self.assertEqual(row["bound"], 0.85 if row["name"] == "layerwise" else 0.9)
            self.assertEqual(row["piece_bytes"] % row["block_size"], 0)
            self.assertIsInstance(row["met"], bool)

    def test_transfer_on_a_screen(self):
        out = self.assert_done(run("bench", "transfer", "--bytes", "1MiB", "--runs", 1)).out
        self.assertEqual(out.count("\n  gather "), 48)
        self.assertIn("\n1x576 1-byte, 2 threads\n", out)

    def test_screens_have_a_line_for_each_figure(self):
        done = self.assert_done(run("bench", "pool", *POOL))
        for name in [*BLOCKS, *PROMPTS, *STEPS, *BYTES]:
            self.assertIn(f"\n  {name} ", done.out)
        for steps in SPREADS:
            self.assertIn(f" {steps} ", done.out)
        done = self.assert_done(run("bench", "prefix", *PREFIX))
        for name in [*KEYS, *LOOKUPS]:
            self.assertIn(f"\n  {name} ", done.out)
        done = self.assert_done(run("bench", "pool", "--curve", "--blocks", 1000, "--runs", 1))
        for name in CURVE:
            self.assertIn(f" {name}", done.out)
        self.assertIn("\n        1000 ", done.out)

    def test_help(self):
        text = self.assert_done(run("bench", "--help")).out
        for option in ("--blocks", "--curve", "--sequences", "--tokens", "--prompts", "--bytes",
                       "--runs", "--json"):
            self.assertIn(option + " ", text)

    def test_bad_words(self):
        self.assert_line(run("bench"), 2, "pool or prefix")
        self.assert_line(run("bench", "pond"), 2, '"pond"', "pool or prefix")
        self.assert_line(run("bench", "pool", "prefix"), 2, '"prefix"')
        self.assert_line(run("bench", "pool", "--prompts", 16), 2, "pool", "--prompts")
        self.assert_line(run("bench", "prefix", "--sequences", 16), 2, "prefix", "--sequences")
        self.assert_line(run("bench", "prefix", "--blocks", 16), 2, "prefix", "--blocks")
        self.assert_line(run("bench", "prefix", "--curve"), 2, "prefix", "--curve")
        self.assert_line(run("bench", "transfer", "--tokens", 16), 2, "transfer", "--tokens")
        self.assert_line(run("bench", "pool", "--bytes", 16), 2, "pool", "--bytes")
        self.assert_line(run("bench", "transfer", "--bytes", "x"), 2, "--bytes")
        for option, bench, value in (("--runs", "pool", 0), ("--runs", "prefix", 1001),
                                     ("--blocks", "pool", 1), ("--tokens", "prefix", 15),
                                     ("--sequences", "pool", 0),
                                     ("--prompts", "prefix", 0)):
            self.assert_line(run("bench", bench, option, value), 2, option, "a number from")


program.main()
