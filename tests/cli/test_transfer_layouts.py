"""pagedkv transfer with a side that is told as an engine's tensors.

The rows of a layout are worked out by hand: element (k, b, t, h, e) of the shape, times its stride.
"""
import json
import pathlib
import random
import sys
import tempfile

sys.dont_write_bytecode = True
from support import program  # noqa: E402
from support.program import run  # noqa: E402

BLOCKS, SIZE, HEADS, DIM = 4, 4, 2, 8
ROW = DIM * 2  # bytes of bfloat16
HINTS = {"num_kv_heads": HEADS, "tokens_per_block": SIZE, "head_dim": DIM}


def problem(shape, **more):
    return {"engine": "vllm", "hints": {"layout": "NHD", **HINTS},
            "layers": [{"name": "a", "tensors": [{"shape": shape, "dtype": "bfloat16", **more}]}]}


FLASH = problem([2, BLOCKS, SIZE, HEADS, DIM])  # K of all blocks, then V
INFER = problem([BLOCKS, 2, SIZE, HEADS, DIM])  # K and V of one block together


def row_of(layout, kv, slot, head):
    """Where a row begins, in bytes."""
    block, token = divmod(slot, SIZE)
    outer = kv * BLOCKS + block if layout is FLASH else block * 2 + kv
    return ((outer * SIZE + token) * HEADS + head) * ROW


class Layouts(program.Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        rng = random.Random(11)
        size = 2 * BLOCKS * SIZE * HEADS * ROW
        self.files = {name: rng.randbytes(size) for name in ("p", "q")}
        self.files["c"] = rng.randbytes(2 * 3 * HEADS * ROW)
        for name, data in self.files.items():
            (self.path / name).write_bytes(data)

    def transfer(self, **job):
        (self.path / "job.json").write_text(json.dumps(job), encoding="utf-8")
        return run("transfer", "--file", self.path / "job.json", "--json")

    def assert_unchanged(self):
        for name, data in self.files.items():
            self.assertEqual((self.path / name).read_bytes(), data, name)

    def test_a_gather_reads_the_rows_of_either_layout(self):
        for layout in (FLASH, INFER):
            with self.subTest(shape=layout["layers"][0]["tensors"][0]["shape"]):
                done = self.transfer(op="gather", slots=[5, 0, 15],
                                     src={"buffers": ["p"], "layout": layout},
                                     dst={"chunk": "2LTD", "tokens": 3, "files": ["c"]})
                self.assertEqual(done.json, {"ok": True, "tokens": 3, "bytes": 3 * 2 * HEADS * ROW})
                wanted = b"".join(
                    self.files["p"][at:at + ROW] for kv in range(2) for slot in (5, 0, 15)
                    for head in range(HEADS) for at in [row_of(layout, kv, slot, head)])
                self.assertEqual((self.path / "c").read_bytes(), wanted)

    def test_a_copy_goes_from_one_layout_to_another(self):
        done = self.transfer(op="copy", blocks=[[0, 3], [2, 1]],
                             src={"buffers": ["p"], "layout": FLASH},
                             dst={"buffers": ["q"], "layout": INFER})
        self.assertEqual(done.json["ok"], True, done.out)
        wanted = bytearray(self.files["q"])
        for source, target in ((0, 3), (2, 1)):
            for token in range(SIZE):
                for kv in range(2):
                    for head in range(HEADS):
                        at = row_of(FLASH, kv, source * SIZE + token, head)
                        to = row_of(INFER, kv, target * SIZE + token, head)
                        wanted[to:to + ROW] = self.files["p"][at:at + ROW]
        self.assertEqual((self.path / "q").read_bytes(), bytes(wanted))

    def test_a_layout_that_is_refused_refuses_the_job(self):
        two = {"engine": "vllm", "layers": [{"name": "a", "tensors": [
            {"shape": [2, 2, SIZE, HEADS, DIM], "dtype": "bfloat16"}]}]}
        done = self.transfer(op="copy", blocks=[[0, 1]], src={"buffers": ["p"], "layout": two},
                             dst={"buffers": ["q"], "layout": INFER})
        self.assert_no(done, "ambiguous")
        self.assertEqual(done.json["field"], "src.layout")
        self.assert_unchanged()

    def test_axes_that_were_named_by_stride_alone_are_not_moved(self):
        width = 2 * HEADS * DIM  # all of the file as latents; tokens outside of blocks
        latents = {"engine": "vllm", "revision": "seed", "layers": [{"name": "a", "tensors": [
            {"shape": [BLOCKS, SIZE, width], "strides": [width, BLOCKS * width, 1],
             "dtype": "bfloat16"}]}]}
        done = self.transfer(op="swap", blocks=[[0, 1]], src={"buffers": ["p"], "layout": latents})
        self.assert_no(done, "unsupported", "odd_order")
        self.assert_unchanged()

    def test_another_dtype_of_equal_width_is_other_content(self):
        halves = problem([2, BLOCKS, SIZE, HEADS, DIM])
        halves["layers"][0]["tensors"][0]["dtype"] = "float16"
        done = self.transfer(op="copy", blocks=[[0, 1]], src={"buffers": ["p"], "layout": FLASH},
                             dst={"buffers": ["q"], "layout": halves})
        self.assert_no(done, "CONTENT")
        self.assert_unchanged()

    def test_every_tensor_has_one_buffer(self):
        done = self.transfer(op="swap", blocks=[[0, 1]],
                             src={"buffers": ["p", "q"], "layout": FLASH})
        self.assert_line(done, 2, "src.buffers")
        self.assert_unchanged()

    def test_a_tensor_beyond_its_file_is_out_of_bounds(self):
        larger = problem([2, BLOCKS + 1, SIZE, HEADS, DIM])
        done = self.transfer(op="swap", blocks=[[0, 1]], src={"buffers": ["p"], "layout": larger})
        self.assert_no(done, "BOUNDS")
        self.assert_unchanged()


program.main()
