/* Small pictures: rectangles of colour, text in capitals, written as PNG. */
#ifndef EXAMPLES_COMMON_PICTURE_H
#define EXAMPLES_COMMON_PICTURE_H

#include <stdint.h>

struct colour {
    uint8_t red, green, blue;
};

struct picture {
    int width, height;
    struct colour *pixels; /* [height][width], the top row first */
};

/* A white one; 0 where there is no memory. */
int picture_make(int width, int height, struct picture *picture);
void picture_fini(struct picture *picture);

/* What lies outside the picture is left out. */
void picture_fill(struct picture *picture, int x, int y, int width, int height, struct colour colour);

enum { PICTURE_TEXT_HEIGHT = 10 };

/* Letters (as capitals), digits, blank . - / : in black; returns the width. */
int picture_text(struct picture *picture, int x, int y, const char *text);

/* From blue by white to red, value from -1 to 1. */
struct colour picture_diverging(double value);

/* One of many that are easy to tell from their neighbours. */
struct colour picture_distinct(int i);

/* Returns 1, or 0 with errno. */
int picture_write(const struct picture *picture, const char *path);

#endif
