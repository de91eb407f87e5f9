"""pagedkv shell at work: blocks, hits, branches, steps, events, refusals of work.

Expected values follow from the contract: block ids are handed out from the front of the free list,
ids 1 to 10 here; what is keyed goes to its back when released, the rest to its front, the last
block of a request first.
"""
import hashlib
import sys

sys.dont_write_bytecode = True
from support import program  # noqa: E402
from support.shell import HOST_BACKED, Case, layer, op, specs  # noqa: E402

NINE = list(range(1, 10))  # two whole blocks and one token
A = [op("open", "a", tokens=NINE), op("allocate", "a", new_tokens=9)]
WAITING = {"cached_tokens": 0, "blocks": [[]], "shared_prefix": 0}
SHARDED = {"options": {"dcp": 2}}


def keys_of(tokens, salt=None, size=4):
    """Keys of small tokens, digested here."""
    key, keys = hashlib.sha256(b"\x6evllm-none-hash").digest(), []
    for at in range(0, len(tokens) // size * size, size):
        part = bytes(tokens[at:at + size])
        extra = b"\xf6"
        if salt and at == 0:
            extra = b"\x81\x82\x6acache_salt" + bytes([0x60 + len(salt)]) + salt.encode()
        key = hashlib.sha256(b"\x83\x58\x20" + key + bytes([0x80 + size]) + part + extra).digest()
        keys.append(key.hex())
    return keys


def taken(new_blocks, cached=0, copies=()):
    return {"ok": True, "cached_tokens": cached, "new_blocks": [new_blocks],
            "copies": [list(pair) for pair in copies], "zero": []}


class Blocks(Case):
    def test_an_allocate_takes_from_the_front(self):
        answers = self.talk(*A, op("blocks", "a"), op("state"), op("check"))
        self.assertEqual(answers[:3], [WAITING, taken([1, 2, 3]), {"blocks": [[1, 2, 3]]}])
        self.assertEqual(answers[3]["free"], [4, 5, 6, 7, 8, 9, 10])
        self.assertAlmostEqual(answers[3]["usage"], 0.3)
        self.assertEqual((answers[3]["requests"], answers[4]), (1, {"ok": True}))

    def test_what_is_keyed_is_hit_and_goes_to_the_back(self):
        answers = self.talk(*A, op("open", "b", tokens=NINE), op("allocate", "b", new_tokens=1),
                            op("free", "a"), op("state"), op("free", "b"), op("state"))
        self.assertEqual(answers[2], {"cached_tokens": 8, "blocks": [[1, 2]], "shared_prefix": 0})
        self.assertEqual(answers[3], taken([4], cached=8))
        self.assertEqual(answers[5]["free"], [3, 5, 6, 7, 8, 9, 10])
        self.assertEqual(answers[7]["free"], [4, 3, 5, 6, 7, 8, 9, 10, 2, 1])

    def test_blocks_of_some_tokens(self):
        answers = self.talk(*A, *(op("blocks", "a", tokens=n) for n in (0, 4, 5, 9, 1000)))
        self.assertEqual([one["blocks"][0] for one in answers[2:]],
                         [[], [1], [1, 2], [1, 2, 3], [1, 2, 3]])

    def test_a_request_may_grow_to_max_model_len(self):
        answers = self.talk(*A, op("append", "a", tokens=[0] * 23),
                            op("allocate", "a", new_tokens=23), op("append", "a", tokens=[0]),
                            op("allocate", "a", new_tokens=1), op("open", "b", tokens=[0] * 32),
                            op("open", "c", tokens=[0] * 33), op("state"))
        self.assertEqual(answers[2:4], [{"tokens": 32}, taken([4, 5, 6, 7, 8])])
        for i in (4, 5, 7):
            self.assert_error(answers[i], "PKV_E_INVAL")
        self.assertEqual(answers[8]["requests"], 2)

    def test_a_lack_of_blocks_is_an_answer(self):
        work = [op("open", "a", tokens=[0] * 32), op("allocate", "a", new_tokens=32),
                op("open", "b", tokens=[1] * 12), op("state")]
        answers = self.talk(*work, op("allocate", "b", new_tokens=12), op("state"),
                            op("allocate", "b", new_tokens=8), op("check"))
        self.assertEqual(answers[4:], [{"ok": False}, answers[3], taken([9, 10]), {"ok": True}])

    def test_rolled_back_slots_are_used_again(self):
        answers = self.talk(*A, op("append", "a", tokens=[0]),
                            op("allocate", "a", new_tokens=4), op("computed", "a", tokens=10),
                            op("append", "a", tokens=[0]), op("allocate", "a", new_tokens=3))
        self.assertEqual(answers[3:], [taken([4]), {}, {"tokens": 11}, taken([])])

    def test_a_window_lets_go(self):
        # Position 16 sees 5 tokens, 12 to 16: three blocks lie below. All are keyed if every block
        # is kept; else only block 3, from which the same prompt can resume at token 12, and 2 is
        # the first to be handed out again.
        window = layer(kind="sliding_window", sliding_window=5)
        for more, taken_next, free in (({"retention_interval": None}, 5, [6, 7, 8, 9, 10, 3, 2, 1]),
                                       ({}, 2, [1, 5, 6, 7, 8, 9, 10, 3])):
            answers = self.talk(
                op("open", "a", tokens=[0] * 16), op("allocate", "a", new_tokens=16),
                op("append", "a", tokens=[0]), op("allocate", "a", new_tokens=1),
                op("blocks", "a"), op("state"), op("check"), document=specs(window, **more))
            self.assertEqual(answers[3:5],
                             [taken([taken_next]), {"blocks": [[0, 0, 0, 4, taken_next]]}])
            self.assertEqual((answers[5]["free"], answers[6]), (free, {"ok": True}))

    def test_gates(self):
        first = [op("open", "a", tokens=[0] * 24), op("allocate", "a", new_tokens=24),
                 op("open", "b", tokens=[1] * 20)]  # six blocks gone, four left
        for fields, fits in (({"full_sequence_must_fit": True}, False), ({}, True),
                             ({"reserved_blocks": 4}, False), ({"reserved_blocks": 3}, True)):
            answers = self.talk(*first, op("allocate", "b", new_tokens=4, **fields))
            self.assertEqual(answers[3], taken([7]) if fits else {"ok": False})

    def test_the_watermark_is_for_those_who_wait(self):
        # a fifth of 11 blocks, 2, stays free; three are left for b
        first = [op("open", "a", tokens=[0] * 28), op("allocate", "a", new_tokens=28),
                 op("open", "b", tokens=[1] * 8)]
        answers = self.talk(*first, op("allocate", "b", new_tokens=8),
                            op("allocate", "b", new_tokens=4), op("allocate", "b", new_tokens=4),
                            document=specs(watermark=0.2))
        self.assertEqual(answers[3:], [{"ok": False}, taken([8]), taken([9])])
        answers = self.talk(*first, op("allocate", "b", new_tokens=8, others_scheduled=False),
                            document=specs(watermark=0.2))
        self.assertEqual(answers[3], taken([8, 9]))


class Content(Case):
    def test_keys(self):
        answers = self.talk(*A, op("keys", "a"), op("cached", "a"),
                            op("open", "b", tokens=[3] * 8, salt="s"), op("keys", "b"))
        self.assertEqual(answers[2:4], [{"keys": keys_of(NINE)}, {"tokens": 8}])
        self.assertEqual(answers[5], {"keys": keys_of([3] * 8, "s")})

    def test_who_may_not_hit(self):
        answers = self.talk(*A, op("open", "b", tokens=NINE, salt="s"),
                            op("open", "c", tokens=NINE, lora=["n", "p"]),
                            op("open", "d", tokens=NINE, skip_cache=True),
                            op("open", "e", tokens=NINE,
                               mm=[{"hash": "h", "offset": 5, "length": 1}]),
                            op("open", "f", tokens=NINE), op("allocate", "f", new_tokens=9,
                                                             use_cached=False))
        self.assertEqual([one["cached_tokens"] for one in answers[2:7]], [0, 0, 0, 4, 8])
        self.assertEqual(answers[7], taken([4, 5, 6]))

    def test_a_preempted_request_keeps_its_tokens(self):
        answers = self.talk(*A, op("preempt", "a"), op("lookup", "a"), op("state"),
                            op("allocate", "a", new_tokens=1), op("stats"))
        self.assertEqual(answers[2:4], [{}, {"cached_tokens": 8, "blocks": [[1, 2]],
                                             "shared_prefix": 0}])
        self.assertEqual(answers[4]["free"], [3, 4, 5, 6, 7, 8, 9, 10, 2, 1])
        self.assertEqual(answers[5:], [taken([3], cached=8), {
            "reset": False, "requests": 1, "queries": 9, "hits": 0, "preempted_requests": 1,
            "preempted_queries": 9, "preempted_hits": 8}])

    def test_a_load_is_keyed_when_it_has_ended(self):
        look = op("open", "b", tokens=NINE), op("free", "b")
        answers = self.talk(op("open", "a", tokens=NINE),
                            op("allocate", "a", new_tokens=0, external_tokens=8,
                               delay_caching=True), *look, op("cache", "a", tokens=9),
                            op("cache", "a", tokens=8), *look)
        self.assertEqual(answers[1], taken([]))  # they are not computed into
        self.assertEqual((answers[2], answers[6]["cached_tokens"]), (WAITING, 8))
        self.assertEqual(answers[6]["blocks"], [[1, 2]])
        self.assert_error(answers[4], "PKV_E_INVAL")

    def test_evicted_content_is_not_hit(self):
        for blocks, hit in (([2], 4), ([1], 0), ([2, 1, 1], 0), ([0, 3, 10], 8), ([], 8)):
            answers = self.talk(*A, op("evict", blocks=blocks), op("open", "b", tokens=NINE),
                                op("check"))
            self.assertEqual(answers[2], {"ok": True})
            self.assertEqual((answers[3]["cached_tokens"], answers[4]), (hit, {"ok": True}))

    def test_a_reset_that_is_refused_changes_nothing(self):
        answers = self.talk(*A, op("events"), op("reset"), op("events"), op("stats"),
                            op("open", "b", tokens=NINE), op("free", "a"), op("reset"),
                            op("lookup", "b"), op("events"), op("stats"), op("state"))
        self.assertEqual(answers[3:5], [{"ok": False}, {"events": []}])
        self.assertEqual((answers[5]["reset"], answers[6]["cached_tokens"]), (False, 8))
        self.assertEqual(answers[8:11], [{"ok": True}, WAITING,
                                         {"events": [{"type": "AllBlocksCleared"}]}])
        self.assertIs(answers[11]["reset"], True)
        self.assertEqual(answers[12]["free"], [3, 4, 5, 6, 7, 8, 9, 10, 2, 1])

    def test_events(self):
        stored, key = {}, keys_of(NINE)
        answers = self.talk(
            op("open", "a", tokens=NINE, session="s7", lora=None), op("allocate", "a",
                                                                      new_tokens=9),
            op("events"), op("append", "a", tokens=[1, 2, 3]), op("allocate", "a", new_tokens=3),
            op("evict", blocks=[2]), op("events"), op("events"))
        stored = {"type": "BlockStored", "block_hashes": key, "parent_block_hash": None,
                  "token_ids": NINE[:8], "block_size": 4, "lora_id": None, "medium": "GPU",
                  "lora_name": None, "extra_keys": [None, None], "group_idx": 0,
                  "kv_cache_spec_kind": "full_attention", "session_id": "s7"}
        self.assertEqual(answers[2], {"events": [stored]})
        third = keys_of(NINE + [1, 2, 3])[2]
        self.assertEqual(answers[6], {"events": [
            {**stored, "block_hashes": [third], "parent_block_hash": key[1],
             "token_ids": [9, 1, 2, 3], "extra_keys": [None]},
            {"type": "BlockRemoved", "block_hashes": [key[1]], "medium": "GPU", "group_idx": 0}]})
        self.assertEqual(answers[7], {"events": []})

    def test_events_tell_what_else_a_key_depends_on(self):
        answers = self.talk(op("open", "a", tokens=NINE, salt="s", lora=["n", "/p", 3],
                               mm=[{"hash": "h", "offset": 3, "length": 2}]),
                            op("allocate", "a", new_tokens=9), op("events"))
        event, = answers[2]["events"]
        self.assertEqual((event["lora_id"], event["lora_name"]), (3, "n"))
        self.assertEqual(event["extra_keys"], [["n", ["h", 3], "s"], ["n", ["h", -1]]])
        silent = self.talk(*A, op("evict", blocks=[1]), op("events"),
                           document=specs(events=False))
        self.assertEqual(silent[3], {"events": []})

    def test_full_reports(self):
        again = [op("free", "a"), op("events"), op("open", "b", tokens=NINE, report="full"),
                 op("allocate", "b", new_tokens=1), op("events"), op("check")]
        answers = self.talk(*A, *again)
        event, = answers[6]["events"]
        self.assertEqual((event["type"], event["block_hashes"]), ("BlockStored", keys_of(NINE)))
        # a block of two ranks holds 8 tokens, and one is hit
        answers = self.talk(*A, *again, document=specs(**SHARDED))
        event, = answers[6]["events"]
        self.assertEqual(event["block_hashes"], keys_of(NINE, size=8))
        self.assertEqual(answers[7], {"ok": True})


class Steps(Case):
    def test_many_requests_at_once(self):
        work = [op("open", "a", tokens=[1] * 4), op("open", "b", tokens=[2] * 4),
                op("allocate", "a", new_tokens=4), op("allocate", "b", new_tokens=4)]
        answers = self.talk(*work, op("steps", ids=["b", "a"], tokens=[[3], [4, 5]]),
                            op("append", "a", tokens=[6]),
                            op("steps", ids=["a"], tokens=[[]], lookahead=2),
                            op("append", "b", tokens=[7]))
        self.assertEqual(answers[4], {"done": 2, "new_blocks": [[[3]], [[4]]], "copies": [],
                                      "zero": []})
        self.assertEqual(answers[6], {"done": 1, "new_blocks": [[[5]]], "copies": [], "zero": []})
        self.assertEqual((answers[5], answers[7]), ({"tokens": 7}, {"tokens": 6}))

    def test_the_first_refusal_ends_it_and_keeps_the_tokens(self):
        work = [op("open", "a", tokens=[1] * 32), op("open", "b", tokens=[2] * 4),
                op("open", "c", tokens=[3] * 4)]
        work += [op("allocate", "c", new_tokens=4), op("allocate", "b", new_tokens=4),
                 op("allocate", "a", new_tokens=28)]  # one block is left
        answers = self.talk(*work, op("steps", ids=["b", "c", "a"], tokens=[[1], [1], []]),
                            op("append", "c", tokens=[1]), op("append", "b", tokens=[1]),
                            op("check"))
        self.assertEqual(answers[6]["done"], 1)
        self.assertEqual(answers[6]["new_blocks"], [[[10]]])
        self.assertEqual(answers[7:], [{"tokens": 6}, {"tokens": 6}, {"ok": True}])

    def test_steps_that_are_refused(self):
        work = [*A, op("append", "a", tokens=[1]), op("open", "w", tokens=[1]),
                op("open", "b", tokens=[5] * 4), op("allocate", "b", new_tokens=4)]
        self.assert_refused(work, [
            op("steps"), op("steps", ids=[], tokens=[]), op("steps", ids="a", tokens=[[1]]),
            op("steps", ids=["a"]), op("steps", ids=["a"], tokens=[[1], [1]]),
            op("steps", ids=["a", "a"], tokens=[[1], [1]]), op("steps", ids=["a"], tokens=[1]),
            op("steps", ids=["b", "a", "b"], tokens=[[1], [1], [1]]),
            op("steps", ids=["a", "w"], tokens=[[1], [1]]), op("steps", ids=[5], tokens=[[1]]),
            op("steps", ids=["a", "b"], tokens=[[1], []]),
            op("steps", ids=["a", "b"], tokens=[[1], [1] * 29]),
            op("steps", ids=["a", "b"], tokens=[[1], [-1]])], "PKV_E_INVAL")
        self.assert_refused(work, [op("steps", ids=["a", "nobody"], tokens=[[1], [1]])],
                            "PKV_E_NOT_FOUND")

    def test_a_deferred_free_ends_with_the_step(self):
        answers = self.talk(*A, op("free", "a", defer=True), op("state"), op("check"), op("free",
                                                                                         "a"),
                            op("open", "a", tokens=NINE), op("step"), op("state"), op("check"))
        self.assertEqual((answers[2], answers[4]), ({}, {"ok": True}))
        self.assertEqual((answers[3]["free"], answers[3]["requests"]), ([4, 5, 6, 7, 8, 9, 10], 0))
        self.assert_error(answers[5], "PKV_E_NOT_FOUND")
        self.assertEqual(answers[6]["cached_tokens"], 8)
        self.assertEqual(answers[8]["free"], [3, 4, 5, 6, 7, 8, 9, 10, 2, 1])
        waiting = self.talk(op("open", "a", tokens=[1]), op("free", "a", defer=True), op("step"),
                            op("state"))
        self.assertEqual(waiting[3]["free"], list(range(1, 11)))

    def test_batches(self):
        answers = self.talk(op("batch", ops=[*A, op("nonsense"), 5, op("free", "x"), op("check")]),
                            op("batch", ops=[]), op("blocks", "a"))
        inside = answers[0]["answers"]
        self.assertEqual((inside[:2], inside[5]), ([WAITING, taken([1, 2, 3])], {"ok": True}))
        for answer, code in zip(inside[2:5], ("INVAL", "INVAL", "NOT_FOUND")):
            self.assert_error(answer, "PKV_E_" + code)
        self.assertEqual(answers[1:], [{"answers": []}, {"blocks": [[1, 2, 3]]}])

    def test_batches_that_are_refused(self):
        self.assert_refused(A, [
            op("batch"), op("batch", ops={}), op("batch", ops=None),
            op("batch", ops=[op("free", "a"), op("batch", ops=[])]),
            op("batch", ops=[op("free", "a"), op("restart", specs=specs())])], "PKV_E_INVAL")


class Refused(Case):
    def test_work_that_does_not_fit_the_request(self):
        waits = op("open", "w", tokens=[7] * 5)
        self.assert_refused([*A, waits], [
            op("lookup", "a"), op("preempt", "w"), op("fork", "w", new_id="n"),
            op("fork", "a"), op("fork", "a", new_id="w"), op("fork", "a", new_id="a"),
            op("fork", "a", new_id=5), op("computed", "a", tokens=10),
            op("computed", "a", tokens=7), op("computed", "w", tokens=1),
            op("cache", "a", tokens=10), op("cache", "w", tokens=0),
            op("allocate", "a", new_tokens=0), op("allocate", "w", new_tokens=0),
            op("allocate", "a", new_tokens=1, use_cached=True),
            op("allocate", "a", new_tokens=1, external_tokens=1),
            op("allocate", "w", new_tokens=1, external_tokens=6),
            op("allocate", "w", new_tokens=(1 << 31) - 1),
            op("allocate", "w", new_tokens=1, external_tokens=(1 << 31) - 1),
            op("allocate", "a", new_tokens=24), op("append", "a", tokens=[1] * 24),
            op("open", "n", tokens=[1] * 33), op("zero", "a", tokens=3), op("zero", "w", tokens=0)],
            "PKV_E_INVAL")
        # 4 tokens are keyed, and one is hit before what is external: 4 + 5 of 8
        self.assert_refused([*A, op("open", "b", tokens=NINE[:8])],
                            [op("allocate", "b", new_tokens=0, external_tokens=5)], "PKV_E_INVAL")

    def test_without_a_host_pool_nothing_is_transferred(self):
        self.assert_refused(A, [op("sparse", requests=[["a", 1]]), op("sparse"),
                                op("transferred", ids=[1], copies=[]), op("transferred"),
                                op("loaded", "a"), op("loaded", "a", failed=True)], "PKV_E_INVAL")

    def test_a_restart_that_fails_keeps_the_old_cache(self):
        bad = [op("restart"), op("restart", specs=None), op("restart", specs=[]),
               op("restart", specs={}), op("restart", specs=specs(blocks=8)),
               op("restart", specs=specs(layer(kind="nonsense"))),
               op("restart", specs={**specs(), "colour": 1}), op("restart", specs={"merge": []}),
               op("restart", specs=specs(retention_interval=3))]
        self.assert_refused(A, bad, "PKV_E_INVAL")
        self.assert_refused(A, [(op("restart", specs=HOST_BACKED), "mla_attention")],
                            "PKV_E_UNSUPPORTED")

    def test_a_restart_begins_anew(self):
        answers = self.talk(*A, op("restart", specs=specs(blocks=9)), op("state"), op("events"),
                            op("stats"), op("free", "a"), *A)
        self.assertEqual(answers[2:5], [{"ok": True}, {"free": list(range(1, 9)), "usage": 0,
                                                       "requests": 0}, {"events": []}])
        self.assertEqual((answers[5]["requests"], answers[7:]), (0, [WAITING, taken([1, 2, 3])]))
        self.assert_error(answers[6], "PKV_E_NOT_FOUND")


program.main()
