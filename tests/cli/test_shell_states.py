"""pagedkv shell with recurrent layers: states that a connector may store, the hit that it is shown,
the end of a request, checkpoints where a shared prefix ends.

Block ids are handed out from the front of the free list, group by group: full attention first. Each
expected answer is also vLLM's own.
"""
import sys

sys.dont_write_bytecode = True
from support import program  # noqa: E402
from support.shell import Case, layer, op, specs  # noqa: E402

WORDS = list(range(1, 33))


def states(name="s", **fields):
    """A layer of aligned states, its page as large as that of layer(): 4 x 2 x 64 x 2 bytes."""
    return {"name": name, "kind": "mamba", "block_size": 4, "shapes": [[4, 64]],
            "dtypes": ["float32"], "mamba_cache_mode": "align", "page_size_padded": 1024, **fields}


def recurrent(*more, **fields):
    """Full attention in group 0, states in group 1; every state is kept."""
    return specs(layer(), states(), *more,
                 **{"blocks": 31, "retention_interval": None, **fields})


def run(request, tokens, *chunks):
    """Opens a request and computes it in steps of so many tokens."""
    ops = [op("open", request, tokens=tokens)]
    for chunk in chunks:
        ops += [op("allocate", request, new_tokens=chunk), op("step")]
    return ops


class Offloads(Case):
    def test_states_are_offered_as_they_are_keyed(self):
        answers = self.talk(op("open", "a", tokens=WORDS[:9]), op("allocate", "a", new_tokens=4),
                            op("offloads"), op("offloads"), op("step"),
                            op("allocate", "a", new_tokens=4), op("offloads"), op("step"),
                            op("allocate", "a", new_tokens=1), op("offloads"),
                            document=recurrent())
        self.assertEqual([answers[i]["offloads"] for i in (2, 3, 6, 9)],
                         [[["a", 1, 2, 4]], [], [["a", 1, 4, 8]], []])

    def test_they_are_listed_by_request_and_then_by_group(self):
        answers = self.talk(op("open", "b", tokens=WORDS[:9]), op("open", "a", tokens=WORDS[9:18]),
                            op("allocate", "b", new_tokens=4), op("allocate", "a", new_tokens=4),
                            op("offloads"), document=recurrent(states("t")))
        self.assertEqual(answers[4], {"offloads": [["b", 1, 2, 4], ["b", 2, 3, 4],
                                                   ["a", 1, 5, 4], ["a", 2, 6, 4]]})

    def test_a_state_inside_a_block_is_offered_in_its_copy(self):
        answers = self.talk(op("open", "a", tokens=WORDS[:7]), op("allocate", "a", new_tokens=6),
                            op("offloads"), op("append", "a", tokens=[9]), op("step"),
                            op("allocate", "a", new_tokens=2), op("offloads"),
                            document=recurrent(states("t"), prefix_match_unit=2))
        self.assertEqual(answers[2], {"offloads": []})
        self.assertEqual(answers[5]["copies"], [[3, 5], [4, 6]])
        self.assertEqual(answers[6], {"offloads": [["a", 1, 5, 6], ["a", 1, 3, 8],
                                                   ["a", 2, 6, 6], ["a", 2, 4, 8]]})

    def test_in_a_batch_and_in_steps_too(self):
        answers = self.talk(op("batch", ops=[
            op("open", "a", tokens=WORDS[:5]), op("allocate", "a", new_tokens=4), op("step"),
            op("steps", ids=["a"], tokens=[WORDS[5:8]]), op("offloads")]), document=recurrent())
        self.assertEqual(answers[0]["answers"][4], {"offloads": [["a", 1, 2, 4], ["a", 1, 4, 8]]})

    def test_without_states_nothing_is_offered(self):
        answers = self.talk(op("open", "a", tokens=WORDS[:9]), op("allocate", "a", new_tokens=9),
                            op("offloads"), op("finish", "a"))
        self.assertEqual(answers[2:], [{"offloads": []}, {"offloads": [], "blocks": [[1, 2, 3]]}])


class Finish(Case):
    FINE = recurrent(prefix_match_unit=2)

    def test_a_tail_of_its_own_is_told_once(self):
        answers = self.talk(*run("a", WORDS[:7], 6), op("finish", "a"), op("finish", "a"),
                            op("check"), op("free", "a"), op("open", "b", tokens=WORDS[:7]),
                            document=self.FINE)
        self.assertEqual(answers[3:6], [{"offloads": [[1, 3, 6]], "blocks": [[1, 2], [0, 3]]},
                                        {"offloads": [], "blocks": [[1, 2], [0, 3]]},
                                        {"ok": True}])
        self.assertEqual(answers[7], {"cached_tokens": 6, "blocks": [[1, 2], [0, 3]],
                                      "shared_prefix": 0})

    def test_not_one_that_was_written_over_or_may_be(self):
        answers = self.talk(*run("a", WORDS[:7], 6, 1), op("finish", "a"), document=self.FINE)
        self.assertEqual(answers[-1], {"offloads": [], "blocks": [[1, 2], [0, 3]]})
        answers = self.talk(*run("a", WORDS[:7], 4),
                            op("allocate", "a", new_tokens=2, in_flight_tokens=4),
                            op("finish", "a"), document=self.FINE)
        self.assertEqual(answers[-1]["offloads"], [])

    def test_the_blocks_are_those_of_the_computed_tokens(self):
        # state 2 was read by the second step, and lies below what a third would read
        answers = self.talk(*run("a", WORDS[:9], 4, 4), op("finish", "a"), op("state"),
                            document=recurrent())
        self.assertEqual(answers[5], {"offloads": [], "blocks": [[1, 3], [0, 4]]})
        self.assertEqual(answers[6]["free"][-1], 2)

    def test_who_waits_cannot_finish(self):
        self.assert_refused([op("open", "w", tokens=WORDS[:9])], [op("finish", "w")],
                            "PKV_E_INVAL", recurrent())
        self.assert_refused([], [op("finish", "nobody")], "PKV_E_NOT_FOUND", recurrent())
        self.assert_refused([], [op("finish"), op("offloads", id="a")], "PKV_E_INVAL",
                            recurrent())


class Connector(Case):
    SPARSE = recurrent(retention_interval=0)
    FIRST = run("a", WORDS[:13], 4, 4, 4, 1)  # full 1, 3, 2, 4; the state after 12 in 5

    def test_what_full_attention_alone_has_is_shown(self):
        b = op("open", "b", tokens=WORDS[:10] + [99] * 6)
        answers = self.talk(*self.FIRST, b, op("lookup", "b", connector=True), op("lookup", "b"),
                            op("lookup", "b", connector=False), op("lookup", "b", connector=None),
                            document=self.SPARSE)
        plain = {"cached_tokens": 0, "blocks": [[], []], "shared_prefix": 8}
        shown = {"cached_tokens": 8, "blocks": [[1, 3], []], "shared_prefix": 0, "diverged": True}
        self.assertEqual(answers[9:], [plain, shown, plain, plain, plain])

    def test_where_all_agree_nothing_has_diverged(self):
        answers = self.talk(*self.FIRST, op("open", "b", tokens=WORDS[:13]),
                            op("lookup", "b", connector=True), document=self.SPARSE)
        self.assertEqual(answers[10], {"cached_tokens": 12, "blocks": [[1, 3, 2], [0, 0, 5]],
                                       "shared_prefix": 0, "diverged": False})

    def test_without_the_tail_of_attention_the_common_hit_is_shown(self):
        answers = self.talk(*run("a", WORDS[:13], 4, 4, 4, 1), op("evict", blocks=[5]),
                            op("open", "b", tokens=WORDS[:13]), op("lookup", "b", connector=True),
                            document=recurrent())
        self.assertEqual(answers[11], {"cached_tokens": 8, "blocks": [[1, 3], [0, 4]],
                                       "shared_prefix": 0, "diverged": False})

    def test_a_group_outside_of_prefixes_diverges(self):
        ring = layer("r", kind="circular_buffer", head_size=128, head_size_v=0)
        answers = self.talk(*run("a", WORDS[:5], 4, 1), op("open", "b", tokens=WORDS[:6]),
                            op("lookup", "b", connector=True), document=recurrent(ring))
        self.assertEqual(answers[6], {"cached_tokens": 4, "blocks": [[1], [2], []],
                                      "shared_prefix": 0, "diverged": True})

    def test_lookups_that_are_refused(self):
        self.assert_refused(self.FIRST, [
            op("lookup", "a", connector=True), op("lookup", "a", connector=False)],
            "PKV_E_INVAL", self.SPARSE)
        self.assert_refused([op("open", "w", tokens=[1])], [
            op("lookup", "w", connector=1), op("lookup", "w", connector="yes"),
            op("lookup", "w", connectors=True)], "PKV_E_INVAL", self.SPARSE)


class SharedPrefix(Case):
    """Full attention of a first request of 13 tokens is keyed up to 12, and a drafter gives up a
    unit of 2: whoever diverges after 12 shares 10, of which there is no state."""

    DRAFTER = {"speculative": {"method": "eagle", "tokens": 1, "lookahead_hashes": False}}

    def third(self, **fields):
        """What a third request finds after a second whose step ended at the junction."""
        work = [*run("a", WORDS[:13], 13), op("open", "b", tokens=WORDS[:12] + [99] * 10),
                op("allocate", "b", new_tokens=10), op("step"), op("allocate", "b", new_tokens=2),
                op("step"), op("allocate", "b", new_tokens=10), op("step"),
                op("open", "c", tokens=WORDS[:12] + [99]), op("check")]
        answers = self.talk(*work, document=recurrent(prefix_match_unit=2, **fields))
        self.assertEqual((answers[3]["cached_tokens"], answers[3]["shared_prefix"]), (0, 10))
        self.assertEqual(answers[-1], {"ok": True})
        return answers[-2]["cached_tokens"]

    def test_the_state_where_it_ends_is_kept_if_the_document_says_so(self):
        for checkpoint, hit in ((True, 10), (False, 0)):
            self.assertEqual(self.third(options=self.DRAFTER, shared_prefix_checkpoint=checkpoint),
                             hit)
        self.assertEqual(self.third(options=self.DRAFTER), 0)

    def test_documents_that_are_refused(self):
        bad = [op("restart", specs=recurrent(shared_prefix_checkpoint=value))
               for value in (1, "yes", [True])]
        self.assert_refused([], bad, "PKV_E_INVAL")

    def test_where_nothing_is_kept_it_changes_nothing(self):
        answers = self.talk(op("open", "a", tokens=WORDS[:9]), op("allocate", "a", new_tokens=9),
                            op("check"), document=specs(shared_prefix_checkpoint=True))
        self.assertEqual(answers[1]["new_blocks"], [[1, 2, 3]])


program.main()
