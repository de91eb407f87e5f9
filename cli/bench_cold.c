/* bench_cold.c  Memory hooks that know what they gave out, and memory that lies in no cache.
 *
 * The hooks give the library memory of malloc() and never give pages back to the system. So all
 * memory of a cache can be counted, and flushed line by line. */
#define _DEFAULT_SOURCE

#include "bench.h"

#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { LINE = 64, PAGE = 4096, HEAD = 16, WALK = 32 << 20, FAR_WALK = 256 << 20 };
enum { HUGE_PAGE = 2 << 20 };

typedef struct bench_piece {
    void *memory; /* NULL: unused */
    size_t bytes;
} bench_piece;

/* ---- hooks ---- */

static void grow(bench_heap *heap)
{
    heap->room = heap->room ? 2 * heap->room : 1024;
    heap->pieces = realloc(heap->pieces, heap->room * sizeof *heap->pieces);
    heap->unused = realloc(heap->unused, heap->room * sizeof *heap->unused);
    bench_need(heap->pieces && heap->unused, "out of memory");
}

static size_t head_of(size_t align)
{
    return align < HEAD ? HEAD : align;
}

/* Large pieces on huge pages, as the library's own hooks have them. */
void *bench_pages(size_t bytes, size_t align)
{
    const size_t pages = (bytes + HUGE_PAGE - 1) / HUGE_PAGE;
    const bool huge = bytes >= pages * HUGE_PAGE / 3 * 2;
    align = huge ? HUGE_PAGE : align;
    const size_t whole = (bytes + align - 1) / align * align;
    void *memory = aligned_alloc(align, whole);
#ifdef MADV_HUGEPAGE
    if (memory && huge) {
        (void)madvise(memory, whole, MADV_HUGEPAGE);
    }
#endif
    return memory;
}

/* The place of a piece stands in the 8 bytes before it, beside what malloc() keeps there. */
static void *heap_alloc(void *ctx, size_t bytes, size_t align)
{
    bench_heap *heap = ctx;
    const size_t head = head_of(align);
    if (heap->n_unused == 0 && heap->n_pieces == heap->room) {
        grow(heap);
    }
    uint8_t *memory = bench_pages(head + bytes, head);
    if (!memory) {
        return NULL;
    }
    const uint64_t at = heap->n_unused > 0 ? heap->unused[--heap->n_unused] : heap->n_pieces++;
    heap->pieces[at] = (bench_piece){memory + head, bytes};
    heap->bytes += bytes;
    memcpy(memory + head - sizeof at, &at, sizeof at);
    return memory + head;
}

static void heap_free(void *ctx, void *memory, size_t bytes, size_t align)
{
    bench_heap *heap = ctx;
    uint64_t at;
    memcpy(&at, (uint8_t *)memory - sizeof at, sizeof at);
    heap->pieces[at].memory = NULL;
    heap->unused[heap->n_unused++] = at;
    heap->bytes -= bytes;
    free((uint8_t *)memory - head_of(align));
}

pkv_alloc bench_hooks(bench_heap *heap)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, 32 << 20); /* no page faults of freed memory within a figure */
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
    return (pkv_alloc){heap, heap_alloc, heap_free};
}

void bench_heap_free(bench_heap *heap)
{
    free(heap->pieces);
    free(heap->unused);
    *heap = (bench_heap){0};
}

/* ---- cold memory ---- */

#if defined(__x86_64__)

static bool has_clflushopt(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 23 & 1);
}

__attribute__((target("clflushopt"))) static void flush(const char *from, const char *to)
{
    for (; from < to; from += LINE) {
        _mm_clflushopt((void *)(uintptr_t)from);
    }
}

void bench_chill(const void *memory, size_t bytes)
{
    static int fast = -1;
    const char *from = memory, *to = from + bytes;
    from -= (uintptr_t)from % LINE;
    fast = fast < 0 ? has_clflushopt() : fast;
    if (fast) {
        flush(from, to);
        return;
    }
    for (; from < to; from += LINE) {
        _mm_clflush(from);
    }
}

const char *bench_chill_name(void)
{
    return "every line flushed to memory (clflush), page addresses forgotten, code stays warm";
}

#else

void bench_chill(const void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
}

const char *bench_chill_name(void)
{
    return "256 MiB of other memory written before it";
}

#endif

void bench_chill_heap(const bench_heap *heap)
{
    for (size_t i = 0; i < heap->n_pieces; i++) {
        if (heap->pieces[i].memory) {
            bench_chill((uint8_t *)heap->pieces[i].memory - HEAD, heap->pieces[i].bytes + HEAD);
        }
    }
}

/* A byte in each of 8,192 pages, at changing lines: more pages than the CPU knows addresses of. */
void bench_chilled(void)
{
    static volatile uint8_t *walked;
    if (!walked) {
        walked = malloc(FAR_WALK);
        bench_need(walked != NULL, "out of memory");
    }
#if defined(__x86_64__)
    _mm_mfence();
    const size_t bytes = WALK, stride = PAGE + LINE;
#else
    const size_t bytes = FAR_WALK, stride = LINE;
#endif
    for (size_t i = 0; i < bytes; i += stride) {
        walked[i] ^= 1;
    }
}
