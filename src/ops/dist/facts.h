/* What the ranks of one call have to have alike, and their agreement before anything is moved. */
#ifndef STNI_OPS_DIST_FACTS_H
#define STNI_OPS_DIST_FACTS_H

#include "core/shard/mesh.h"

#include <shardtensor/context.h>

enum { STNI_MAX_FACTS = 24 };

/* "shape[0]", … */
extern const char *const stni_size_labels[STN_MAX_NDIM];

struct stni_ranges;

struct stni_fact {
    const char *label;
    const char *word; /* NULL: the number is written */
    int64_t number;
};

/* A call as its ranks compare it. Texts are written only where they differ. */
struct stni_facts {
    const char *collective;
    int n;
    struct stni_fact facts[STNI_MAX_FACTS];
    const int64_t *sizes; /* n_sizes numbers; NULL: none */
    int n_sizes;
    const struct stni_ranges *send, *receive; /* what this rank sends and expects, where pairs alone know; NULL: all follows from the rest */
};

static inline void stni_fact_add(struct stni_facts *facts, const char *label, const char *word, int64_t number)
{
    if (facts->n < STNI_MAX_FACTS)
        facts->facts[facts->n++] = (struct stni_fact){label, word, number};
}

/* The ranks of `mesh` compare what they are about to call, host to host: one agreement of 24 bytes. `status` is what
 * this rank found wrong, kept by its context; a rank that has failed before comes with that. STN_OK on all of them,
 * or on all the same error, kept, with the rank that failed or differs: nothing has been moved then, and the mesh
 * stays usable. Collective over the mesh; alone, and outside of it, it gives `status` back. `facts` may be NULL
 * where `status` is a failure. */
stn_status stni_dist_agree(const stn_mesh *mesh, stn_status status, const struct stni_facts *facts);

/* Of a call that was refused without an agreement. The rank cannot know who waits for it, if any do: its peers may have
 * been refused alike. It tells nobody, unless it ends without another collective, and counts it: the next agreement
 * compares the counts. Not counted are calls that are refused for what was kept before, of which ranks that have all
 * kept it make as many as they have meshes. What ranks agreed on is known already. Returns what is kept. */
stn_status stni_dist_count_refusal(stn_context *context, int is_counted);

/* Such a call, whose `mesh` is NULL, another context's, or named by the number of none. */
stn_status stni_dist_no_mesh(stn_context *context, const char *collective, const stn_mesh *mesh);

#endif
