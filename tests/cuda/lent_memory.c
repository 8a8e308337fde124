#include "lent_memory.h"

#include "harness.h"

#include "core/context/context.h"
#include "core/context/module.h"
#include "core/device/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, MOST_GPUS = 16, ALIGNMENT = 256, SHIFT = 64 /* bytes */ };

struct piece {
    char *address; /* as given: `shift` bytes behind the module's */
    size_t bytes, shift;
    stn_device *source;
};

/* A call of one of the functions. */
struct note {
    const void *stream;
    int is_return;
};

static struct {
    pthread_mutex_t lock;
    stn_device *sources[MOST_GPUS]; /* opened when they are first asked */
    struct piece pieces[MOST];
    struct note notes[16 * MOST];
    int n_pieces, n_notes;
    int64_t asked, given, returned, strangers;
    int64_t fail_at, misalign_at; /* calls of allocate */
    int for_ever;
} lent = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_int_fast64_t elsewhere;

static void note(const void *stream, int is_return)
{
    if (lent.n_notes < 16 * MOST)
        lent.notes[lent.n_notes++] = (struct note){stream, is_return};
}

static int fails_now(void)
{
    return lent.fail_at > 0 && (lent.asked == lent.fail_at || (lent.for_ever && lent.asked > lent.fail_at));
}

/* NULL and a failed check where it cannot be had. */
static stn_device *source_of(int gpu)
{
    struct stni_error error = {.status = STN_OK};
    const char *folder = getenv("STN_TEST_CUDA_FOLDER");
    char name[16];
    snprintf(name, sizeof name, "cuda:%d", gpu);
    if (!lent.sources[gpu] && !CHECK_STATUS(stni_module_open_device(name, 0, folder ? folder : CUDA_FOLDER,
                                                                    &lent.sources[gpu], &error),
                                            STN_OK))
        CHECK_STR(error.text, "");
    return lent.sources[gpu];
}

static void *lend(stn_device *source, size_t bytes, void *stream)
{
    void *memory = NULL;
    const size_t shift = lent.asked == lent.misalign_at ? SHIFT : 0;
    if (!source || lent.n_pieces == MOST || fails_now() ||
        stni_device_allocate(source, bytes + shift, &memory) != STN_OK)
        return NULL;
    char *address = (char *)memory + shift;
    lent.pieces[lent.n_pieces++] = (struct piece){address, bytes, shift, source};
    lent.given++;
    note(stream, 0);
    return address;
}

static void *allocate(void *arg, size_t bytes, void *stream)
{
    pthread_mutex_lock(&lent.lock);
    lent.asked++;
    void *address = lend(source_of((int)(intptr_t)arg), bytes, stream);
    pthread_mutex_unlock(&lent.lock);
    return address;
}

static void deallocate(void *arg, void *pointer, size_t bytes, void *stream)
{
    int i = 0;
    (void)arg;
    pthread_mutex_lock(&lent.lock);
    while (i < lent.n_pieces && (lent.pieces[i].address != pointer || lent.pieces[i].bytes != bytes))
        i++;
    if (i == lent.n_pieces) {
        lent.strangers++;
    } else {
        stni_device_deallocate(lent.pieces[i].source, (char *)pointer - lent.pieces[i].shift,
                               bytes + lent.pieces[i].shift);
        lent.pieces[i] = lent.pieces[--lent.n_pieces];
        lent.returned++;
        note(stream, 1);
    }
    pthread_mutex_unlock(&lent.lock);
}

const stn_device_allocator lent_allocator = {
    .size = sizeof lent_allocator, .allocate = allocate, .deallocate = deallocate};

int lent_begin(void)
{
    lent.n_pieces = lent.n_notes = 0;
    lent.asked = lent.given = lent.returned = lent.strangers = 0;
    atomic_store(&elsewhere, 0);
    lent_fail_at(0, 0);
    lent_misalign_at(0);
    return source_of(0) != NULL;
}

void lent_end(void)
{
    CHECK_I64(lent.n_pieces, 0);
    CHECK_I64(lent.returned, lent.given);
    CHECK_I64(lent.strangers, 0);
    while (lent.n_pieces > 0) {
        const struct piece *piece = &lent.pieces[--lent.n_pieces];
        stni_device_deallocate(piece->source, piece->address - piece->shift, piece->bytes + piece->shift);
    }
    for (int gpu = 0; gpu < MOST_GPUS; gpu++)
        stni_device_destroy(&lent.sources[gpu]);
}

struct lent_counts lent_counts(void)
{
    struct lent_counts counts = {.bytes = 0};
    pthread_mutex_lock(&lent.lock);
    for (int i = 0; i < lent.n_pieces; i++)
        counts.bytes += (int64_t)lent.pieces[i].bytes;
    counts.live = lent.n_pieces;
    counts.asked = lent.asked;
    counts.given = lent.given;
    counts.returned = lent.returned;
    pthread_mutex_unlock(&lent.lock);
    return counts;
}

void lent_fail_at(int64_t n, int for_ever)
{
    lent.fail_at = n > 0 ? lent.asked + n : 0;
    lent.for_ever = for_ever;
}

void lent_misalign_at(int64_t n)
{
    lent.misalign_at = n > 0 ? lent.asked + n : 0;
}

int lent_owns(const void *address)
{
    int owns = 0;
    const char *at = address;
    pthread_mutex_lock(&lent.lock);
    for (int i = 0; i < lent.n_pieces; i++)
        owns |= at >= lent.pieces[i].address && at < lent.pieces[i].address + lent.pieces[i].bytes;
    pthread_mutex_unlock(&lent.lock);
    return owns;
}

static int64_t noted(const void *stream, int is_return)
{
    int64_t n = 0;
    pthread_mutex_lock(&lent.lock);
    for (int i = 0; i < lent.n_notes; i++)
        n += lent.notes[i].stream == stream && lent.notes[i].is_return == is_return;
    pthread_mutex_unlock(&lent.lock);
    return n;
}

int64_t lent_given_on(const void *stream)
{
    return noted(stream, 0);
}

int64_t lent_returned_on(const void *stream)
{
    return noted(stream, 1);
}

static stn_status refuse(void *impl, size_t bytes, void **out)
{
    (void)impl, (void)bytes, (void)out;
    atomic_fetch_add(&elsewhere, 1);
    return STN_ERR_MEMORY;
}

void lent_alone(stn_context *context)
{
    context->device->table.allocate = refuse;
}

int64_t lent_elsewhere(void)
{
    return atomic_load(&elsewhere);
}
