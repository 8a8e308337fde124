/* Fibers: stacks of their own that one thread switches between. */
#ifndef STANDIN_FIBER_H
#define STANDIN_FIBER_H

#include <cstddef>

namespace standin {

struct fiber {
    void *stack_pointer = nullptr;
    char *memory = nullptr; /* the stack with a page below it that nothing may touch; NULL: a thread's own stack */
    const void *bottom = nullptr; /* for the address sanitizer, which must know the stack that is switched to */
    std::size_t size = 0;
    void *sanitizer = nullptr; /* the thread sanitizer's handle */
};

/* A stack on which `body` begins at the first switch to it. `body` begins with fiber_begun and never returns. Stacks
 * of other numbers begin at other lines of a page: those of a block's threads would share a few lines of the cache. */
void fiber_create(fiber &out, void (*body)(), std::size_t number);
void fiber_destroy(fiber &f);

/* The calling thread as a fiber, to switch back to. */
void fiber_of_thread(fiber &out);

/* Goes on with `to`; returns when somebody switches to `from`. `from` is where the call stands. */
void fiber_switch(fiber &from, fiber &to);

/* The last switch of a fiber, which is not entered again: what the address sanitizer keeps for its stack goes back. */
void fiber_leave(fiber &from, fiber &to);

/* The first call on a new fiber: `from` is the thread's own, which entered it. */
void fiber_begun(fiber &from);

}

#endif
