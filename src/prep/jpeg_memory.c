#include "prep/jpeg_memory.h"

#include <jerror.h>
#include <string.h>

/* What jpeglib.h leaves to the memory manager to define. */
struct jvirt_sarray_control {
    struct jvirt_sarray_control *next;
    JSAMPARRAY rows; /* NULL until realized */
    JDIMENSION width;
    JDIMENSION count;
    boolean zero;
};

struct jvirt_barray_control {
    struct jvirt_barray_control *next;
    JBLOCKARRAY rows;
    JDIMENSION width;
    JDIMENSION count;
    boolean zero;
};

/* libjpeg's vector code reads and writes whole vectors at the end of a row. */
#define ROW_ALIGN ((size_t)128)

static struct leat_jpeg_memory *memory_of(j_common_ptr cinfo)
{
    return cinfo->client_data;
}

static void *take(j_common_ptr cinfo, size_t bytes)
{
    void *p = leat_arena_take(memory_of(cinfo)->arena, bytes);
    if (!p)
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
    return p;
}

/* Whatever the pool: a file's tables too, which libjpeg would keep for the next file. */
static void *alloc_small(j_common_ptr cinfo, int pool, size_t bytes)
{
    return take(cinfo, bytes);
}

static void *alloc_large(j_common_ptr cinfo, int pool, size_t bytes)
{
    return take(cinfo, bytes);
}

static JSAMPARRAY take_samples(j_common_ptr cinfo, JDIMENSION width, JDIMENSION count)
{
    size_t stride = (width + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    JSAMPARRAY rows = take(cinfo, count * sizeof *rows);
    JSAMPROW data = take(cinfo, stride * count);
    for (JDIMENSION i = 0; i < count; i++)
        rows[i] = data + stride * i;
    return rows;
}

static JBLOCKARRAY take_blocks(j_common_ptr cinfo, JDIMENSION width, JDIMENSION count)
{
    JBLOCKARRAY rows = take(cinfo, count * sizeof *rows);
    JBLOCKROW data = take(cinfo, (size_t)width * count * sizeof *data);
    for (JDIMENSION i = 0; i < count; i++)
        rows[i] = data + (size_t)width * i;
    return rows;
}

static JSAMPARRAY alloc_sarray(j_common_ptr cinfo, int pool, JDIMENSION width, JDIMENSION count)
{
    return take_samples(cinfo, width, count);
}

static JBLOCKARRAY alloc_barray(j_common_ptr cinfo, int pool, JDIMENSION width, JDIMENSION count)
{
    return take_blocks(cinfo, width, count);
}

static jvirt_sarray_ptr request_virt_sarray(j_common_ptr cinfo, int pool, boolean zero, JDIMENSION width,
                                            JDIMENSION count, JDIMENSION access)
{
    struct leat_jpeg_memory *m = memory_of(cinfo);
    jvirt_sarray_ptr v = take(cinfo, sizeof *v);
    *v = (struct jvirt_sarray_control){.next = m->samples, .width = width, .count = count, .zero = zero};
    m->samples = v;
    return v;
}

static jvirt_barray_ptr request_virt_barray(j_common_ptr cinfo, int pool, boolean zero, JDIMENSION width,
                                            JDIMENSION count, JDIMENSION access)
{
    struct leat_jpeg_memory *m = memory_of(cinfo);
    jvirt_barray_ptr v = take(cinfo, sizeof *v);
    *v = (struct jvirt_barray_control){.next = m->blocks, .width = width, .count = count, .zero = zero};
    m->blocks = v;
    return v;
}

static void realize_virt_arrays(j_common_ptr cinfo)
{
    struct leat_jpeg_memory *m = memory_of(cinfo);
    for (struct jvirt_sarray_control *v = m->samples; v; v = v->next) {
        if (v->rows)
            continue;
        v->rows = take_samples(cinfo, v->width, v->count);
        for (JDIMENSION i = 0; v->zero && i < v->count; i++)
            memset(v->rows[i], 0, v->width);
    }
    for (struct jvirt_barray_control *v = m->blocks; v; v = v->next) {
        if (v->rows)
            continue;
        v->rows = take_blocks(cinfo, v->width, v->count);
        if (v->zero && v->count)
            memset(v->rows[0], 0, (size_t)v->width * v->count * sizeof(JBLOCK));
    }
}

static JSAMPARRAY access_virt_sarray(j_common_ptr cinfo, jvirt_sarray_ptr v, JDIMENSION start, JDIMENSION count,
                                     boolean writable)
{
    if (!v->rows || start > v->count || count > v->count - start)
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    return v->rows + start;
}

static JBLOCKARRAY access_virt_barray(j_common_ptr cinfo, jvirt_barray_ptr v, JDIMENSION start, JDIMENSION count,
                                      boolean writable)
{
    if (!v->rows || start > v->count || count > v->count - start)
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    return v->rows + start;
}

static void free_pool(j_common_ptr cinfo, int pool)
{
    struct leat_jpeg_memory *m = memory_of(cinfo);
    m->samples = NULL;
    m->blocks = NULL;
    if (pool == JPOOL_PERMANENT)
        m->original.free_pool(cinfo, pool);
}

void leat_jpeg_memory_install(j_common_ptr cinfo, struct leat_jpeg_memory *memory, struct leat_arena *arena)
{
    *memory = (struct leat_jpeg_memory){.arena = arena, .original = *cinfo->mem};
    cinfo->client_data = memory;
    cinfo->mem->alloc_small = alloc_small;
    cinfo->mem->alloc_large = alloc_large;
    cinfo->mem->alloc_sarray = alloc_sarray;
    cinfo->mem->alloc_barray = alloc_barray;
    cinfo->mem->request_virt_sarray = request_virt_sarray;
    cinfo->mem->request_virt_barray = request_virt_barray;
    cinfo->mem->realize_virt_arrays = realize_virt_arrays;
    cinfo->mem->access_virt_sarray = access_virt_sarray;
    cinfo->mem->access_virt_barray = access_virt_barray;
    cinfo->mem->free_pool = free_pool;
}
