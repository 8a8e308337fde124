/* A call of one op by name: what is given, right or wrong, and where it lies. All that a call is follows from a seed
 * and a number, and nothing in it points anywhere. */
#ifndef FUZZ_CALL_H
#define FUZZ_CALL_H

#include "conform/layouts.h"
#include "platform.h"

#include <shardtensor/shardtensor.h>

#include <stdio.h>

enum { CALL_INPUTS = 34, CALL_ATTRS = 24, CALL_OUTPUTS = 34, CALL_NAME = 64, CALL_BATCH = 64 /* calls in one world */ };

/** Which mesh of a world an input lies on. */
enum call_mesh { MESH_LOCAL, MESH_LINE, MESH_GRID, MESH_PART, MESH_BACKWARDS, MESHES };

enum call_given { GIVEN_TENSOR, GIVEN_NULL, GIVEN_ERROR, GIVEN_PREVIOUS /* the same tensor as the input before */ };

/** Numbers of an input: within -2 … 2, small whole ones, such ones from 0 on, NaN and extremes among them, rising
 * along the last dim. */
enum call_numbers { NUMBERS_REAL, NUMBERS_WHOLE, NUMBERS_INDEX, NUMBERS_SPECIAL, NUMBERS_RISING };

/** How the op is called: by name, by its handle, or with its attribute struct. */
enum call_way { WAY_NAME, WAY_HANDLE, WAY_STRUCT };

struct call_input {
    enum call_given given;
    stn_dtype dtype;
    int ndim;
    int64_t shape[STN_MAX_NDIM];
    enum call_mesh mesh;
    struct layout layout;
    enum call_numbers numbers;
    uint64_t seed;
    int requires_grad;
};

struct call_attr {
    stn_attr attr;        /* a text is in `text`, and its name in `name` */
    int schema;           /* which of the descriptor's; -1: none of them */
    int has_text;         /* 0: a NULL */
    char name[CALL_NAME], text[CALL_NAME];
};

/** What a call runs in: the same for CALL_BATCH of them. */
struct call_world {
    int ranks;
    stn_queue_kind queue;
    int checks;
    int on_device; /* not drawn: ranks are on a module's device, one rank alone is on the CPU */
};

struct call {
    const stn_op_desc *op;
    struct call_world world;
    enum call_way way;
    int n_inputs, n_attrs, n_outputs;
    struct call_input inputs[CALL_INPUTS];
    struct call_attr attrs[CALL_ATTRS];
    int differentiated;
    int perturbed; /* not drawn: the draw by which the last digits of floating inputs are changed; 0: none are */
    int special, pending, mixed; /* NaN or extremes among inputs and attributes; a Partial input; several meshes */
};

/** The ops that may be drawn. */
struct call_ops {
    int n;
    const stn_op_desc **op; /* built in: they outlive their context */
};

/** The world of call `number`; `ranks` > 0 instead of those drawn. */
struct call_world call_world_of(uint64_t seed, uint64_t number, int ranks);

/** Draws call `number`. */
void call_draw(struct call *call, const struct call_ops *ops, uint64_t seed, uint64_t number, int ranks);

/** The grid of a mesh of a world, and its ranks in row-major order. MESH_LOCAL has none. */
struct grid call_grid(enum call_mesh mesh, int world, int ranks[GRID_MAX_RANKS]);

/** Number `i`, row-major, of an input; `last` is the size of its last dim. */
double call_number(enum call_numbers numbers, stn_dtype dtype, uint64_t seed, int64_t i, int64_t last);

/** Stores number i of an array of any dtype; of complex elements 2 i is the real part of element i. */
void call_number_put(stn_dtype dtype, void *data, int64_t i, double x);

/** Reads it back. */
double call_number_at(stn_dtype dtype, const void *data, int64_t i);

/** Writes what the attributes say into the op's struct, attrs_size bytes of zeros. Those that it cannot hold are left
 * out. */
void call_fill_struct(const struct call *call, char *attrs);

/** Whether keys of attention go round, however short: in every other call of it. */
int call_goes_round(const struct call *call);

/** Whether gradients are differentiated, too: of one call in three. */
int call_goes_twice(const struct call *call);

/** Writes a C program that makes the call on one rank and in its world, whose ranks have a platform. */
void call_print(FILE *out, const struct call *call, const struct platform *platform);

#endif
