"""pagedkv shell: two requests over the same blocks.

Whoever first writes into a block that both hold gets a private copy of it then; blocks that nobody
writes any more stay shared. Ids 1 to 10 are handed out in this order here.
"""
import sys

sys.dont_write_bytecode = True
from support import program  # noqa: E402
from support.shell import Case, layer, op, specs  # noqa: E402

SIX = [op("open", "a", tokens=[1, 2, 3, 4, 5, 6]), op("allocate", "a", new_tokens=6)]
EIGHT = [op("open", "a", tokens=list(range(8))), op("allocate", "a", new_tokens=8)]
UNCACHED = {"caching": False}


class Forks(Case):
    def write(self, request, *tokens):
        """Operations that append tokens and compute them."""
        return [op("append", request, tokens=list(tokens)),
                op("allocate", request, new_tokens=len(tokens))]

    def tables(self, *requests):
        return [op("blocks", request) for request in requests]

    def test_the_first_writer_gets_a_copy(self):
        answers = self.talk(*SIX, op("fork", "a", new_id="b"), *self.write("b", 7),
                            *self.write("a", 8), *self.tables("a", "b"), op("check"), op("step"),
                            op("check"), op("free", "a"), op("free", "b"), op("state"))
        self.assertEqual(answers[2], {"blocks": [[1, 2]]})
        self.assertEqual((answers[4]["copies"], answers[4]["new_blocks"]), ([[2, 3]], [[3]]))
        self.assertEqual((answers[6]["copies"], answers[6]["new_blocks"]), ([], [[]]))
        self.assertEqual(answers[7:9], [{"blocks": [[1, 2]]}, {"blocks": [[1, 3]]}])
        self.assertEqual((answers[9], answers[11]), ({"ok": True}, {"ok": True}))
        self.assertEqual(sorted(answers[14]["free"]), list(range(1, 11)))

    def test_each_of_three_but_the_last_gets_a_copy(self):
        answers = self.talk(*SIX, op("fork", "a", new_id="b"), op("fork", "b", new_id="c"),
                            *self.write("a", 7), *self.write("b", 7), *self.write("c", 8),
                            *self.tables("a", "b", "c"), op("step"), op("check"))
        self.assertEqual([answers[i]["copies"] for i in (5, 7, 9)], [[[2, 3]], [[2, 4]], []])
        self.assertEqual([one["blocks"] for one in answers[10:13]], [[[1, 3]], [[1, 4]], [[1, 2]]])
        self.assertEqual(answers[14], {"ok": True})

    def test_both_ends_of_a_copy_stay_until_the_next_step(self):
        answers = self.talk(*SIX, op("fork", "a", new_id="b"), *self.write("b", 7), op("free", "a"),
                            op("free", "b"), op("state"), op("check"), op("step"), op("state"))
        self.assertEqual(sorted(answers[7]["free"]), [1, 4, 5, 6, 7, 8, 9, 10])
        self.assertEqual(answers[8], {"ok": True})
        self.assertEqual(sorted(answers[10]["free"]), list(range(1, 11)))

    def test_whole_blocks_stay_shared(self):
        answers = self.talk(*EIGHT, op("fork", "a", new_id="b"), *self.write("a", 8),
                            *self.write("b", 9), *self.tables("a", "b"), op("check"))
        self.assertEqual([answers[i]["copies"] for i in (4, 6)], [[], []])
        self.assertEqual([one["blocks"] for one in answers[7:9]], [[[1, 2, 3]], [[1, 2, 4]]])

    def test_a_fork_is_a_request_like_others(self):
        answers = self.talk(*SIX, op("keys", "a"), op("fork", "a", new_id="b"), op("keys", "b"),
                            op("free", "a"), op("step"), *self.write("b", 7), op("state"),
                            op("preempt", "b"), op("lookup", "b"), op("free", "b"), op("check"))
        self.assertEqual(answers[2], answers[4])
        self.assertEqual((answers[8]["copies"], answers[9]["requests"]), ([], 1))
        self.assertEqual(answers[11]["cached_tokens"], 4)

    def test_slots_beyond_the_computed_tokens_are_not_shared(self):
        work = [SIX[0], op("allocate", "a", new_tokens=6, lookahead=4)]  # three blocks
        answers = self.talk(*work, op("fork", "a", new_id="b"), op("blocks", "a"), op("check"))
        self.assertEqual(answers[2:4], [{"blocks": [[1, 2]]}, {"blocks": [[1, 2, 3]]}])

    def test_a_copy_needs_a_block(self):
        full = [op("open", "x", tokens=[0] * 32), op("allocate", "x", new_tokens=32)]
        answers = self.talk(*SIX, *full, op("fork", "a", new_id="b"), op("append", "a", tokens=[7]),
                            op("state"), op("allocate", "a", new_tokens=1), op("state"),
                            op("free", "b"), op("allocate", "a", new_tokens=1), op("check"))
        self.assertEqual(answers[7], {"ok": False})
        self.assertEqual(answers[6], answers[8])
        self.assertEqual((answers[10]["ok"], answers[10]["copies"]), (True, []))

    def test_every_group_copies_its_own(self):
        two = specs(layer(), layer("b", kind="sliding_window", sliding_window=6), blocks=41)
        answers = self.talk(*SIX, op("fork", "a", new_id="b"), *self.write("b", 7),
                            *self.tables("a", "b"), op("check"), document=two)
        before, after = answers[5]["blocks"], answers[6]["blocks"]
        self.assertEqual(answers[4]["copies"], [[before[g][1], after[g][1]] for g in range(2)])
        self.assertEqual([a[0] == b[0] for a, b in zip(before, after)], [True, True])
        self.assertEqual(len({*before[0], *before[1], after[0][1], after[1][1]}), 6)

    def test_steps_copy_too(self):
        answers = self.talk(*SIX, op("fork", "a", new_id="b"),
                            op("steps", ids=["b", "a"], tokens=[[7], [8]]), op("check"),
                            op("step"), op("check"))
        self.assertEqual((answers[3]["done"], answers[3]["copies"]), (2, [[2, 3]]))
        self.assertEqual(answers[3]["new_blocks"], [[[3]], [[]]])
        self.assertEqual((answers[4], answers[6]), ({"ok": True}, {"ok": True}))

    def test_a_rollback_to_a_block_boundary_gives_the_shared_block_back(self):
        answers = self.talk(*EIGHT, op("fork", "a", new_id="b"), op("computed", "a", tokens=4),
                            op("allocate", "a", new_tokens=4), *self.tables("a", "b"), op("check"),
                            document=specs(**UNCACHED))
        self.assertEqual(answers[4]["copies"], [])
        self.assertEqual(answers[5:], [{"blocks": [[1, 3]]}, {"blocks": [[1, 2]]}, {"ok": True}])

    def test_a_rollback_over_two_blocks_copies_what_stays_valid(self):
        answers = self.talk(*EIGHT, op("fork", "a", new_id="b"), op("computed", "a", tokens=2),
                            op("allocate", "a", new_tokens=6), *self.tables("a", "b"), op("check"),
                            document=specs(**UNCACHED))
        self.assertEqual(answers[4]["copies"], [[1, 3]])
        self.assertEqual(answers[5:], [{"blocks": [[3, 4]]}, {"blocks": [[1, 2]]}, {"ok": True}])

    def test_a_drafter_whose_content_depends_on_later_tokens_refuses_forks(self):
        ahead = specs(layer(is_draft=True), options={"speculative": {
            "method": "eagle", "tokens": 1, "lookahead_hashes": True}})
        answers = self.talk(op("open", "a", tokens=[1, 2, 3, 4]), op("allocate", "a", new_tokens=4),
                            op("fork", "a", new_id="b"), op("check"), document=ahead)
        self.assertEqual(answers[2].get("code"), "PKV_E_UNSUPPORTED")
        self.assertEqual(answers[3], {"ok": True})

    def test_a_fork_of_unverified_drafts_is_refused(self):
        # four slots are computed when three tokens are known; the fourth could differ
        answers = self.talk(op("open", "a", tokens=[1, 2, 3]), op("allocate", "a", new_tokens=4),
                            op("fork", "a", new_id="b"), op("check"))
        self.assertEqual(answers[2].get("code"), "PKV_E_INVAL")
        self.assertEqual(answers[3], {"ok": True})

    def test_a_fork_of_nothing_computed(self):
        answers = self.talk(op("open", "a", tokens=[1, 2, 3]), op("allocate", "a", new_tokens=3),
                            op("computed", "a", tokens=0), op("fork", "a", new_id="b"),
                            op("free", "b", defer=True), op("step"), op("check"))
        self.assertEqual(answers[2:], [{}, {"blocks": [[]]}, {}, {"ok": True}, {"ok": True}])


program.main()
