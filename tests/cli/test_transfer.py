"""pagedkv transfer, against row-by-row copies: random jobs, refusals, forms of answers."""
import copy
import json
import os
import pathlib
import random
import sys
import tempfile

sys.dont_write_bytecode = True
from support import program, transfer_maker, transfer_model  # noqa: E402
from support.program import run  # noqa: E402

SEED = int(os.environ.get("PKV_SEED", "1"))
N_JOBS = int(os.environ.get("PKV_RANDOM_JOBS", "150"))


def plane(offset, heads=2, row=8, size=4):
    return {"buffer": 0, "offset": offset, "heads": heads, "row_bytes": row,
            "block_stride": heads * row * size, "token_stride": heads * row, "head_stride": row}


def pages(name, blocks=4, size=4, planes=2, layers=1):
    own = blocks * size * 16
    return {"buffers": [name], "layers": [
        {"num_blocks": blocks, "block_size": size,
         "planes": [plane((l * planes + p) * own, size=size) for p in range(planes)]}
        for l in range(layers)]}


PAGES = 4 * 4 * 16 * 2  # bytes of pages()
GATHER = {"op": "gather", "slots": [5, -1, 0], "src": pages("p"),
          "dst": {"chunk": "2LTD", "tokens": 3, "files": ["c"], "offset": 0}}
COPY = {"op": "copy", "blocks": [[0, 1]], "src": pages("p"), "dst": pages("q")}
SWAP = {"op": "swap", "blocks": [[0, 1]], "src": pages("p")}
RESHARD = {"op": "reshard", "heads_total": 2, "blocks": [[0, 1]], "src": [pages("p")],
           "dst": [pages("q")]}


def changed(job, *changes):
    """A copy with values set: ("dst.tokens", 4) or ("src.layers.0.block_size", 2)."""
    job = copy.deepcopy(job)
    for path, value in changes:
        *place, last = path.split(".")
        at = job
        for step in place:
            at = at[int(step) if isinstance(at, list) else step]
        if value is None:
            del at[last]
        else:
            at[int(last) if isinstance(at, list) else last] = value
    return job


class Transfer(program.Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.files = {}

    def put(self, files):
        self.files = dict(files)
        for name, data in files.items():
            (self.path / name).write_bytes(data)

    def put_pages(self):
        rng = random.Random(7)
        self.put({"p": rng.randbytes(PAGES), "q": rng.randbytes(PAGES), "c": rng.randbytes(96)})

    def transfer(self, job, *options):
        text = job if isinstance(job, str) else json.dumps(job)
        (self.path / "job.json").write_text(text, encoding="utf-8")
        return run("transfer", "--file", self.path / "job.json", "--json", *options)

    def assert_files(self, files):
        for name, data in files.items():
            self.assertEqual((self.path / name).read_bytes(), data, name)

    def assert_refused(self, job, code, field):
        done = self.transfer(job)
        self.assert_no(done, code)
        self.assertEqual(done.json["field"], field, done.out)
        self.assertEqual(sorted(done.json), ["code", "error", "field"])
        self.assert_files(self.files)

    def assert_malformed(self, job, *parts):
        self.assert_line(self.transfer(job), 2, *parts)
        self.assert_files(self.files)


class Random(Transfer):
    def assert_like_model(self, seed, spoiled):
        maker = transfer_maker.Maker(seed)
        job, files = maker.job()
        if spoiled:
            job = copy.deepcopy(job)
            transfer_maker.spoil(job, maker.random)
        self.put(files)
        with self.subTest(seed=seed, job=json.dumps(job)):
            try:
                answer, after = transfer_model.perform(job, files)
            except transfer_model.Refused as refused:
                self.assert_no(self.transfer(job), str(refused))
                self.assert_files(files)
                return
            self.assertEqual(self.answer(self.transfer(job, "--dry-run")), answer)
            self.assert_files(files)
            self.assertEqual(self.answer(self.transfer(job)), answer)
            self.assert_files(after)

    def test_random_jobs_move_what_a_naive_copy_moves(self):
        for seed in range(SEED, SEED + N_JOBS):
            self.assert_like_model(seed, spoiled=False)

    def test_random_mistakes_are_refused_and_nothing_is_written(self):
        for seed in range(SEED, SEED + N_JOBS):
            self.assert_like_model(seed, spoiled=True)


class Refusals(Transfer):
    def setUp(self):
        super().setUp()
        self.put_pages()

    def test_numbers_that_do_not_exist(self):
        self.assert_refused(changed(GATHER, ("slots", [0, 16])), "RANGE", "slots[1]")
        self.assert_refused(changed(GATHER, ("slots", None), ("blocks", [-1])), "RANGE",
                            "blocks[0]")
        self.assert_refused(changed(GATHER, ("layers", [1])), "RANGE", "layers[0]")
        self.assert_refused(changed(GATHER, ("layers", [-1])), "RANGE", "layers[0]")
        self.assert_refused(changed(GATHER, ("slots", [1, 2, 3, 4])), "RANGE", "dst.files")
        self.assert_refused(changed(GATHER, ("skip_tokens", 4)), "RANGE", "skip_tokens")
        self.assert_refused(changed(COPY, ("blocks", [[0, 4]])), "RANGE", "blocks[0][1]")
        self.assert_refused(changed(COPY, ("blocks", [[-1, 1]])), "RANGE", "blocks[0][0]")
        self.assert_refused(changed(COPY, ("tokens", 5)), "RANGE", "tokens")
        self.assert_refused(changed(COPY, ("tokens", 0)), "RANGE", "tokens")
        self.assert_refused(changed(COPY, ("tokens", -1)), "RANGE", "tokens")
        self.assert_refused(changed(COPY, ("blocks", [[0, 1], [2, 3]]), ("tokens", 4)), "RANGE",
                            "tokens")

    def test_rows_that_end_beyond_their_file(self):
        self.assert_refused(changed(GATHER, ("src.layers.0.num_blocks", 5)), "BOUNDS",
                            "src.layers[0].planes[1]")
        self.assert_refused(changed(GATHER, ("dst.offset", 1)), "BOUNDS", "dst.files[0]")
        self.assert_refused(changed(COPY, ("dst.layers.0.planes.0.block_stride", 1 << 62)),
                            "BOUNDS", "dst.layers[0].planes[0]")
        self.assert_refused(changed(COPY, ("src.layers.0.num_blocks", (1 << 63) - 1)), "BOUNDS",
                            "src.layers[0].planes[0]")

    def test_bytes_written_twice_or_read_and_written(self):
        self.assert_refused(changed(COPY, ("blocks", [[0, 1], [2, 1]])), "OVERLAP", "blocks")
        self.assert_refused(changed(COPY, ("dst.buffers.0", "p"), ("blocks", [[0, 1], [1, 2]])),
                            "OVERLAP", "blocks")
        self.assert_refused(changed(SWAP, ("blocks", [[0, 1], [1, 2]])), "OVERLAP", "blocks")
        self.assert_refused(changed(SWAP, ("blocks", [[1, 1]])), "OVERLAP", "blocks")
        self.assert_refused(changed(GATHER, ("dst.files", ["p"])), "OVERLAP", "dst")

    def test_a_file_is_itself_under_any_name(self):
        os.link(self.path / "p", self.path / "other")
        os.symlink("p", self.path / "third")
        for name in ("other", "third", "./p", str(self.path / "p")):
            self.assert_refused(changed(COPY, ("dst.buffers.0", name), ("blocks", [[0, 0]])),
                                "OVERLAP", "blocks")

    def test_sides_that_hold_different_things(self):
        for path, field in (("heads", "heads"), ("row_bytes", "row_bytes")):
            self.assert_refused(changed(COPY, (f"dst.layers.0.planes.1.{path}", 1)), "CONTENT",
                                f"dst.layers[0].planes[1].{field}")
        self.assert_refused(changed(COPY, ("dst.layers.0.block_size", 2)), "CONTENT",
                            "dst.layers[0].block_size")
        self.assert_refused(changed(RESHARD, ("heads_total", 4)), "CONTENT",
                            "src[0].layers[0].planes[0].heads")
        self.assert_refused(changed(GATHER, ("dst.chunk", "BLOCKS")), "CONTENT", "dst.tokens")
        self.assert_refused(changed(GATHER, ("src", pages("p", planes=1))), "CONTENT", "dst.chunk")

    def test_malformed_documents(self):
        for job in (changed(GATHER, ("slots", [])), changed(GATHER, ("blocks", [0])),
                    changed(GATHER, ("slots", None)), changed(GATHER, ("slots", [1 << 63])),
                    changed(GATHER, ("slots", [0.5])), changed(GATHER, ("op", "move")),
                    changed(GATHER, ("op", None)), changed(GATHER, ("color", 1)),
                    changed(GATHER, ("tokens", 3)), changed(GATHER, ("workers", 0)),
                    changed(GATHER, ("workers", 257)), changed(GATHER, ("layers", [0, 0])),
                    changed(GATHER, ("layers", [])), changed(GATHER, ("layerwise", 1)),
                    changed(GATHER, ("dst.chunk", "LTD2")), changed(GATHER, ("dst.tokens", 0)),
                    changed(GATHER, ("dst.files", [])), changed(GATHER, ("dst.offset", -1)),
                    changed(GATHER, ("dst.color", 1)), changed(GATHER, ("src.layers", [])),
                    changed(GATHER, ("src.layers.0.num_blocks", 0)),
                    changed(GATHER, ("src.layers.0.planes.0.buffer", 1)),
                    changed(GATHER, ("src.layers.0.planes.0.row_bytes", 0)),
                    changed(GATHER, ("src.layers.0.planes.0.head_stride", -1)),
                    changed(GATHER, ("src.layers.0.planes.0.head_stride", None)),
                    changed(GATHER, ("src.layers.0.planes.0.color", 1)),
                    changed(COPY, ("blocks", [[0]])), changed(COPY, ("slots", [0])),
                    changed(COPY, ("blocks", None), ("src_slots", [0]), ("dst_slots", [0, 1])),
                    changed(SWAP, ("dst", pages("q"))), changed(SWAP, ("tokens", 4)),
                    changed(SWAP, ("skip_tokens", 1)), changed(RESHARD, ("heads_total", 0)),
                    changed(RESHARD, ("heads_total", None)), changed(RESHARD, ("src", [])),
                    changed(RESHARD, ("src", pages("p"))), [], "x", "{", '{"op": "gather", '
                    '"op": "gather"}'):
            self.assert_malformed(job)
        self.assert_malformed(changed(GATHER, ("color", 1)), '"color"')

    def test_files_that_cannot_be_used(self):
        for name in ("none", "."):
            self.assert_line(self.transfer(changed(GATHER, ("dst.files", [name]))), 3)
        self.assert_line(run("transfer", "--file", self.path / "none"), 3, "none")

    def test_an_empty_file_has_no_rows(self):
        (self.path / "empty").write_bytes(b"")
        self.assert_no(self.transfer(changed(GATHER, ("dst.files", ["empty"]))), "BOUNDS",
                       "0 bytes")


class Answers(Transfer):
    def setUp(self):
        super().setUp()
        self.put_pages()

    def test_a_dry_run_writes_nothing(self):
        self.assertEqual(self.answer(self.transfer(GATHER, "--dry-run")),
                         {"ok": True, "tokens": 2, "bytes": 64})
        self.assert_files(self.files)

    def test_layerwise_tells_the_bytes_of_each_layer(self):
        job = changed(COPY, ("src", pages("p", blocks=2, layers=2)),
                      ("dst", pages("q", blocks=2, layers=2)), ("layerwise", True),
                      ("layers", [1, 0]))
        self.assertEqual(self.answer(self.transfer(job)),
                         {"ok": True, "tokens": 4, "bytes": 256, "steps": [128, 128]})

    def test_a_swap_counts_both_ways_and_no_tokens(self):
        self.assertEqual(self.answer(self.transfer(SWAP)), {"ok": True, "tokens": 0, "bytes": 256})

    def test_without_json_a_line_for_people(self):
        (self.path / "job.json").write_text(json.dumps(GATHER), encoding="utf-8")
        done = self.assert_done(run("transfer", "--file", self.path / "job.json"))
        self.assertEqual(done.out, "moved 2 tokens, 64 bytes (64 B)\n")
        (self.path / "job.json").write_text(json.dumps(changed(GATHER, ("slots", [99]))),
                                            encoding="utf-8")
        self.assert_line(run("transfer", "--file", self.path / "job.json"), 1, "RANGE", "99")

    def test_lines_are_answered_one_by_one(self):
        here = changed(GATHER, ("src.buffers", [str(self.path / "p")]),
                       ("dst.files", [str(self.path / "c")]))
        jobs = [json.dumps(here), "{", json.dumps(changed(here, ("slots", [99]))),
                json.dumps(changed(here, ("dst.files", ["none/such"]))), "", json.dumps(here)]
        done = self.assert_done(run("transfer", "--file", "-", stdin="\n".join(jobs)))
        answers = [json.loads(line) for line in done.out.splitlines()]
        self.assertEqual([a.get("code", a.get("ok")) for a in answers],
                         [True, "INPUT", "RANGE", "IO", True])

    def test_a_layout_that_is_none_is_malformed(self):
        job = changed(GATHER, ("src.layers", None), ("src.layout", {}))
        self.assertEqual(self.transfer(job).code, 2)

    def test_usage(self):
        self.assert_line(run("transfer"), 2, "--file")
        text = self.assert_done(run("transfer", "--help")).out
        for option in ("--file", "--dry-run", "--json"):
            self.assertIn(option + " ", text)


program.main()
