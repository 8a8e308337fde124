/* Slabs hand out distinct objects and what was put back last. */
#include "core/counted.h"
#include "harness.h"

#include "core/base/slab.h"

#include <string.h>

enum { N = 1000 };

struct object {
    void *link;
    int64_t number, more[3];
};

static void objects_do_not_overlap_and_are_zero_at_first(void)
{
    static struct object *objects[N];
    struct stni_slab *slab = stni_slab_create(sizeof(struct object));
    if (!CHECK_PTR(slab))
        return;
    for (int i = 0; i < N; i++) {
        objects[i] = stni_slab_take(slab);
        if (!CHECK_PTR(objects[i]))
            return;
        CHECK_I64(objects[i]->number | objects[i]->more[2], 0);
        memset(objects[i], 0xff, sizeof *objects[i]);
        objects[i]->number = i;
    }
    for (int i = 0; i < N; i++)
        CHECK_I64(objects[i]->number, i);
    stni_slab_destroy(&slab);
    CHECK_I64(counted_live(), 0);
}

static void last_put_is_taken_first_without_a_call_of_malloc(void)
{
    struct stni_slab *slab = stni_slab_create(sizeof(struct object));
    void *a = stni_slab_take(slab), *b = stni_slab_take(slab);
    int64_t before = counted_calls();
    stni_slab_put(slab, a);
    stni_slab_put(slab, b);
    CHECK(stni_slab_take(slab) == b);
    CHECK(stni_slab_take(slab) == a);
    CHECK_I64(counted_calls(), before);
    stni_slab_destroy(&slab);
}

static void count_live(void *object, void *arg)
{
    *(int64_t *)arg += ((struct object *)object)->number != 0;
}

static void each_visits_live_and_free_objects_of_all_chunks(void)
{
    struct stni_slab *slab = stni_slab_create(sizeof(struct object));
    for (int i = 0; i < N; i++) {
        struct object *object = stni_slab_take(slab);
        object->number = 1;
        if (i % 2 == 0)
            object->number = 0;
    }
    int64_t live = 0;
    stni_slab_each(slab, count_live, &live);
    CHECK_I64(live, N / 2);
    stni_slab_destroy(&slab);
}

struct walk {
    struct stni_slab *slab;
    struct object *objects[N];
};

/* Puts the object behind the one that is visited. */
static void put_next(void *object, void *arg)
{
    struct walk *walk = arg;
    int64_t next = ((struct object *)object)->number;
    if (next == 0 || next == N || walk->objects[next]->number == 0)
        return;
    walk->objects[next]->number = 0;
    stni_slab_put(walk->slab, walk->objects[next]);
}

static void objects_may_be_put_while_each_walks(void)
{
    static struct walk walk;
    int64_t live = 0;
    walk.slab = stni_slab_create(sizeof(struct object));
    for (int i = 0; i < N; i++) {
        walk.objects[i] = stni_slab_take(walk.slab);
        walk.objects[i]->number = i + 1;
    }
    stni_slab_each(walk.slab, put_next, &walk);
    stni_slab_each(walk.slab, count_live, &live);
    CHECK(live > 0 && live < N);
    stni_slab_destroy(&walk.slab);
}

static void no_memory_gives_null_and_leaves_the_slab_whole(void)
{
    struct stni_slab *slab = stni_slab_create(sizeof(struct object));
    counted_fail_at(1, 0);
    CHECK(stni_slab_take(slab) == NULL);
    CHECK_PTR(stni_slab_take(slab));
    counted_fail_at(1, 0);
    CHECK(stni_slab_create(8) == NULL);
    counted_fail_at(0, 0);
    stni_slab_destroy(&slab);
    CHECK(slab == NULL);
    CHECK_I64(counted_live(), 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"objects_do_not_overlap_and_are_zero_at_first", objects_do_not_overlap_and_are_zero_at_first},
        {"last_put_is_taken_first_without_a_call_of_malloc", last_put_is_taken_first_without_a_call_of_malloc},
        {"each_visits_live_and_free_objects_of_all_chunks", each_visits_live_and_free_objects_of_all_chunks},
        {"objects_may_be_put_while_each_walks", objects_may_be_put_while_each_walks},
        {"no_memory_gives_null_and_leaves_the_slab_whole", no_memory_gives_null_and_leaves_the_slab_whole},
    };
    return TEST_MAIN(argc, argv, cases);
}
