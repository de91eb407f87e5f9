"""Random transfer jobs, and single mistakes in them."""
import random

from support.transfer_model import limit, width

FORMS = ("2LTD", "L2TD", "2TD", "T2D", "MLA", "BLOCKS")

class Maker:
    """Random structures; files get their sizes when all is placed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.sizes = {}

    def chance(self, share):
        return self.random.random() < share

    def pick(self, low, high):
        return self.random.randint(low, high)

    def file(self, bytes_, name):
        name = f"{name}{len(self.sizes)}.bin"
        self.sizes[name] = bytes_
        return name

    def pad(self):
        return self.pick(1, 9) if self.chance(0.3) else 0

    def plane(self, heads, row, blocks, size, offset):
        """(plane, end) with axes in random order and random padding."""
        strides, extent = {}, row
        axes = [("head", heads), ("token", size)]
        self.random.shuffle(axes)
        for name, n in axes + [("block", blocks)]:
            strides[name] = extent + self.pad()
            extent = (n - 1) * strides[name] + extent if n > 1 else extent
        if self.chance(0.1):  # blocks inside of tokens or heads
            strides, extent = {}, row
            axes = [("head", heads), ("token", size), ("block", blocks)]
            self.random.shuffle(axes)
            for name, n in axes:
                strides[name] = extent + self.pad()
                extent = (n - 1) * strides[name] + extent
        return {"buffer": 0, "offset": offset, "heads": heads, "row_bytes": row,
                "block_stride": strides["block"], "token_stride": strides["token"],
                "head_stride": strides["head"]}, offset + extent

    def interleave(self, layers):
        """All planes of all layers side by side in each block, as a pool of pages would."""
        at = 0
        for pages in layers:
            for plane in pages["planes"]:
                plane["offset"] = at
                plane["head_stride"] = plane["row_bytes"]
                plane["token_stride"] = width(plane)
                at += width(plane) * pages["block_size"] + self.pad()
        for pages in layers:
            for plane in pages["planes"]:
                plane["block_stride"] = at
        return max(plane["offset"] + (pages["num_blocks"] - 1) * at
                   + width(plane) * pages["block_size"]
                   for pages in layers for plane in pages["planes"])

    def pages(self, shapes, sizes, name="p"):
        """A side: shapes[layer] = [(heads, row)], sizes[layer] = (blocks, block_size)."""
        files = [[self.pick(0, 5), []] for _ in range(self.pick(1, 2))]
        layers = []
        for shape, (blocks, size) in zip(shapes, sizes):
            planes = []
            for heads, row in shape:
                number = self.pick(0, len(files) - 1)
                plane, end = self.plane(heads, row, blocks, size, files[number][0])
                plane["buffer"] = number
                files[number][0] = end + self.pad()
                planes.append(plane)
            layers.append({"num_blocks": blocks, "block_size": size, "planes": planes})
        if self.chance(0.3):
            end = self.interleave(layers)
            for pages in layers:
                for plane in pages["planes"]:
                    plane["buffer"] = 0
            return {"buffers": [self.file(end + self.pad(), name)], "layers": layers}
        return {"buffers": [self.file(end, name) for end, _ in files], "layers": layers}

    def options(self, job, n_layers):
        if self.chance(0.4):
            job["layers"] = self.random.sample(range(n_layers), self.pick(1, n_layers))
        if self.chance(0.3):
            job["layerwise"] = self.chance(0.8)
        if self.chance(0.5):
            job["workers"] = self.pick(1, 5)

    def tokens(self, job, n_blocks, size):
        """`tokens` and `skip_tokens` of a job over blocks."""
        most = n_blocks * size
        if self.chance(0.4):
            job["tokens"] = most - self.pick(0, size - 1)
        self.skip(job, job.get("tokens", most))

    def skip(self, job, n):
        if self.chance(0.3):
            job["skip_tokens"] = self.pick(0, n)

    def gather_or_scatter(self):
        form = self.random.choice(FORMS)
        n_layers = self.pick(1, 4)
        n_planes = 2 if form not in ("MLA", "BLOCKS") else self.pick(1, 3)
        shape = [(self.pick(1, 4), self.pick(1, 40)) for _ in range(n_planes)]
        shapes = [shape] * n_layers
        if form == "BLOCKS" and self.chance(0.3):
            shapes = [[(self.pick(1, 3), self.pick(1, 20))] for _ in range(n_layers)]
        blocks, size = self.pick(2, 9), self.pick(1, 6)
        one_size_ = form == "BLOCKS" or self.chance(0.7)
        sizes = [(blocks, size if one_size_ else self.pick(1, 6)) for _ in range(n_layers)]
        job = {"op": self.random.choice(("gather", "scatter"))}
        self.options(job, n_layers)
        if form in ("2TD", "T2D"):
            job["layers"] = [self.pick(0, n_layers - 1)]
        paged = self.pages(shapes, sizes)
        numbers = job.get("layers", list(range(n_layers)))
        if one_size_ and self.chance(0.5):
            ids = self.random.sample(range(blocks), self.pick(1, blocks))
            job["blocks"] = ids
            n = len(ids) * size
            self.tokens(job, len(ids), size)
        else:
            most = limit([paged], numbers, False)
            job["slots"] = self.random.sample(range(most), self.pick(1, most))
            if self.chance(0.5):
                start = self.pick(0, most - 1)
                job["slots"] = list(range(start, self.pick(start + 1, most)))
            job["slots"] = [-self.pick(1, 9) if self.chance(0.1) else s for s in job["slots"]]
            n = len(job["slots"])
            self.skip(job, n)
        rows = self.pick(1, n + 3)
        if form == "BLOCKS":
            rows = (rows + size - 1) // size * size
        held = 1 if form in ("2TD", "T2D") else n_layers
        total = rows * sum(h * r for pages in shapes[:held] for h, r in pages)
        offset = self.pad()
        chunk = {"chunk": form, "tokens": rows, "offset": offset,
                 "files": [self.file(offset + total + self.pad(), "c")
                           for _ in range((n + rows - 1) // rows)]}
        job["src"], job["dst"] = (paged, chunk) if job["op"] == "gather" else (chunk, paged)
        return job

    def copy(self):
        n_layers = self.pick(1, 3)
        shapes = [[(self.pick(1, 4), self.pick(1, 40)) for _ in range(self.pick(1, 3))]
                  for _ in range(n_layers)]
        by_blocks = self.chance(0.5)
        job = {"op": "copy"}
        self.options(job, n_layers)
        size = self.pick(1, 6)
        sides = [self.pages(shapes, [(self.pick(2, 8), size if by_blocks else self.pick(1, 6))
                                     for _ in range(n_layers)]) for _ in range(2)]
        if self.chance(0.2):
            sides[1] = sides[0]
        job["src"], job["dst"] = sides
        numbers = job.get("layers", list(range(n_layers)))
        most = [limit([side], numbers, by_blocks) for side in sides]
        n = self.pick(1, min(most))
        lists = [self.random.sample(range(m), n) for m in most]
        if by_blocks:
            job["blocks"] = [list(pair) for pair in zip(*lists)]
            self.tokens(job, n, size)
        else:
            job["src_slots"], job["dst_slots"] = [
                [-1 if self.chance(0.1) else slot for slot in slots] for slots in lists]
            self.skip(job, n)
        return job

    def swap(self):
        n_layers = self.pick(1, 3)
        shapes = [[(self.pick(1, 4), self.pick(1, 40)) for _ in range(self.pick(1, 3))]
                  for _ in range(n_layers)]
        job = {"op": "swap"}
        self.options(job, n_layers)
        blocks = self.pick(2, 9)
        job["src"] = self.pages(shapes, [(blocks, self.pick(1, 5)) for _ in range(n_layers)])
        ids = self.random.sample(range(blocks), self.pick(1, blocks // 2) * 2)
        job["blocks"] = [list(pair) for pair in zip(ids[::2], ids[1::2])]
        return job

    def reshard(self):
        n_layers, total = self.pick(1, 2), self.random.choice((1, 2, 4, 8, 3, 6))
        ranks = [self.random.choice([r for r in (1, 2, 3, 4, 8) if total % r == 0 or total < r])
                 for _ in range(2)]
        rows = [[self.pick(1, 20) for _ in range(self.pick(1, 3))] for _ in range(n_layers)]
        size, blocks = self.pick(1, 5), self.pick(2, 5)
        job = {"op": "reshard", "heads_total": total}
        self.options(job, n_layers)
        for name, n in zip(("src", "dst"), ranks):
            shapes = [[(max(1, total // n), row) for row in layer] for layer in rows]
            job[name] = [self.pages(shapes, [(blocks, size)] * n_layers) for _ in range(n)]
        n = self.pick(1, blocks)
        lists = [self.random.sample(range(blocks), n) for _ in range(2)]
        job["blocks"] = [list(pair) for pair in zip(*lists)]
        self.tokens(job, n, size)
        return job

    def job(self):
        self.sizes = {}
        kind = self.random.choice(("gather_or_scatter", "gather_or_scatter", "copy", "swap",
                                   "reshard"))
        job = getattr(self, kind)()
        used = set()
        for side in (job["src"], job.get("dst", {})):
            for one in side if isinstance(side, list) else [side]:
                used.update(one.get("buffers", one.get("files", [])))
        return job, {name: self.random.randbytes(size) for name, size in self.sizes.items()
                     if name in used}


def all_pages(job):
    for name in ("src", "dst"):
        side = job.get(name, {})
        for one in side if isinstance(side, list) else [side]:
            yield from one.get("layers", [])


def spoil(job, rng):
    """Changes one thing of a job, which may or may not be wrong then."""
    big = rng.choice((1 << 20, 1 << 40, (1 << 62) + 1))
    ids = [name for name in ("slots", "src_slots", "dst_slots", "blocks") if name in job]
    kind = rng.choice(("id", "id", "layer", "count", "plane", "plane", "shape", "chunk", "twice"))
    if kind == "id":
        ids = job[rng.choice(ids)]
        i = rng.randrange(len(ids))
        if isinstance(ids[i], list):
            ids[i][rng.randrange(2)] = rng.choice((big, -1, 9))
        else:
            ids[i] = rng.choice((big, -1, 50))
    elif kind == "layer":
        job["layers"] = [rng.choice((0, 1, 4, -1, big))]
    elif kind == "count" and job["op"] != "swap":
        name = rng.choice(("tokens", "skip_tokens") if "blocks" in job else ("skip_tokens",))
        job[name] = rng.choice((0, 3, 10, big, -1))
    elif kind == "plane":
        plane = rng.choice(rng.choice(list(all_pages(job)))["planes"])
        name = rng.choice(("offset", "block_stride", "token_stride", "head_stride", "row_bytes",
                           "heads"))
        plane[name] = rng.choice((big, plane[name] + 1, max(1, plane[name] - 1), 1))
    elif kind == "shape":
        pages = rng.choice(list(all_pages(job)))
        if rng.random() < 0.3 and len(pages["planes"]) > 1:
            pages["planes"].pop()
        else:
            name = rng.choice(("num_blocks", "block_size"))
            pages[name] = rng.choice((1, pages[name] + 1, big))
    elif kind == "chunk":
        for name in ("src", "dst"):
            chunk = job.get(name, {})
            if isinstance(chunk, dict) and "chunk" in chunk:
                what = rng.choice(("offset", "tokens", "chunk", "files"))
                if what == "chunk":
                    chunk[what] = rng.choice(FORMS)
                elif what == "files":
                    chunk[what].append(chunk[what][0])
                else:
                    chunk[what] = rng.choice((big, chunk[what] + 1))
    elif kind == "twice":
        ids = job[rng.choice(ids)]
        ids[rng.randrange(len(ids))] = ids[0]
